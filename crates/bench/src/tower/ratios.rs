//! The numbers that were asked for: what a layer leaves of a bare server, and what the two layers
//! add.

use serde::Serialize;

use super::report::{Group, Row};
use super::subject::{Case, Subject};
use crate::h2load::Round;
use crate::stats::Spread;

/// A number of one subject in relation to that of another in the same round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Ratio {
    pub(super) case: Case,
    pub(super) measure: Measure,
    pub(super) ours: Subject,
    pub(super) theirs: Subject,
    /// The median of the rounds, and the extremes.
    pub(super) value: f64,
    pub(super) lowest: f64,
    pub(super) highest: f64,
    pub(super) asked: Option<Asked>,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Measure {
    /// Requests in a second: more is better.
    Rate,
    /// What a request takes of a core in the server: less is better.
    Cpu,
    /// What a layer adds to a bare call: less is better.
    Added,
}

/// The targets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Asked {
    AtLeast(f64),
    AtMost(f64),
}

/// Layers without header fields are compared with each other, those with fields too, and both with
/// their default settings.
const PAIRS: [(Subject, Subject); 3] = [
    (Subject::Memory, Subject::Governor),
    (Subject::Memory, Subject::GovernorTelling),
    (Subject::MemorySilent, Subject::Governor),
];

impl Measure {
    /// As it is called in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Rate => "requests/s",
            Self::Cpu => "cpu/request",
            Self::Added => "ns added to a call",
        }
    }
}

impl Ratio {
    pub(super) fn is_missed(&self) -> bool {
        match self.asked {
            Some(Asked::AtLeast(least)) => self.value < least,
            Some(Asked::AtMost(most)) => self.value > most,
            None => false,
        }
    }

    fn new(
        case: Case,
        measure: Measure,
        (ours, theirs): (Subject, Subject),
        rounds: impl Iterator<Item = f64>,
    ) -> Self {
        let Spread { median, min, max } = Spread::of(rounds.collect());
        let asked = asked(case, measure, ours, theirs);
        Self {
            case,
            measure,
            ours,
            theirs,
            value: median,
            lowest: min,
            highest: max,
            asked,
        }
    }
}

/// A layer may cost a twentieth of a bare server's requests, and less than the other layer that
/// tells the same.
fn asked(case: Case, measure: Measure, ours: Subject, theirs: Subject) -> Option<Asked> {
    use Subject::{Bare, Governor, GovernorTelling, Memory, MemorySilent};
    match (case, measure, ours, theirs) {
        (Case::Allowed, Measure::Rate, Memory, Bare) => Some(Asked::AtLeast(0.95)),
        (Case::Allowed, Measure::Added, Memory, GovernorTelling)
        | (Case::Allowed, Measure::Added, MemorySilent, Governor) => Some(Asked::AtMost(1.0)),
        _ => None,
    }
}

pub(super) fn ratios(groups: &[Group]) -> Vec<Ratio> {
    groups
        .iter()
        .flat_map(|group| of_servers(group).chain(of_calls(group)))
        .collect()
}

/// Everybody to the bare server, and the layers to each other.
fn of_servers(group: &Group) -> impl Iterator<Item = Ratio> {
    let others = group.rows.iter().filter(|row| row.subject != Subject::Bare);
    let to_bare = others.map(|row| (row.subject, Subject::Bare));
    to_bare.chain(PAIRS).flat_map(|pair| {
        let rows = group.row(pair.0).zip(group.row(pair.1));
        let rate = rows.map(|rows| {
            of_rounds(group.case, Measure::Rate, pair, rows, |round| {
                round.requests_per_s
            })
        });
        let cpu =
            rows.map(|rows| of_rounds(group.case, Measure::Cpu, pair, rows, |round| round.cpu_us));
        rate.into_iter().chain(cpu)
    })
}

fn of_rounds(
    case: Case,
    measure: Measure,
    pair: (Subject, Subject),
    (ours, theirs): (&Row, &Row),
    number: fn(&Round) -> f64,
) -> Ratio {
    let rounds = ours.rounds.iter().zip(&theirs.rounds);
    Ratio::new(
        case,
        measure,
        pair,
        rounds.map(|(ours, theirs)| number(ours) / number(theirs)),
    )
}

/// The layers to each other, without the call itself.
fn of_calls(group: &Group) -> impl Iterator<Item = Ratio> {
    let bare = group.calls(Subject::Bare);
    PAIRS.into_iter().filter_map(move |pair| {
        let (ours, theirs, bare) = (group.calls(pair.0)?, group.calls(pair.1)?, bare?);
        let rounds = ours.rounds.iter().zip(&theirs.rounds).zip(&bare.rounds);
        let rounds = rounds.map(|((ours, theirs), bare)| (ours - bare) / (theirs - bare));
        Some(Ratio::new(group.case, Measure::Added, pair, rounds))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::report::Calls;
    use super::*;

    pub(in super::super) fn group(others: f64) -> Group {
        let row = |subject, rates: [f64; 3]| {
            let round = |requests_per_s| Round {
                requests_per_s,
                cpu_us: 500_000.0 / requests_per_s,
            };
            Row::new(subject, rates.map(round).to_vec())
        };
        let bare = [100.0, 110.0, 90.0];
        let calls = |subject, rounds: [f64; 3]| Calls::new(subject, rounds.to_vec(), &bare);
        Group {
            case: Case::Allowed,
            others,
            rows: vec![
                row(Subject::Bare, [50_000.0, 60_000.0, 40_000.0]),
                row(Subject::Memory, [45_000.0, 58_000.0, 39_000.0]),
            ],
            calls: vec![
                calls(Subject::Bare, bare),
                calls(Subject::Memory, [200.0, 210.0, 195.0]),
                calls(Subject::GovernorTelling, [300.0, 310.0, 200.0]),
            ],
        }
    }

    #[test]
    fn numbers_are_compared_round_by_round() {
        let ratios = ratios(&[group(0.0)]);
        let found: Vec<_> = ratios
            .iter()
            .map(|ratio| {
                (
                    ratio.measure,
                    ratio.theirs,
                    format!("{:.3}", ratio.value),
                    ratio.is_missed(),
                )
            })
            .collect();
        let expected = [
            (Measure::Rate, Subject::Bare, "0.967".to_owned(), false),
            (Measure::Cpu, Subject::Bare, "1.034".to_owned(), false),
            (
                Measure::Added,
                Subject::GovernorTelling,
                "0.500".to_owned(),
                false,
            ),
        ];
        assert_eq!(found, expected);
        assert!((ratios[2].highest - 105.0 / 110.0).abs() < 1e-9);
    }

    #[test]
    fn what_was_asked_for_can_be_missed() {
        let pair = (Subject::Memory, Subject::Bare);
        let missed = Ratio::new(Case::Allowed, Measure::Rate, pair, [0.94].into_iter());
        assert!(missed.is_missed());
        let pair = (Subject::Memory, Subject::GovernorTelling);
        assert!(Ratio::new(Case::Allowed, Measure::Added, pair, [1.1].into_iter()).is_missed());
        assert!(!Ratio::new(Case::Denied, Measure::Added, pair, [1.1].into_iter()).is_missed());
    }
}
