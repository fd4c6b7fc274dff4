//! What the body of a request costs: limits that it brings along, and many checks in one.

use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testkit::processes::Directory;

use super::request::Case;
use crate::harness::h2load::{CPU, RATE, Target};
use crate::harness::{
    Bench, Entrant, Figures, Goal, H2load, LoadRequest, Process, Ratio, Row, ServerUnderLoad,
    post_json, serve_command,
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
const CHECK_PATH: &str = "/v1/check";
pub(super) const BATCH_PATH: &str = "/v1/batch";

/// Measures all bodies in turn, each on a server of its own.
pub(super) fn measure(bench: &mut Bench, h2load: &H2load, tollgate: &Path) -> Result<()> {
    let check: Value = serde_json::from_str(&CASE.json(None))?;
    let inline = json!({"limits": [{
        "name": "inline", "key": "203.0.113.7",
        "algorithm": "token_bucket", "capacity": 1_000_000_000, "refill_rate": "1/s",
    }]});

    let config = CASE.config(None);
    let start = |name: &str, path: &'static str, body: &Value| {
        BodyServer {
            tollgate,
            name,
            path,
        }
        .start(CASE, &config, body)
    };
    let servers = [
        start(CHECK, CHECK_PATH, &check)?,
        start(INLINE, CHECK_PATH, &inline)?,
        start(BATCH, BATCH_PATH, &batch(CASE)?)?,
    ];
    let pids: Vec<u32> = servers.iter().map(|server| server.process.pid()).collect();
    let entrants = servers.iter().map(|server| {
        Entrant::new(&server.name, CASE.name(), |length| {
            let figures = h2load.round(server, length)?;
            Ok(match server.target.path {
                BATCH_PATH => of_one_check(figures),
                _ => figures,
            })
        })
    });
    bench.measure(NAME, &pids, entrants.collect())?;
    Ok(())
}

/// A batch of checks.
pub(super) fn batch(case: Case) -> Result<Value> {
    let mut item: Value = serde_json::from_str(&case.json(None))?;
    item["op"] = "check".into();
    Ok(json!({ "requests": vec![item; usize::from(CHECKS)] }))
}

/// The figures of one check of a batch.
pub(super) fn of_one_check(mut figures: Figures) -> Figures {
    let checks = f64::from(CHECKS);
    figures.entry(RATE).and_modify(|rate| *rate *= checks);
    figures.entry(CPU).and_modify(|cpu| *cpu /= checks);
    figures
}

/// A server that gets one body.
pub(super) struct BodyServer<'a> {
    pub(super) tollgate: &'a Path,
    /// The name of the subject.
    pub(super) name: &'a str,
    pub(super) path: &'static str,
}

impl BodyServer<'_> {
    /// Starts it. It must answer the body as the case expects.
    pub(super) fn start(self, case: Case, config: &str, body: &Value) -> Result<ServerUnderLoad> {
        let directory = Directory::create();
        let command = serve_command(self.tollgate, &directory, config);
        let body = body.to_string();
        let sent = LoadRequest::Json(directory.write("body", &body));
        let mut process = Process::spawn(command, directory)?;
        let server = process.announced("http ")?;

        // A limit that is to be used up is used up after the first check.
        let [_, response] = [(); 2].map(|()| post_json(server, self.path, &body).text());
        let is_expected = |is_allowed: bool| {
            let allowed = format!(r#""allowed":{is_allowed}"#);
            response.contains(&allowed) == (is_allowed == case.is_allowed())
        };
        ensure!(
            is_expected(true) && is_expected(false),
            "unexpected response: {response}"
        );
        Ok(ServerUnderLoad {
            name: self.name.to_owned(),
            target: Target {
                server,
                path: self.path,
                sent,
                status: 200,
            },
            process,
            beside: Vec::new(),
            redis: None,
        })
    }
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
