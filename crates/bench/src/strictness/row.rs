//! What is said about one cell: figures from the records of its requests, its bound, and whether it
//! was kept.

use std::collections::HashMap;

use serde::Serialize;

use super::excess::{Admission, Excess};
use super::ideal::Ideal;
use super::plan::{Case, Cell, Mode, Targets, Topology};
use super::record::{Record, Told};
use super::retry::Truth;
use super::windows::Ahead;
use crate::percentiles::nearest_rank;

/// One cell, measured.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) case: Case,
    pub(super) mode: Mode,
    pub(super) replicas: usize,
    pub(super) topology: Topology,
    pub(super) limit: &'static str,
    pub(super) load: f64,
    pub(super) length_ms: u64,
    pub(super) offered: usize,
    pub(super) admitted: usize,
    pub(super) denied: usize,
    /// Answered by policy, because the store was away.
    pub(super) degraded: usize,
    /// Not answered, or not with a decision.
    pub(super) errors: usize,
    pub(super) admitted_units: u64,
    pub(super) ideal_units: u64,
    /// Units above what the limit allows, over the worst interval of the worst key; below zero is
    /// room that was left.
    pub(super) excess: f64,
    /// What it may be at most; nothing is claimed where every replica counts for itself.
    pub(super) excess_bound: Option<u64>,
    pub(super) is_exceeded: bool,
    /// Requests let through that ask for more than the limit ever holds.
    pub(super) impossible: usize,
    pub(super) utilisation: Option<f64>,
    /// From the moment at which an ideal limiter would have been used up.
    pub(super) utilisation_full: Option<f64>,
    pub(super) script_calls: u64,
    pub(super) calls_per_request: Option<f64>,
    pub(super) calls_per_admitted: Option<f64>,
    pub(super) calls_per_denied: Option<f64>,
    /// How late the load itself was, at the latest but for one request in a hundred: where the
    /// machine cannot keep up, less was offered than is told.
    pub(super) sent_late_p99_us: Option<u64>,
    pub(super) p50_us: Option<u64>,
    pub(super) p99_us: Option<u64>,
    pub(super) p999_us: Option<u64>,
    /// Of those answered, which part a replica answered by itself.
    pub(super) local_share: Option<f64>,
    pub(super) retry_after: Truth,
    pub(super) targets: Targets,
}

/// What was seen of a cell.
pub(super) struct Seen<'a> {
    pub(super) records: &'a [Record],
    pub(super) ideal: Ideal,
    pub(super) ahead: Ahead,
    pub(super) script_calls: u64,
    pub(super) retry_after: Truth,
}

impl Row {
    pub(super) fn of(cell: &Cell, seen: &Seen<'_>) -> Self {
        let records = seen.records;
        let count = |is: fn(&Record) -> bool| records.iter().filter(|record| is(record)).count();
        let (admitted, denied) = (count(|record| record.admitted), count(Record::is_denied));
        let excess = worst(cell, records, seen.ahead).unwrap_or(Excess::whole(0));
        let bound = cell.bound();
        let impossible =
            |record: &&Record| record.admitted && u64::from(record.cost) > cell.limit.capacity();
        let impossible = records.iter().filter(impossible).count();
        let latency = sorted(records, Record::latency_us);
        let answered = records.len() - count(|record| record.told == Told::Nothing);
        Self {
            case: cell.case,
            mode: cell.mode,
            replicas: cell.replicas,
            topology: cell.topology,
            limit: cell.limit.name,
            load: cell.load,
            length_ms: cell.length_ms,
            offered: records.len(),
            admitted,
            denied,
            degraded: count(|record| record.told == Told::Fallback),
            errors: count(|record| record.told == Told::Nothing),
            admitted_units: records
                .iter()
                .filter(|record| record.admitted)
                .map(|record| u64::from(record.cost))
                .sum(),
            ideal_units: seen.ideal.units(),
            excess: excess.units(),
            excess_bound: bound,
            is_exceeded: bound.is_some_and(|bound| excess.exceeds(bound) || impossible > 0),
            impossible,
            utilisation: seen.ideal.utilisation(records),
            utilisation_full: seen.ideal.utilisation_full(records),
            script_calls: seen.script_calls,
            calls_per_request: per(seen.script_calls, records.len()),
            calls_per_admitted: per(seen.script_calls, admitted),
            calls_per_denied: per(seen.script_calls, denied),
            sent_late_p99_us: nearest_rank(&sorted(records, Record::late_us), 990),
            p50_us: nearest_rank(&latency, 500),
            p99_us: nearest_rank(&latency, 990),
            p999_us: nearest_rank(&latency, 999),
            local_share: per(
                u64::try_from(count(|record| record.told.is_local())).unwrap_or(0),
                answered,
            ),
            retry_after: seen.retry_after,
            targets: cell.targets,
        }
    }

    /// Units over, as a table shows them: whatever is below zero is none.
    pub(super) fn over(&self) -> f64 {
        self.excess.max(0.0)
    }

