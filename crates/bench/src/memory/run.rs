//! Runs rounds with every subject in turn, so that noise on the machine affects all of them.

use super::Settings;
use super::cases::{Case, Population, Stage};
use super::entrant::{FilledSubject, Load};
use super::keys;
use super::report::Row;
use super::subjects::{self, Setup, SubjectQuota};
use crate::progress::Progress;
use crate::rounds::order_of_round;
use crate::text::counted;

/// Measures the cases of a stage with every number of threads.
pub(super) fn stage(stage: &Stage, settings: &Settings, progress: &mut Progress) -> Vec<Row> {
    let count = match stage.population {
        Population::One => 1,
        Population::Offenders => settings.offender_keys,
        Population::Everyone => settings.keys,
    };
    let names = keys::names(count);
    let setup = settings.setup(stage.quota);
    let use_up = stage.cases.iter().any(|case| !case.is_allowed());
    let mut subjects = stage.population.subjects();
    if !use_up {
        subjects.push(subjects::limit());
    }
    let entrants = settings.chosen(subjects);
    progress.note(&format!(
        "filling {} subjects with {count} keys",
        entrants.len()
    ));
    let mut filled: Vec<_> = entrants
        .iter()
        .map(|entrant| entrant.fill(&setup, &names, use_up))
        .collect();
    let mut rows = Vec::new();
    for case in stage.cases.iter().filter(|case| settings.has(**case)) {
        let order = case.order(count);
        for threads in THREADS {
            let load = Load {
                keys: &names,
                order: &order,
                start: 0,
                operations: 0,
                threads,
                texts: case.texts(),
                is_allowed: case.is_allowed(),
            };
            progress.step(&format!("{}, {}", case.name(), counted(threads, "thread")));
            rows.extend(case_rows(*case, load, &mut filled, settings, progress));
        }
    }
    rows
}

/// The numbers of threads that are measured.
pub(super) const THREADS: [usize; 2] = [1, 2];

fn case_rows(
    case: Case,
    mut load: Load<'_>,
    filled: &mut [Box<dyn FilledSubject>],
    settings: &Settings,
    progress: &Progress,
) -> Vec<Row> {
    let Some(first) = filled.first_mut() else {
        return Vec::new();
    };
    load.operations = calibrate(first.as_mut(), load, settings.round_ns);
    let mut rounds = vec![Vec::with_capacity(settings.rounds); filled.len()];
    for round in 0..settings.rounds {
        for turn in order_of_round(round, filled.len()) {
            progress.round(round, settings.rounds, filled[turn].name());
            rounds[turn].push(filled[turn].round(&load));
        }
        load.start += load.operations as usize;
    }
    let measured = filled.iter().zip(rounds);
    measured
        .map(|(subject, rounds)| Row::new(subject.name(), case.name(), load.threads, &rounds))
        .collect()
}

/// How many operations fill a round, measured with the first subject and then the same for all.
fn calibrate(first: &mut dyn FilledSubject, mut load: Load<'_>, round_ns: f64) -> u32 {
    load.operations = 1_000;
    loop {
        let ns_per_op = first.round(&load).ns_per_op;
        let fit = round_ns / ns_per_op;
        if ns_per_op * f64::from(load.operations) > round_ns / 8.0 {
            return whole(fit);
        }
        load.operations *= 4;
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to what fits"
)]
fn whole(operations: f64) -> u32 {
    operations.clamp(1_000.0, 1e9) as u32
}

/// Measures inserting new keys into an empty subject. No calibration is needed: every key is
/// inserted once.
pub(super) fn insert(settings: &Settings, progress: &mut Progress) -> Vec<Row> {
    let names = keys::names(settings.keys);
    let setup = settings.setup(SubjectQuota::AMPLE);
    let entrants = settings.chosen(subjects::keyed());
    progress.step(Case::Insert.name());
    let mut rounds = vec![Vec::with_capacity(settings.rounds); entrants.len()];
    for round in 0..settings.rounds {
        for turn in order_of_round(round, entrants.len()) {
            progress.round(round, settings.rounds, entrants[turn].name());
            rounds[turn].push(entrants[turn].insert(&setup, &names));
        }
    }
    let measured = entrants.iter().zip(rounds);
    measured
        .map(|(entrant, rounds)| Row::new(entrant.name(), Case::Insert.name(), 1, &rounds))
        .collect()
}

/// Measures bytes per key for every subject.
pub(super) fn bytes(settings: &Settings, progress: &mut Progress) -> Vec<super::bytes::Footprint> {
    let names = keys::names(settings.keys);
    let setup = settings.setup(SubjectQuota::AMPLE);
    progress.step("bytes per key");
    settings
        .chosen(subjects::keyed())
        .iter()
        .map(|entrant| entrant.bytes(&setup, &names))
        .collect()
}

/// Runs the flood for the subjects where it is meaningful.
pub(super) fn floods(settings: &Settings, progress: &mut Progress) -> Vec<super::cap::FloodResult> {
    let setup = Setup {
        quota: SubjectQuota::SCARCE,
        keys_max: settings.keys,
    };
    progress.step("flood of new keys");
    let entrants = settings.chosen(subjects::flooded());
    let flooded = entrants.iter().map(|entrant| {
        progress.note(entrant.name());
        entrant.flood(&setup, settings.flood)
    });
    flooded.collect()
}
