//! Runs rounds with every subject in turn, so that noise on the machine affects all of them.

use std::io;
use std::time::Duration;

use super::entrant::Entrant;
use super::report::{Load, Report, Round, Row};
use super::target::Target;
use super::{KEYS, Settings, ratios, subjects};
use crate::machine::Machine;
use crate::others::Usage;
use crate::progress::Progress;
use crate::rounds::interleaved;
use crate::server::version;
use crate::text::counted;

/// A warm-up round is shorter than a measured one by this factor.
const WARM_UP: u32 = 8;

pub(super) fn measure(settings: &Settings, progress: &mut Progress) -> io::Result<Report> {
    let redis_benchmark = subjects::redis_benchmark_version()?;
    let target = Target::start(settings.flavor)?;
    let server = version(&target.server);
    progress.note(&format!(
        "{server} at {}, {redis_benchmark}",
        target.server.addr()
    ));
    let (mut loads, mut rows) = (Vec::new(), Vec::new());
    for keys in KEYS {
        target.fill(keys)?;
        for callers in &settings.callers {
            let (crowd, of) = (counted(*callers, "caller"), counted(keys as usize, "key"));
            progress.step(&format!("{crowd}, {of}"));
            let mut entrants = subjects::entrants(settings, &target, keys, *callers)?;
            let before = Usage::read(&[target.server.pid()]);
            rows.extend(load_rows(keys, &mut entrants, settings, progress)?);
            let others = Usage::read(&[target.server.pid()]).zip(before);
            let others = others.map_or(0.0, |(after, before)| after.others_since(before));
            loads.push(Load {
                keys,
                callers: *callers,
                others,
            });
        }
    }
    progress.clear();
    Ok(Report {
        machine: Machine::this(),
        server,
        redis_benchmark,
        rounds: settings.rounds,
        round_ms: settings.round.as_millis(),
        published: ratios::faster(&rows),
        ratios: ratios::ratios(&rows),
        loads,
        rows,
    })
}

fn load_rows(
    keys: u32,
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
        |entrant| entrant.subject().to_string(),
        |entrant| round(entrant.as_mut(), settings.round),
    )?;
    let measured = entrants.iter().zip(rounds);
    Ok(measured
        .map(|(entrant, rounds)| Row::new(entrant.subject(), keys, entrant.crowd(), rounds))
        .collect())
}

fn round(entrant: &mut dyn Entrant, length: Duration) -> io::Result<Round> {
    let subject = entrant.subject();
    entrant
        .round(length)
        .map_err(|error| io::Error::other(format!("{subject}: {error}")))
}
