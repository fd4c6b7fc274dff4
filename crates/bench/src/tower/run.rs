//! Rounds: every subject in turn, so that whatever else the machine does hits all alike.

use std::io;

use super::Settings;
use super::calls::Caller;
use super::entrant::Entrant;
use super::ratios;
use super::report::{Calls, Group, Report, Row};
use super::subject::{Case, Subject};
use crate::h2load::H2load;
use crate::machine::Machine;
use crate::others::Usage;
use crate::progress::Progress;
use crate::rounds::interleaved;

/// A round that warms up is this much shorter than one that counts.
const WARM_UP: u32 = 4;

pub(super) fn measure(settings: &Settings, progress: &mut Progress) -> io::Result<Report> {
    let h2load = H2load::find();
    let version = h2load.version()?;
    progress.note(&version);
    let groups = settings.cases.iter().map(|case| {
        progress.step(&format!("servers, {}", case.name()));
        let (others, rows) = servers(*case, &h2load, settings, progress)?;
        progress.step(&format!("calls, {}", case.name()));
        Ok(Group {
            case: *case,
            others,
            rows,
            calls: calls(*case, settings, progress)?,
        })
    });
    let groups = groups.collect::<io::Result<Vec<Group>>>()?;
    progress.clear();
    Ok(Report {
        machine: Machine::this(),
        h2load: version,
        rounds: settings.rounds,
        round_ms: settings.round.as_millis(),
        ratios: ratios::ratios(&groups),
        groups,
    })
}

/// Everybody as a server, and which part of the machine others took meanwhile.
fn servers(
    case: Case,
    h2load: &H2load,
    settings: &Settings,
    progress: &Progress,
) -> io::Result<(f64, Vec<Row>)> {
    let entrants = Subject::ALL
        .into_iter()
        .map(|subject| Entrant::start(subject, case));
    let mut entrants = entrants.collect::<io::Result<Vec<Entrant>>>()?;
    let pids: Vec<u32> = entrants.iter().flat_map(Entrant::pids).collect();
    for entrant in &entrants {
        entrant.round(h2load, settings.round / WARM_UP)?;
    }
    let before = Usage::read(&pids);
    let name = |entrant: &Entrant| entrant.subject.name().to_owned();
    let rounds = interleaved(&mut entrants, settings.rounds, progress, name, |entrant| {
        entrant.round(h2load, settings.round)
    })?;
    let others = Usage::read(&pids)
        .zip(before)
        .map_or(0.0, |(after, before)| after.others_since(before));
    let rows = entrants
        .iter()
        .zip(rounds)
        .map(|(entrant, rounds)| Row::new(entrant.subject, rounds));
    Ok((others, rows.collect()))
}

/// Everybody who can be called in this process.
fn calls(case: Case, settings: &Settings, progress: &Progress) -> io::Result<Vec<Calls>> {
    let mut callers = Caller::all(case)?;
    let Some(first) = callers.first_mut() else {
        return Ok(Vec::new());
    };
    // As many for everybody as take a bare service so long.
    let number = first.calibrate(settings.calling)?;
    callers
        .iter_mut()
        .for_each(|caller| caller.warm_up(number / WARM_UP));
    let name = |caller: &Caller| caller.subject.name().to_owned();
    let rounds = interleaved(&mut callers, settings.rounds, progress, name, |caller| {
        caller.round(number)
    })?;
    let bare = callers
        .iter()
        .position(|caller| caller.subject == Subject::Bare);
    let bare = bare
        .and_then(|place| rounds.get(place))
        .cloned()
        .unwrap_or_default();
    let measured = callers.iter().zip(rounds);
    Ok(measured
        .map(|(caller, rounds)| Calls::new(caller.subject, rounds, &bare))
        .collect())
}