    /// What was asked for beside strictness and is not there, in words. It is asked of leases; the
    /// others are beside them for comparison.
    pub(super) fn missed(&self) -> Vec<String> {
        let Targets {
            utilisation_min,
            calls_per_admitted_max,
            calls_per_denied_max,
        } = self.targets;
        let mut missed = Vec::new();
        let lowest = self
            .utilisation
            .zip(self.utilisation_full.or(self.utilisation))
            .map(|(all, full)| all.min(full));
        if let (Some(min), Some(found)) = (utilisation_min, lowest)
            && found < min
        {
            missed.push(format!("utilisation {found:.3} instead of {min}"));
        }
        let calls = [
            ("admitted", calls_per_admitted_max, self.calls_per_admitted),
            ("denied", calls_per_denied_max, self.calls_per_denied),
        ];
        for (what, max, found) in calls {
            if let (Some(max), Some(found)) = (max, found)
                && found > max
            {
                missed.push(format!("{found:.3} calls per {what} instead of {max}"));
            }
        }
        if self.mode != Mode::Leased {
            missed.clear();
        }
        let Truth { kept, of } = self.retry_after;
        if kept < of {
            missed.push(format!("{} of {of} retry times were not true", of - kept));
        }
        missed
    }
}

/// The worst of all keys.
fn worst(cell: &Cell, records: &[Record], ahead: Ahead) -> Option<Excess> {
    let mut keys = HashMap::<u32, Vec<Admission>>::new();
    for record in records.iter().filter(|record| record.admitted) {
        let Record {
            sent_us,
            received_us,
            cost,
            ..
        } = *record;
        keys.entry(record.key).or_default().push(Admission {
            sent_us,
            received_us,
            cost: u64::from(cost),
        });
    }
    let excesses = keys
        .values()
        .filter_map(|admissions| cell.limit.excess(admissions, ahead));
    excesses.reduce(Excess::max)
}

/// Lengths of time of those answered, in order.
fn sorted(records: &[Record], length_us: fn(&Record) -> u64) -> Vec<u64> {
    let answered = records.iter().filter(|record| record.told != Told::Nothing);
    let mut lengths: Vec<u64> = answered.map(length_us).collect();
    lengths.sort_unstable();
    lengths
}

#[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
fn per(calls: u64, requests: usize) -> Option<f64> {
    (requests > 0).then(|| calls as f64 / requests as f64)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::ideal;
    use super::super::limits::{self, SECOND_US};
    use super::super::schedule::{self, Shot};
    use super::*;

    pub(in super::super) fn cell(mode: Mode, replicas: usize) -> Cell {
        Cell {
            case: Case::Cold,
            mode,
            replicas,
            topology: Topology::Single,
            limit: limits::ONCE,
            load: 3.0,
            length_ms: 1_000,
            targets: Targets::default(),
        }
    }

    /// A row of a cold key, of which the first so many of 3,000 requests were let through.
    pub(in super::super) fn row(mode: Mode, replicas: usize, admitted: usize) -> Row {
        let cell = cell(mode, replicas);
        let shots = schedule::shots(&cell, SECOND_US);
        let record = |(index, shot): (usize, &Shot)| Record {
            scheduled_us: shot.at_us,
            sent_us: 10,
            received_us: 500,
            key: 0,
            cost: shot.cost,
            admitted: index < admitted,
            told: if index.is_multiple_of(2) {
                Told::Store
            } else {
                Told::Lease
            },
        };
        let records: Vec<Record> = shots.iter().enumerate().map(record).collect();
        let seen = Seen {
            records: &records,
            ideal: ideal::replay(&cell.limit, &records, SECOND_US).unwrap(),
            ahead: Ahead {
                least_us: 0,
                most_us: 0,
            },
            script_calls: 30,
            retry_after: Truth { kept: 1, of: 2 },
        };
        Row::of(&cell, &seen)
    }

    #[test]
    fn figures_are_counted() {
        let row = row(Mode::Leased, 2, 900);
        assert_eq!(
            (row.offered, row.admitted, row.denied, row.errors),
            (3_000, 900, 2_100, 0)
        );
        assert_eq!(
            (row.admitted_units, row.ideal_units, row.is_exceeded),
            (900, 1_000, false)
        );
        assert_eq!(
            (row.p50_us, row.p999_us, row.sent_late_p99_us),
            (Some(500), Some(500), Some(10))
        );
        let shares = [row.utilisation, row.local_share, row.calls_per_request];
        assert_eq!(
            shares.map(|share| share.map(|share| format!("{share:.2}"))),
            ["0.90", "0.50", "0.01"].map(|text| Some(text.to_owned()))
        );
        assert!(row.over().abs() < 1e-9);
        assert_eq!(row.missed(), ["1 of 2 retry times were not true"]);
    }

    #[test]
    fn one_too_many_is_seen_and_judged_by_mode() {
        assert!(row(Mode::Strict, 2, 1_001).is_exceeded);
        assert!((row(Mode::Strict, 2, 1_001).over() - 1.0).abs() < 1e-3);
        assert!(!row(Mode::Eventual, 2, 1_100).is_exceeded);
        assert!(row(Mode::Eventual, 2, 1_101).is_exceeded);
        assert!(!row(Mode::Local, 2, 2_000).is_exceeded);
    }

    #[test]
    fn targets_are_those_of_leases() {
        let targets = Targets {
            utilisation_min: Some(0.97),
            calls_per_denied_max: Some(0.001),
            ..Targets::default()
        };
        let row = Row {
            targets,
            retry_after: Truth::default(),
            ..row(Mode::Leased, 2, 900)
        };
        assert_eq!(
            row.missed(),
            [
                "utilisation 0.900 instead of 0.97",
                "0.014 calls per denied instead of 0.001"
            ]
        );
        assert!(
            Row {
                mode: Mode::Strict,
                ..row
            }
            .missed()
            .is_empty()
        );
    }
}
