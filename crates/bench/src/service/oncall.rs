//! What watching and acting cost: an audit log of denials, and actions on other keys.

use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::json;

use super::bodies::{BATCH_PATH, BodyServer, batch, of_one_check};
use super::request::Case;
use crate::harness::h2load::RATE;
use crate::harness::{Bench, Entrant, Goal, H2load, Ratio, Row, ServerUnderLoad, post_json};

/// The name in tables.
pub(super) const NAME: &str = "on call, decisions per second in batches of 64";
const PLAIN: &str = "tollgate";
/// As many actions as there can be, none of them on the key of the requests.
const ACTIONS: &str = "tollgate, 10,000 actions";
const ACTIONS_MAX: u32 = 10_000;
/// A line for each denial, up to the default bound.
const AUDIT_LOG: &str = "tollgate, audit log";

/// Measures admissions with actions, and denials with an audit log. The requests are batches,
/// because the cost of a decision disappears beside that of an HTTP request.
pub(super) fn measure(bench: &mut Bench, h2load: &H2load, programs: &[&Path]) -> Result<()> {
    for case in [Case::Allowed, Case::Denied] {
        let mut servers = Vec::new();
        for (index, program) in programs.iter().enumerate() {
            let name = match index {
                0 => PLAIN.to_owned(),
                _ => program.display().to_string(),
            };
            servers.push(start(program, &name, case)?);
        }
        servers.push(match case {
            Case::Denied => start(programs[0], AUDIT_LOG, case)?,
            _ => start(programs[0], ACTIONS, case)?,
        });

        let pids: Vec<u32> = servers.iter().map(|server| server.process.pid()).collect();
        let entrants = servers.iter().map(|server| {
            Entrant::new(&server.name, case.name(), |length| {
                Ok(of_one_check(h2load.round(server, length)?))
            })
        });
        bench.measure(NAME, &pids, entrants.collect())?;
    }
    Ok(())
}

fn start(tollgate: &Path, name: &str, case: Case) -> Result<ServerUnderLoad> {
    let mut config = case.config(None);
    if name == AUDIT_LOG {
        config.push_str("audit_log: { denials: every, to: /dev/null }\n");
    }
    let path = BATCH_PATH;
    let server = BodyServer {
        tollgate,
        name,
        path,
    };
    let mut server = server.start(case, &config, &batch(case)?)?;
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
pub(super) fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.case == NAME).collect();
    let plain = |load: &str| {
        let mut plain = rows.iter().filter(|row| row.subject == PLAIN);
        plain.find(|row| row.load == load)
    };
    let compared = rows.iter().filter(|row| row.subject != PLAIN);
    let ratios = compared.filter_map(|row| {
        let goal = match row.subject.as_str() {
            ACTIONS => Some(Goal::AtLeast(0.95)),
            AUDIT_LOG => Some(Goal::AtLeast(0.97)),
            _ => None,
        };
        Some(Ratio::of_medians(RATE, row, plain(&row.load)?, goal))
    });
    ratios.collect()
}
