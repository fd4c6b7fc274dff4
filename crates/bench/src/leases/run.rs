//! Runs rounds with every subject in turn, so that noise on the machine affects all of them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use testkit::servers::Server;

use super::case::Case;
use super::entrant::Entrant;
use super::report::{Report, Round, Row};
use super::{Settings, accuracy, ratios, subjects};
use crate::machine::Machine;
use crate::progress::Progress;
use crate::rounds::interleaved;
use crate::server::version;

/// A warm-up round is shorter than a measured one by this factor.
const WARM_UP: u32 = 4;

pub(super) fn measure(settings: &Settings, progress: &mut Progress) -> io::Result<Report> {
    let server = Arc::new(Server::start(settings.flavor));
    let version = version(&server);
    progress.note(&format!("{version} at {}", server.addr()));
    let mut rows = Vec::new();
    for case in Case::ALL {
        progress.step(&case.to_string());
        let mut entrants = subjects::entrants(settings, &server, case)?;
        rows.extend(case_rows(case, &mut entrants, settings, progress)?);
    }
    progress.step("two limiters that share a limit");
    let bursts = accuracy::bursts(settings, &server)?;
    progress.clear();
    Ok(Report {
        machine: Machine::this(),
        server: version,
        rounds: settings.rounds,
        round_ms: settings.round.as_millis(),
        ratios: ratios::ratios(&rows),
        rows,
        bursts,
    })
}

fn case_rows(
    case: Case,
    entrants: &mut [Box<dyn Entrant>],
    settings: &Settings,
    progress: &Progress,
) -> io::Result<Vec<Row>> {
    for entrant in entrants.iter_mut() {
        round(entrant.as_mut(), settings.round / WARM_UP)?;
    }
    let rounds = interleaved(
        entrants,
        settings.rounds,
        progress,
        |entrant| format!("{}, {}", entrant.subject(), entrant.load()),
        |entrant| round(entrant.as_mut(), settings.round),
    )?;
    let measured = entrants.iter().zip(rounds);
    Ok(measured
        .map(|(entrant, rounds)| Row::new(case, entrant.subject(), entrant.load(), rounds))
        .collect())
}

fn round(entrant: &mut dyn Entrant, length: Duration) -> io::Result<Round> {
    let (subject, load) = (entrant.subject(), entrant.load());
    entrant
        .round(length)
        .map_err(|error| io::Error::other(format!("{subject}, {load}: {error}")))
}
