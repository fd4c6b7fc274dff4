//! How long it takes until what an operator did holds on all replicas, also when the store fails
//! over.

use std::net::SocketAddr;

use crate::harness::prelude::*;
use serde_json::{Value, json};
use testkit::reverse_proxy::send;
use testkit::servers::Sentinels;
use testkit::wait::within;

/// The name in tables.
pub(super) const NAME: &str = "on call, a block on 8 replicas";
const REDIS: &str = "Redis";
/// The primary is killed as soon as the block is acknowledged.
const FAIL_OVER: &str = "Redis, the primary is killed";

const REPLICAS: usize = 8;
const BLOCKED: &str = r#"{"attributes": {"client_ip": "203.0.113.7"}}"#;
const OTHER: &str = r#"{"attributes": {"client_ip": "203.0.113.8"}}"#;
const PATIENCE: Duration = Duration::from_secs(30);

/// A replica of the service.
struct Replica {
    _process: Process,
    http: SocketAddr,
    admin: SocketAddr,
}

impl Replica {
    fn source_is(&self, body: &str, source: &str) -> bool {
        let response = post_json(self.http, "/v1/check", body);
        response.text().contains(&format!(r#""source":"{source}""#))
    }
}

/// Starts replicas on one store, and waits until all reach the store and know each other.
fn start(tollgate: &Path, store: &str) -> Result<Vec<Replica>> {
    let config = format!(
        "store: {{ {store}, timeout: 250ms }}\n\
         defaults: {{ on_store_failure: deny, expected_replicas: {REPLICAS} }}\n\
         limits: [{{ name: api, key: [client_ip], algorithm: token_bucket, \
         capacity: 1000000000, refill_rate: 1/s }}]\n"
    );
    let start = |_| {
        let mut process = Process::serve(tollgate, &config, |_| ())?;
        Ok(Replica {
            http: process.announced("http ")?,
            admin: process.announced("admin ")?,
            _process: process,
        })
    };
    let replicas: Vec<Replica> = (0..REPLICAS).map(start).collect::<Result<_>>()?;
    until_all(&replicas, "to reach the store", |one| {
        one.source_is(OTHER, "store")
    })?;
    until_all(&replicas, "to know each other", |one| {
        let fleet = send(one.admin, "GET", "/admin/fleet", &[], b"").text();
        fleet.contains(&format!(r#""seen":{REPLICAS},"#))
    })?;
    Ok(replicas)
}

/// Waits until this holds for all, and returns how many milliseconds that took.
fn until_all(replicas: &[Replica], what: &str, holds: impl Fn(&Replica) -> bool) -> Result<f64> {
    let (span, found) = time(|| {
        let mut replicas = replicas.iter();
        replicas.all(|replica| within(PATIENCE, || holds(replica).then_some(())).is_some())
    });
    ensure!(found, "a replica took too long {what}");
    Ok(span.wall.as_secs_f64() * 1e3)
}

fn until_blocked(replicas: &[Replica]) -> Result<f64> {
    until_all(replicas, "to block the key", |one| {
        one.source_is(BLOCKED, "block")
    })
}

/// Blocks the key through a replica, and returns the id of the block.
fn block(replica: &Replica) -> Result<String> {
    let block = json!({
        "limit": "api", "key": { "client_ip": "203.0.113.7" },
        "for": "1h", "reason": "measurement", "by": "bench",
    });
    let response = post_json(replica.admin, "/admin/blocks", &block.to_string()).text();
    let action: Value = serde_json::from_str(&response)?;
    let id = action["id"].as_str().map(str::to_owned);
    id.with_context(|| format!("unexpected response to a block: {response}"))
}

/// Measures a healthy store and one that fails over.
pub(super) fn measure(bench: &mut Bench, _: &H2load, programs: &[PathBuf]) -> Result<()> {
    let tollgate = &programs[0];
    let server = Server::start(Flavor::Redis);
    let store = format!("type: redis, endpoints: ['{}']", server.url());
    let replicas = start(tollgate, &store)?;
    let healthy = Entrant::new(REDIS, NAME, |_| {
        let id = block(&replicas[0])?;
        let holds = until_blocked(&replicas)?;
        let path = format!("/admin/blocks/{id}?wait=10s");
        let undone = send(replicas[0].admin, "DELETE", &path, &[], b"").text();
        let is_undone = undone.contains(r#""behind":[]"#);
        ensure!(is_undone, "unexpected response: {undone}");
        Ok(Figures::from([("holds_ms", holds)]))
    });
    let fail_over = Entrant::new(FAIL_OVER, NAME, |_| fail_over(tollgate));
    bench.measure(NAME, &[], vec![healthy, fail_over])?;
    Ok(())
}

/// Each round has a store and replicas of its own.
fn fail_over(tollgate: &Path) -> Result<Figures> {
    let sentinels = Sentinels::start(Flavor::Redis);
    let (master, urls) = (sentinels.master_name(), sentinels.urls());
    let store = format!("type: redis-sentinel, master: {master}, endpoints: {urls:?}");
    let replicas = start(tollgate, &store)?;
    block(&replicas[0])?;
    sentinels.primary().kill();
    let holds = until_blocked(&replicas)?;
    let store = until_all(&replicas, "to reach the new primary", |one| {
        one.source_is(OTHER, "store")
    })?;
    Ok(Figures::from([
        ("holds_ms", holds),
        ("store_ms", holds + store),
    ]))
}

/// The times of all rounds: milliseconds from the response to the block until the last replica denies
/// its key, and until the store decides again on all replicas.
pub(super) fn table(report: &Report) -> Table {
    let columns = [
        ("store", "{subject}"),
        ("ms until it holds", "{holds_ms:,}"),
        ("fastest..slowest", "{holds_ms:..,}"),
        ("ms until the store decides", "{store_ms:0}"),
    ];
    Table::from_rows(NAME, report.case(NAME), &columns)
}
