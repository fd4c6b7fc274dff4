//! The RESP port on a shared store: replicas share counters, pipelines share round trips, and an
//! outage is not mistaken for a denial.

use testkit::reverse_proxy;
use testkit::servers::{Flavor, Reply, Server};
use testkit::wait;

use super::{connect, integers};
use crate::harness::{PATIENCE, Tollgate};

/// The length of a pipeline.
const CALLS: usize = 200;

fn on(url: &str, policy: &str) -> String {
    format!(
        "store: {{type: redis, endpoints: ['{url}'], timeout: 1s}}\n\
         defaults: {{on_store_failure: {policy}}}\n\
         limits: [{{name: api, key: [user], algorithm: sliding_log, limit: 10, window: 1h}}]"
    )
}

/// A service that has reached its store.
fn start(config: &str) -> Tollgate {
    let service = Tollgate::with_resp(config);
    wait::until_true(PATIENCE, "the store", || {
        let peek = service.post("/v1/peek", r#"{"attributes": {"user": "nobody"}}"#);
        peek.header("x-ratelimit-fallback").is_none() && peek.status == 200
    });
    service
}

/// How many scripts the server has run.
fn scripts(server: &Server) -> u64 {
    let info = server.command(&["INFO", "commandstats"]);
    let info = info.as_str().expect("a text").to_owned();
    let calls = info.lines().filter_map(|line| {
        let (name, numbers) = line.split_once(":calls=")?;
        let calls = numbers.split(',').next()?.parse::<u64>().ok()?;
        ["cmdstat_eval", "cmdstat_evalsha"]
            .contains(&name)
            .then_some(calls)
    });
    calls.sum()
}

#[test]
fn replicas_share_the_counter_of_a_key() {
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        let server = Server::start(flavor);
        let services = [(); 2].map(|()| start(&on(&server.url(), "deny")));
        let mut clients = services.each_ref().map(connect);
        let throttle = ["CL.THROTTLE", "shared", "2", "1", "3600"];
        let limited = [0, 1, 0, 1, 0].map(|client: usize| {
            let reply = clients[client].call(&throttle).expect("a reply");
            integers(&reply)[..3].to_vec()
        });
        let expected = [[0, 3, 2], [0, 3, 1], [0, 3, 0], [1, 3, 0], [1, 3, 0]];
        assert_eq!(limited, expected.map(Vec::from), "{flavor:?}");
        assert_eq!(server.immortal_keys(), Vec::<Vec<u8>>::new());
    }
}

#[test]
fn the_decisions_of_a_pipeline_share_round_trips() {
    let server = Server::start(Flavor::Redis);
    let service = start(&on(&server.url(), "deny"));
    let mut client = connect(&service);
    let before = scripts(&server);

    for call in 0..CALLS {
        let key = format!("key-{}", call % 2);
        let words = ["CL.THROTTLE", &key, "99", "100", "3600"].map(str::as_bytes);
        client.send(&words).expect("it is open");
    }
    for call in 0..CALLS {
        let reply = integers(&client.receive().expect("a reply"));
        // In the order of the calls: two keys take turns.
        let remaining = 99 - i64::try_from(call / 2).expect("a small number");
        assert_eq!(reply[..3], [0, 100, remaining], "call {call}");
    }
    let trips = scripts(&server) - before;
    assert!(
        trips < CALLS as u64 / 2,
        "{trips} round trips for {CALLS} decisions"
    );

    let metrics = reverse_proxy::get(service.admin, "/metrics", &[]).text();
    let sample = format!(
        "tollgate_decisions_total{{limit=\"override:cl.throttle\",outcome=\"allowed\",source=\"store\"}} {CALLS}\n"
    );
    assert!(metrics.contains(&sample), "{metrics}");
}

/// More decisions than the port may have in the store wait for room, and hold nothing meanwhile:
/// other connections are answered, and every call gets its reply in the end.
#[test]
fn pipelines_that_wait_for_the_store_hold_nobody() {
    let server = Server::start(Flavor::Redis);
    let service = start(&on(&server.url(), "allow"));
    let mut clients = [(); 5].map(|()| connect(&service));

    server.freeze();
    for client in &mut clients {
        for call in 0..CALLS {
            let key = format!("key-{call}");
            let words = ["TOLLGATE.CHECK", "api", &key].map(str::as_bytes);
            client.send(&words).expect("it is open");
        }
    }
    let pong = connect(&service).call(&["PING"]).expect("a reply");
    assert_eq!(pong.as_str(), Some("PONG"));
    server.thaw();

    for client in &mut clients {
        for _ in 0..CALLS {
            assert_eq!(integers(&client.receive().expect("a reply")).len(), 5);
        }
    }
}

#[test]
fn an_outage_is_an_error_or_a_decision_as_the_failure_policy_says() {
    let server = Server::start(Flavor::Redis);
    let services = ["deny", "allow", "local"].map(|policy| start(&on(&server.url(), policy)));
    server.kill();

    let [deny, allow, local] = services.each_ref().map(|service| {
        let mut client = connect(service);
        client
            .call(&["TOLLGATE.CHECK", "api", "ann"])
            .expect("a reply")
    });
    let text =
        "ERR store unavailable: the limit `api` has `on_store_failure: deny`; retry in a second";
    assert_eq!(deny.error(), Some(text));
    assert_eq!(integers(&allow)[0], 0);
    assert_eq!(integers(&local)[0], 0);

    // The numbers of a call come with it, its failure policy from the defaults of the file.
    let throttle = ["CL.THROTTLE", "ann", "0", "1", "3600"];
    let twice = |service| {
        let mut client = connect(service);
        [(); 2].map(|()| client.call(&throttle).expect("a reply"))
    };
    let [deny, allow, local] = services.each_ref().map(twice);
    let text = "ERR store unavailable: the limit `override:cl.throttle` has `on_store_failure: deny`; retry in a second";
    assert_eq!(deny.each_ref().map(Reply::error), [Some(text); 2]);
    assert_eq!(allow.map(|reply| integers(&reply)[0]), [0, 0]);
    assert_eq!(local.map(|reply| integers(&reply)[0]), [0, 1]);
}
