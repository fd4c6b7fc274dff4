//! Runs rounds with every subject in turn, so that noise on the machine affects all of them.

use std::io;

use super::Settings;
use super::entrants::Entrants;
use super::ratios;
use super::report::{Group, Report, Row};
use super::request::{Case, Protocol};
use crate::h2load::H2load;
use crate::machine::Machine;
use crate::others::Usage;
use crate::progress::Progress;
use crate::rounds::order_of_round;

/// A warm-up round is shorter than a measured one by this factor.
const WARM_UP: u32 = 4;

pub(super) fn measure(settings: &Settings, progress: &mut Progress) -> io::Result<Report> {
    let h2load = H2load::find();
    let version = h2load.version()?;
    progress.note(&version);
    let (mut groups, mut rows, mut absent) = (Vec::new(), Vec::new(), Vec::new());
    for (protocol, case) in settings.combinations() {
        progress.step(&format!("{}: {}", protocol.name(), case.name()));
        let entrants = Entrants::start(settings, protocol, case)?;
        for reason in &entrants.absent {
            if !absent.contains(reason) {
                progress.note(reason);
                absent.push(reason.clone());
            }
        }
        let pids = entrants.pids();
        let before = Usage::read(&pids);
        rows.extend(group_rows(
            protocol, case, &entrants, &h2load, settings, progress,
        )?);
        let others = Usage::read(&pids).zip(before);
        let others = others.map_or(0.0, |(after, before)| after.others_since(before));
        groups.push(Group {
            protocol,
            case,
            others,
        });
    }
    progress.clear();
    Ok(Report {
        machine: Machine::this(),
        h2load: version,
        rounds: settings.rounds,
        round_ms: settings.round.as_millis(),
        ratios: ratios::ratios(&rows),
        absent,
        groups,
        rows,
    })
}

fn group_rows(
    protocol: Protocol,
    case: Case,
    entrants: &Entrants,
    h2load: &H2load,
    settings: &Settings,
    progress: &Progress,
) -> io::Result<Vec<Row>> {
    let entrants = &entrants.present;
    for entrant in entrants {
        entrant.round(h2load, settings.round / WARM_UP)?;
    }
    let mut rounds = vec![Vec::with_capacity(settings.rounds); entrants.len()];
    for number in 0..settings.rounds {
        for turn in order_of_round(number, entrants.len()) {
            progress.round(
                number,
                settings.rounds + 1,
                &entrants[turn].subject.over(protocol),
            );
            rounds[turn].push(entrants[turn].round(h2load, settings.round)?);
        }
    }
    let measured = entrants.iter().zip(rounds).map(|(entrant, rounds)| {
        progress.round(
            settings.rounds,
            settings.rounds + 1,
            &entrant.subject.over(protocol),
        );
        let latencies = entrant.latencies(h2load, settings.round)?;
        Ok(Row::new(
            (protocol, case),
            entrant.subject.clone(),
            rounds,
            latencies,
        ))
    });
    measured.collect()
}
