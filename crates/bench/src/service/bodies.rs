//! What the body of a request costs: limits that it brings along, and many checks in one.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::request::Case;
use crate::harness::h2load::{RATE, Target};
use crate::harness::{
    Bench, Goal, H2load, LoadRequest, Process, Ratio, Report, ServerUnderLoad, post_json,
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
pub(super) fn measure(bench: &mut Bench, h2load: &H2load, programs: &[PathBuf]) -> Result<()> {
    let inline = json!({"limits": [{
        "name": "inline", "key": "203.0.113.7",
        "algorithm": "token_bucket", "capacity": 1_000_000_000, "refill_rate": "1/s",
    }]});
    let bodies = [
        (CHECK, RequestBody::check(&CASE.json(None))),
        (INLINE, RequestBody::check(&inline)),
        (BATCH, RequestBody::batch(CASE)),
    ];

    let config = CASE.config(None);
    let servers = bodies.map(|(name, body)| body.start(&programs[0], name, CASE, &config));
    let servers: Vec<ServerUnderLoad> = servers.into_iter().collect::<Result<_>>()?;
    h2load.measure(bench, NAME, CASE.name(), &servers)?;
    Ok(())
}

/// The body of a request, and where it is sent.
pub(super) struct RequestBody {
    path: &'static str,
    json: String,
    checks: u16,
}

impl RequestBody {
    fn check(json: &Value) -> Self {
        Self {
            path: "/v1/check",
            json: json.to_string(),
            checks: 1,
        }
    }

    /// A batch of checks.
    pub(super) fn batch(case: Case) -> Self {
        let mut item = case.json(None);
        item["op"] = "check".into();
        let requests = vec![item; usize::from(CHECKS)];
        Self {
            path: "/v1/batch",
            json: json!({ "requests": requests }).to_string(),
            checks: CHECKS,
        }
    }

    /// Starts a server that gets this body, and must answer it as the case expects.
    pub(super) fn start(
        self,
        tollgate: &Path,
        name: &str,
        case: Case,
        config: &str,
    ) -> Result<ServerUnderLoad> {
        let mut process = Process::serve(tollgate, config, |_| ())?;
        let server = process.announced("http ")?;

        // A limit that is to be used up is used up after the first check.
        let [_, response] = [(); 2].map(|()| post_json(server, self.path, &self.json).text());
        let is_expected = |is_allowed: bool| {
            let allowed = format!(r#""allowed":{is_allowed}"#);
            response.contains(&allowed) == (is_allowed == case.is_allowed())
        };
        ensure!(
            is_expected(true) && is_expected(false),
            "unexpected response: {response}"
        );

        let target = Target {
            server,
            path: self.path,
            sent: LoadRequest::Json(self.json),
            status: 200,
        };
        Ok(ServerUnderLoad {
            decisions: self.checks,
            ..ServerUnderLoad::new(name, target, process)
        })
    }
}

/// The ratios to a single check of a configured limit, with their goals.
pub(super) fn ratios(report: &Report) -> Vec<Ratio> {
    let goals = [(INLINE, 0.9), (BATCH, 5.0)];
    let pairs = goals.map(|(ours, least)| (ours, CHECK, Some(Goal::AtLeast(least))));
    report.ratios(Ratio::of_medians, RATE, (NAME, CASE.name()), pairs)
}
