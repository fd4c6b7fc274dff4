//! A step is an interval, so nothing here waits for time.

use testkit::servers::{Flavor, Server};
use testkit::wait;
use tokio::runtime::Runtime;
use tollgate_gate::metrics::Metrics;
use tollgate_rules::Config;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);
/// Steps in a minute.
const MINUTE: u32 = 300;

const HEALTHY: StoreSigns = StoreSigns {
    is_up: true,
    is_degraded: false,
    replies: 0,
};

/// A schedule that has made its first step, which probes.
fn started() -> ProbeSchedule {
    let mut schedule = ProbeSchedule::new();
    assert!(schedule.is_due(HEALTHY), "nothing is known at the start");
    schedule
}

/// How often the store is probed in a minute. The store has `calls` per step, and answers probes.
fn probes_per_minute(calls: u64, signs: StoreSigns) -> u32 {
    let mut schedule = started();
    let mut replies = 0;
    let mut probes = 0;
    for _ in 0..MINUTE {
        replies += calls;
        if schedule.is_due(StoreSigns { replies, ..signs }) {
            probes += 1;
            replies += 1;
        }
    }
    probes
}

#[test]
fn a_store_is_probed_only_without_evidence() {
    let disconnected = StoreSigns {
        is_up: false,
        ..HEALTHY
    };
    let degraded = StoreSigns {
        is_degraded: true,
        ..disconnected
    };

    assert_eq!(probes_per_minute(0, HEALTHY), 5, "an idle store");
    assert_eq!(probes_per_minute(1, HEALTHY), 0, "calls are evidence");
    assert_eq!(probes_per_minute(0, disconnected), 75, "a lost server");
    assert_eq!(
        probes_per_minute(1, disconnected),
        0,
        "others answer, and their callers notice the lost one"
    );
    assert_eq!(
        probes_per_minute(1, degraded),
        MINUTE,
        "its return is awaited"
    );
}

#[test]
fn an_idle_store_is_probed_when_a_connection_is_lost() {
    let mut schedule = started();
    let disconnected = StoreSigns {
        is_up: false,
        ..HEALTHY
    };

    for _ in 0..3 {
        assert!(!schedule.is_due(HEALTHY), "it was just probed");
    }
    assert!(schedule.is_due(disconnected));
}

#[test]
fn another_store_is_not_taken_for_a_reply() {
    let mut schedule = started();
    let replies = |replies| StoreSigns { replies, ..HEALTHY };
    assert!(!schedule.is_due(replies(100)));

    let steps = (1..=MINUTE).find(|_| schedule.is_due(replies(0)));
    assert_eq!(steps, Some(50), "ten seconds after the last reply");
}

/// The number of scripts that the server has been sent.
fn scripts_run(server: &Server) -> u64 {
    let info = server.command(&["INFO", "commandstats"]);
    let calls = |line: &str| {
        let (command, numbers) = line.split_once(":calls=")?;
        let (calls, _) = numbers.split_once(',')?;
        let is_script = ["cmdstat_eval", "cmdstat_evalsha"].contains(&command);
        calls.parse::<u64>().ok().filter(|_| is_script)
    };
    let info = info.as_str().unwrap_or_default();
    info.lines().filter_map(calls).sum()
}

/// A gate on the server, which it has connected to.
fn connected_gate(runtime: &Runtime, server: &Server, timeout: &str) -> Gate {
    let text = format!(
        "store: {{ type: redis, endpoints: ['{}'], timeout: {timeout} }}\n\
         limits: [{{ name: a, key: [], algorithm: sliding_log, limit: 1, window: 1s }}]",
        server.url()
    );
    let config = Config::parse(&text, "t.yaml", &|_| None).expect("a valid configuration");
    let _inside = runtime.enter();
    let gate = Gate::open(config, Arc::new(Metrics::default())).expect("valid settings");
    wait::until_true(PATIENCE, "the store", || gate.store_signs().is_up);
    gate
}

#[test]
fn an_idle_replica_leaves_its_store_alone() {
    let server = Server::start(Flavor::Redis);
    let runtime = Runtime::new().expect("a runtime");
    // A probe that is late would be followed by others, so it gets all the time of the test.
    let gate = connected_gate(&runtime, &server, "10s");
    let mut schedule = ProbeSchedule::new();

    runtime.block_on(schedule.step(&gate));
    let before = scripts_run(&server);
    assert!(before > 0, "the first step probes");
    for _ in 0..MINUTE {
        runtime.block_on(schedule.step(&gate));
    }
    assert_eq!(scripts_run(&server) - before, 5, "in a minute");
}

#[test]
fn an_idle_replica_notices_an_outage() {
    let server = Server::start(Flavor::Redis);
    let runtime = Runtime::new().expect("a runtime");
    let gate = connected_gate(&runtime, &server, "1s");
    let mut schedule = ProbeSchedule::new();
    let mut step = || runtime.block_on(schedule.step(&gate));
    step();

    // Without traffic, only the connection shows that the server hangs.
    server.freeze();
    wait::until_true(PATIENCE, "the loss of the server", || {
        !gate.store_signs().is_up
    });
    let steps = (1..=MINUTE).find(|_| {
        step();
        gate.health().degraded
    });
    assert!(steps.is_some_and(|steps| steps <= 4), "steps: {steps:?}");

    server.thaw();
    wait::until_true(PATIENCE, "the end of the outage", || {
        step();
        !gate.health().degraded
    });
}
