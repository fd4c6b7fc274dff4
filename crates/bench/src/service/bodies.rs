//! What the body of a request costs: limits that it brings along, and many checks in one.

use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testkit::processes::Directory;

use super::request::Case;
use crate::harness::h2load::{CPU, RATE, Target};
use crate::harness::{
    Bench, Entrant, Goal, H2load, LoadRequest, Process, Ratio, Row, ServerUnderLoad, post_json,
    serve_command,
};

/// The name in tables.
pub(super) const NAME: &str = "decisions per second over HTTP/1.1, by body";
/// One check of the configured limit.
const CHECK: &str = "check";
/// The same check, of a limit with the same numbers in the body.
const INLINE: &str = "check, inline limit";
/// Many of the first in one request; the figures are those of a check.
const BATCH: &str = "batch of 64 checks";
const CHECKS: u16 = 64;
const CASE: Case = Case::Allowed;

/// Measures all bodies in turn, each on a server of its own.
pub(super) fn measure(bench: &mut Bench, h2load: &H2load, tollgate: &Path) -> Result<()> {
    let check: Value = serde_json::from_str(&CASE.json(None))?;
    let mut item = check.clone();
    item["op"] = "check".into();
    let batch = json!({ "requests": vec![item; usize::from(CHECKS)] });
    let inline = json!({"limits": [{
        "name": "inline", "key": "203.0.113.7",
        "algorithm": "token_bucket", "capacity": 1_000_000_000, "refill_rate": "1/s",
    }]});

    let servers = [
        start(tollgate, CHECK, "/v1/check", &check)?,
        start(tollgate, INLINE, "/v1/check", &inline)?,
        start(tollgate, BATCH, "/v1/batch", &batch)?,
    ];
    let pids: Vec<u32> = servers.iter().map(|server| server.process.pid()).collect();
    let entrants = servers.iter().map(|server| {
        Entrant::new(&server.name, CASE.name(), |length| {
            let mut figures = h2load.round(server, length)?;
            if server.name == BATCH {
                let checks = f64::from(CHECKS);
                figures.entry(RATE).and_modify(|rate| *rate *= checks);
                figures.entry(CPU).and_modify(|cpu| *cpu /= checks);
            }
            Ok(figures)
        })
    });
    bench.measure(NAME, &pids, entrants.collect())?;
    Ok(())
}

/// Starts a server that gets this body, which it must answer with an admission.
fn start(tollgate: &Path, name: &str, path: &'static str, body: &Value) -> Result<ServerUnderLoad> {
    let directory = Directory::create();
    let command = serve_command(tollgate, &directory, &CASE.config(None));
    let body = body.to_string();
    let sent = LoadRequest::Json(directory.write("body", &body));
    let mut process = Process::spawn(command, directory)?;
    let server = process.announced("http ")?;

    let response = post_json(server, path, &body).text();
    let is_allowed = response.contains(r#""allowed":true"#) && !response.contains("429");
    ensure!(is_allowed, "unexpected response: {response}");
    Ok(ServerUnderLoad {
        name: name.to_owned(),
        target: Target {
            server,
            path,
            sent,
            status: 200,
        },
        process,
        beside: Vec::new(),
        redis: None,
    })
}

/// The ratios to a single check of a configured limit, with their goals.
pub(super) fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let row = |subject: &str| {
        let mut rows = rows.iter().filter(|row| row.case == NAME);
        rows.find(|row| row.subject == subject)
    };
    let goals = [(INLINE, 0.9), (BATCH, 5.0)];
    let ratios = goals.into_iter().filter_map(|(subject, least)| {
        let goal = Some(Goal::AtLeast(least));
        Some(Ratio::of_medians(RATE, row(subject)?, row(CHECK)?, goal))
    });
    ratios.collect()
}
