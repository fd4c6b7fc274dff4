//! Ratios with targets: Tollgate compared with what the same libraries can do without deciding.

use serde::Serialize;

use super::entrant::Subject;
use super::report::Row;
use super::request::{Case, Protocol};
use crate::stats::Spread;

/// Requests per second, relative to another subject. Higher is better.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Ratio {
    pub(super) protocol: Protocol,
    pub(super) case: Case,
    pub(super) ours: Subject,
    pub(super) theirs: Subject,
    /// The ratio of the medians.
    pub(super) value: f64,
    /// The lowest and the highest ratio of the rounds.
    pub(super) lowest: f64,
    pub(super) highest: f64,
    #[serde(rename = "asked")]
    pub(super) target: Option<f64>,
}

impl Ratio {
    fn new(ours: &Row, theirs: &Row) -> Self {
        let rounds = ours.rounds.iter().zip(&theirs.rounds);
        let rounds = rounds.map(|(ours, theirs)| ours.requests_per_s / theirs.requests_per_s);
        let Spread { min, max, .. } = Spread::of(rounds.collect());
        Self {
            protocol: ours.protocol,
            case: ours.case,
            ours: ours.subject.clone(),
            theirs: theirs.subject.clone(),
            value: ours.median.requests_per_s / theirs.median.requests_per_s,
            lowest: min,
            highest: max,
            target: target(ours, theirs),
        }
    }

    pub(super) fn is_missed(&self) -> bool {
        self.target.is_some_and(|target| self.value < target)
    }
}

/// The target of a ratio, for requests with one limit.
fn target(ours: &Row, theirs: &Row) -> Option<f64> {
    match (ours.protocol, ours.case, &ours.subject, &theirs.subject) {
        (_, Case::ThreeLimits, _, _) => None,
        (_, _, Subject::Memory, Subject::Bare) => Some(0.85),
        (Protocol::Http, _, Subject::Redis, Subject::Bare) => Some(0.54),
        (Protocol::Http, _, Subject::Leased | Subject::ManyLimits, Subject::Memory) => Some(0.9),
        _ => None,
    }
}

/// Ratios of every build of Tollgate to all other subjects in the same case, and to the embedded
/// store for what should be about as fast: leased limits, the embedded store with many limits, and
/// with the dashboard open.
pub(super) fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let is_same =
        |ours: &Row, theirs: &Row| (ours.protocol, ours.case) == (theirs.protocol, theirs.case);
    let ours = rows.iter().filter(|row| is_ours(&row.subject));
    ours.flat_map(|ours| {
        let theirs = rows
            .iter()
            .filter(move |theirs| is_same(ours, theirs) && is_compared(ours, theirs));
        theirs.map(|theirs| Ratio::new(ours, theirs))
    })
    .collect()
}

const fn is_ours(subject: &Subject) -> bool {
    use Subject::{DashboardOpen, Leased, ManyLimits, Memory, OtherBuild, Redis};
    matches!(
        subject,
        Memory | ManyLimits | DashboardOpen | Redis | Leased | OtherBuild(_)
    )
}

fn is_compared(ours: &Row, theirs: &Row) -> bool {
    let is_near_memory = matches!(
        ours.subject,
        Subject::Leased | Subject::ManyLimits | Subject::DashboardOpen
    );
    let is_theirs = !is_ours(&theirs.subject) && ours.subject != Subject::ManyLimits;
    is_theirs || (is_near_memory && theirs.subject == Subject::Memory)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::h2load::Round;
    use crate::percentiles::Percentiles;

    pub(in super::super) fn row(protocol: Protocol, subject: Subject, rates: [f64; 3]) -> Row {
        let rounds = rates
            .map(|requests_per_s| Round {
                requests_per_s,
                cpu_us: 9.5,
            })
            .to_vec();
        Row::new(
            (protocol, Case::Allowed),
            subject,
            rounds,
            Percentiles {
                p50_us: 300.0,
                p99_us: 900.0,
            },
        )
    }

    #[test]
    fn only_comparable_rows_are_compared() {
        let rows = [
            row(Protocol::Http, Subject::Memory, [80.0, 90.0, 100.0]),
            row(Protocol::Http, Subject::Redis, [50.0, 50.0, 60.0]),
            row(Protocol::Http, Subject::Leased, [70.0, 72.0, 90.0]),
            row(Protocol::Http, Subject::DashboardOpen, [79.0, 89.0, 99.0]),
            row(Protocol::Http, Subject::Bare, [100.0, 100.0, 80.0]),
            row(Protocol::Grpc, Subject::Bare, [1.0, 1.0, 1.0]),
        ];
        let ratios = ratios(&rows);
        let found: Vec<_> = ratios
            .iter()
            .map(|ratio| (&ratio.ours, ratio.target, ratio.is_missed()))
            .collect();
        let expected = [
            (&Subject::Memory, Some(0.85), false),
            (&Subject::Redis, Some(0.54), true),
            (&Subject::Leased, Some(0.9), true),
            (&Subject::Leased, None, false),
            (&Subject::DashboardOpen, None, false),
            (&Subject::DashboardOpen, None, false),
        ];
        assert_eq!(found, expected);
        let Ratio {
            value,
            lowest,
            highest,
            ..
        } = ratios[0];
        let found = [value, lowest, highest].map(|ratio| format!("{ratio:.3}"));
        assert_eq!(found, ["0.900", "0.800", "1.250"]);
    }
}
