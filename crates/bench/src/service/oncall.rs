//! What watching and acting cost: an audit log of denials, and actions on other keys.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use serde_json::json;

use super::bodies::RequestBody;
use super::request::Case;
use crate::harness::h2load::RATE;
use crate::harness::{Bench, Goal, H2load, Ratio, Report, ServerUnderLoad, post_json};

/// The name in tables.
pub(super) const NAME: &str = "on call, decisions per second in batches of 64";
const PLAIN: &str = "tollgate";
/// As many actions as there can be, none of them on the key of the requests.
const ACTIONS: &str = "tollgate, 10,000 actions";
const ACTIONS_MAX: u32 = 10_000;
/// A line for each denial, up to the default bound.
const AUDIT_LOG: &str = "tollgate, audit log";
/// The cases, and what is measured in each beside the plain service.
const CASES: [(Case, &str); 2] = [(Case::Allowed, ACTIONS), (Case::Denied, AUDIT_LOG)];

/// Measures admissions with actions, and denials with an audit log. The requests are batches,
/// because the cost of a decision disappears beside that of an HTTP request.
pub(super) fn measure(bench: &mut Bench, h2load: &H2load, programs: &[PathBuf]) -> Result<()> {
    for (case, special) in CASES {
        let mut servers = vec![start(&programs[0], PLAIN, case)?];
        for program in &programs[1..] {
            servers.push(start(program, &program.display().to_string(), case)?);
        }
        servers.push(start(&programs[0], special, case)?);
        h2load.measure(bench, NAME, case.name(), &servers)?;
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
        ensure!(
            response.status == 200,
            "unexpected response to a block: {}: {}",
            response.status,
            response.text()
        );
    }
    Ok(())
}

/// The ratios to the same without actions or audit log, with their goals.
pub(super) fn ratios(report: &Report) -> Vec<Ratio> {
    let ratios = CASES.iter().flat_map(|(case, _)| {
        let rows = report.case(NAME).filter(|row| row.load == case.name());
        let others = rows.filter(|row| row.subject != PLAIN);
        let pairs = others.map(|row| (row.subject.as_str(), PLAIN, goal(&row.subject)));
        report.ratios(Ratio::of_medians, RATE, (NAME, case.name()), pairs)
    });
    ratios.collect()
}

fn goal(subject: &str) -> Option<Goal> {
    match subject {
        ACTIONS => Some(Goal::AtLeast(0.95)),
        AUDIT_LOG => Some(Goal::AtLeast(0.97)),
        _ => None,
    }
}
