//! What the body of a request costs: limits that it brings along, and many checks in one; and in such
//! batches, because the cost of a decision disappears beside that of an HTTP request, what watching
//! and acting cost: an audit log of denials, and actions on other keys.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::request::Case;
use crate::harness::prelude::*;

/// The names in tables.
pub(super) const BODIES: &str = "decisions per second over HTTP/1.1, by body";
pub(super) const ON_CALL: &str = "on call, decisions per second in batches of 64";
/// One check of the configured limit.
const CHECK: &str = "check";
/// The same check, of a limit with the same numbers in the body.
const INLINE: &str = "check, inline limit";
/// Many of the first in one request; the figures are those of a check.
const BATCH: &str = "batch of 64 checks";
const CHECKS: u16 = 64;
const PLAIN: &str = "tollgate";
/// As many actions as there can be, none of them on the key of the requests.
const ACTIONS: &str = "tollgate, 10,000 actions";
const ACTIONS_MAX: u32 = 10_000;
/// A line for each denial, up to the default bound.
const AUDIT_LOG: &str = "tollgate, audit log";
/// The cases, and what is measured in each beside the plain service.
const CASES: [(Case, &str); 2] = [(Case::Allowed, ACTIONS), (Case::Denied, AUDIT_LOG)];

/// Measures all bodies in turn, each on a server of its own.
pub(super) fn measure_bodies(
    bench: &mut Bench,
    h2load: &H2load,
    programs: &[PathBuf],
) -> Result<()> {
    let case = Case::Allowed;
    let inline = json!({"limits": [{
        "name": "inline", "key": "203.0.113.7",
        "algorithm": "token_bucket", "capacity": 1_000_000_000, "refill_rate": "1/s",
    }]});
    let bodies = [
        (CHECK, RequestBody::check(&case.json(None))),
        (INLINE, RequestBody::check(&inline)),
        (BATCH, RequestBody::batch(case)),
    ];

    let config = case.config(None);
    let servers = bodies.map(|(name, body)| body.start(&programs[0], name, case, &config));
    let servers: Vec<ServerUnderLoad> = servers.into_iter().collect::<Result<_>>()?;
    h2load.measure(bench, BODIES, case.name(), &servers)?;
    Ok(())
}

/// Measures admissions with actions, and denials with an audit log.
pub(super) fn measure_on_call(
    bench: &mut Bench,
    h2load: &H2load,
    programs: &[PathBuf],
) -> Result<()> {
    for (case, special) in CASES {
        let mut servers = vec![start(&programs[0], PLAIN, case)?];
        for program in &programs[1..] {
            servers.push(start(program, &program.display().to_string(), case)?);
        }
        servers.push(start(&programs[0], special, case)?);
        h2load.measure(bench, ON_CALL, case.name(), &servers)?;
    }
    Ok(())
}

fn start(tollgate: &Path, name: &str, case: Case) -> Result<ServerUnderLoad> {
    let mut config = case.config(None);
    if name == AUDIT_LOG {
        config.push_str("audit_log: { denials: every, to: /dev/null }\n");
    }

    let mut server = RequestBody::batch(case).start(tollgate, name, case, &config)?;
    if name == ACTIONS {
        act(&mut server)?;
    }
    Ok(server)
}

/// Blocks as many other keys as there can be.
fn act(server: &mut ServerUnderLoad) -> Result<()> {
    let admin = server.process.announced("admin ")?;
    for number in 0..ACTIONS_MAX {
        let address = Ipv4Addr::from_bits(0x0a00_0000 | number);
        let block = json!({
            "limit": "by-client-ip", "key": { "client_ip": address },
            "for": "1d", "reason": "measurement", "by": "bench",
        });
        let response = post_json(admin, "/admin/blocks", &block.to_string());
        let (status, text) = (response.status, response.text());
        ensure!(
            status == 200,
            "unexpected response to a block: {status}: {text}"
        );
    }
    Ok(())
}

/// The body of a request, and where it is sent.
struct RequestBody {
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
    fn batch(case: Case) -> Self {
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
    fn start(
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

        Ok(ServerUnderLoad {
            path: self.path,
            decisions: self.checks,
            ..ServerUnderLoad::new(name, process, server, LoadRequest::Json(self.json))
        })
    }
}

/// Adds the ratios to a single check of a configured limit, and to the same without actions or audit
/// log, with their goals.
pub(super) fn compare(report: &mut Report) {
    let [allowed, denied] = [Case::Allowed, Case::Denied].map(Case::name);
    for (case, load, ours, theirs, least) in [
        (BODIES, allowed, INLINE, CHECK, 0.9),
        (BODIES, allowed, BATCH, CHECK, 5.0),
        (ON_CALL, allowed, ACTIONS, PLAIN, 0.95),
        (ON_CALL, denied, AUDIT_LOG, PLAIN, 0.97),
    ] {
        let (pair, goal) = ([(load, ours), (load, theirs)], Goal::AtLeast(least));
        report.compare(RatioOf::Medians, REQUESTS, case, pair, Some(goal));
    }

    // Other builds, which have no goal.
    let others = report.case(ON_CALL);
    let others = others.filter(|row| ![PLAIN, ACTIONS, AUDIT_LOG].contains(&&*row.subject));
    let others: Vec<_> = others
        .map(|row| (row.load.clone(), row.subject.clone()))
        .collect();
    for (load, subject) in &others {
        let pair = [(&**load, &**subject), (load, PLAIN)];
        report.compare(RatioOf::Medians, REQUESTS, ON_CALL, pair, None);
    }
}
