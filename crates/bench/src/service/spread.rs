//! How long it takes until what an operator did holds on all replicas, also when the store fails
//! over.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use testkit::reverse_proxy::send;
use testkit::servers::{Flavor, Sentinels, Server};
use testkit::wait::within;

use crate::harness::{
    Bench, Entrant, Figures, H2load, Process, Report, Row, Table, post_json, time,
};

/// The name in tables.
pub(super) const NAME: &str = "on call, a block on 8 replicas";
const REDIS: &str = "Redis";
/// The primary is killed as soon as the block is acknowledged.
const FAIL_OVER: &str = "Redis, the primary is killed";
/// Milliseconds from the response to the block until the last replica denies its key.
const HOLDS: &str = "holds_ms";
/// Milliseconds until the store decides again on all replicas.
const STORE: &str = "store_ms";

const REPLICAS: usize = 8;
const BLOCKED: &str = r#"{"attributes": {"client_ip": "203.0.113.7"}}"#;
const OTHER: &str = r#"{"attributes": {"client_ip": "203.0.113.8"}}"#;
const PATIENCE: Duration = Duration::from_secs(30);

/// Replicas of the service on one store.
struct Replicas {
    ports: Vec<ReplicaPorts>,
    _processes: Vec<Process>,
}

#[derive(Clone, Copy)]
struct ReplicaPorts {
    http: SocketAddr,
    admin: SocketAddr,
}

impl Replicas {
    /// Starts them, and waits until all reach the store and know each other.
    fn start(tollgate: &Path, store: &str) -> Result<Self> {
        let config = format!(
            "store: {{ {store}, timeout: 250ms }}\n\
             defaults: {{ on_store_failure: deny, expected_replicas: {REPLICAS} }}\n\
             limits: [{{ name: api, key: [client_ip], algorithm: token_bucket, \
             capacity: 1000000000, refill_rate: 1/s }}]\n"
        );
        let (mut ports, mut processes) = (Vec::new(), Vec::new());
        for _ in 0..REPLICAS {
            let mut process = Process::serve(tollgate, &config, |_| ())?;
            let (http, admin) = (process.announced("http ")?, process.announced("admin ")?);
            ports.push(ReplicaPorts { http, admin });
            processes.push(process);
        }
        let replicas = Self {
            ports,
            _processes: processes,
        };
        replicas.until_all("to reach the store", |one| one.source_is(OTHER, "store"))?;
        replicas.until_all("to know each other", |one| {
            let fleet = send(one.admin, "GET", "/admin/fleet", &[], b"").text();
            fleet.contains(&format!(r#""seen":{REPLICAS},"#))
        })?;
        Ok(replicas)
    }

    /// Waits until this holds for all, and returns how long that took.
    fn until_all(&self, what: &str, holds: impl Fn(ReplicaPorts) -> bool) -> Result<f64> {
        let (span, found) = time(|| {
            let mut replicas = self.ports.iter();
            replicas.all(|replica| within(PATIENCE, || holds(*replica).then_some(())).is_some())
        });
        ensure!(found, "a replica took too long {what}");
        Ok(span.wall.as_secs_f64() * 1e3)
    }

    /// Blocks the key through the first replica, and returns the id of the block.
    fn block(&self) -> Result<String> {
        let block = json!({
            "limit": "api", "key": { "client_ip": "203.0.113.7" },
            "for": "1h", "reason": "measurement", "by": "bench",
        });
        let response = post_json(self.ports[0].admin, "/admin/blocks", &block.to_string());
        let action: serde_json::Value = serde_json::from_str(&response.text())?;
        let id = action["id"].as_str().map(str::to_owned);
        id.ok_or_else(|| anyhow::anyhow!("unexpected response to a block: {}", response.text()))
    }

    fn until_blocked(&self) -> Result<f64> {
        self.until_all("to block the key", |one| one.source_is(BLOCKED, "block"))
    }
}

impl ReplicaPorts {
    fn source_is(self, body: &str, source: &str) -> bool {
        let response = post_json(self.http, "/v1/check", body);
        response.text().contains(&format!(r#""source":"{source}""#))
    }
}

/// Measures a healthy store and one that fails over.
pub(super) fn measure(bench: &mut Bench, _: &H2load, programs: &[PathBuf]) -> Result<()> {
    let tollgate = &programs[0];
    let server = Server::start(Flavor::Redis);
    let store = format!("type: redis, endpoints: ['{}']", server.url());
    let replicas = Replicas::start(tollgate, &store)?;
    let healthy = Entrant::new(REDIS, NAME, |_| {
        let id = replicas.block()?;
        let holds = replicas.until_blocked()?;
        let path = format!("/admin/blocks/{id}?wait=10s");
        let undone = send(replicas.ports[0].admin, "DELETE", &path, &[], b"");
        ensure!(
            undone.text().contains(r#""behind":[]"#),
            "unexpected response: {}",
            undone.text()
        );
        Ok(Figures::from([(HOLDS, holds)]))
    });
    let fail_over = Entrant::new(FAIL_OVER, NAME, |_| fail_over(tollgate));
    bench.measure(NAME, &[], vec![healthy, fail_over])?;
    Ok(())
}

/// Each round has a store and replicas of its own.
fn fail_over(tollgate: &Path) -> Result<Figures> {
    let sentinels = Sentinels::start(Flavor::Redis);
    let store = format!(
        "type: redis-sentinel, master: {}, endpoints: {:?}",
        sentinels.master_name(),
        sentinels.urls()
    );
    let replicas = Replicas::start(tollgate, &store)?;
    replicas.block()?;
    sentinels.primary().kill();
    let holds = replicas.until_blocked()?;
    let store = replicas.until_all("to reach the new primary", |one| {
        one.source_is(OTHER, "store")
    })?;
    Ok(Figures::from([(HOLDS, holds), (STORE, holds + store)]))
}

/// The times of all rounds.
pub(super) fn table(report: &Report) -> Table {
    let heads = [
        "store",
        "ms until it holds",
        "fastest..slowest",
        "ms until the store decides",
    ];
    let rows = report.case(NAME);
    Table::new(NAME, heads).with_lines(rows, |row: &Row| {
        vec![
            row.subject.clone(),
            row.count(HOLDS),
            row.counts(HOLDS),
            row.number(STORE, 0),
        ]
    })
}
