//! The figures of one cell, computed from the records of its requests, with its bound and whether
//! it was kept.

use std::collections::HashMap;

use serde::Serialize;

use super::excess::{Admission, Excess};
use super::ideal::IdealResult;
use super::plan::{Case, Cell, Mode, Targets, Topology};
use super::record::{DecisionSource, Record};
use super::retry::RetryResult;
use super::windows::ClockOffset;
use crate::percentiles::nearest_rank;

/// The figures of one cell.
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
    /// Answered by the failure policy, because the store was unavailable.
    pub(super) degraded: usize,
    /// Not answered, or not with a decision.
    pub(super) errors: usize,
    pub(super) admitted_units: u64,
    pub(super) ideal_units: u64,
    /// Units above what the limit allows, over the worst interval of the worst key; negative if the
    /// limit was not reached.
    pub(super) excess: f64,
    /// The most that `excess` may be; absent where every replica counts separately.
    pub(super) excess_bound: Option<u64>,
    pub(super) is_exceeded: bool,
    /// Admitted requests that cost more than the limit's capacity.
    pub(super) impossible: usize,
    pub(super) utilisation: Option<f64>,
    /// Utilisation from the time at which an ideal limiter would have been used up.
    pub(super) utilisation_full: Option<f64>,
    pub(super) script_calls: u64,
    pub(super) calls_per_request: Option<f64>,
    pub(super) calls_per_admitted: Option<f64>,
    pub(super) calls_per_denied: Option<f64>,
    /// The 99th percentile of how late requests were sent: where the machine cannot keep up, the
    /// offered load was lower than nominal.
    pub(super) sent_late_p99_us: Option<u64>,
    pub(super) p50_us: Option<u64>,
    pub(super) p99_us: Option<u64>,
    pub(super) p999_us: Option<u64>,
    /// The share of responses that a replica gave without a store call.
    pub(super) local_share: Option<f64>,
    pub(super) retry_after: RetryResult,
    pub(super) targets: Targets,
}

/// The measurements of a cell.
pub(super) struct CellMeasurement<'a> {
    pub(super) records: &'a [Record],
    pub(super) ideal: IdealResult,
    pub(super) offset: ClockOffset,
    pub(super) script_calls: u64,
    pub(super) retry_after: RetryResult,
}

impl Row {
    pub(super) fn new(cell: &Cell, measurement: &CellMeasurement<'_>) -> Self {
        let records = measurement.records;
        let count = |is: fn(&Record) -> bool| records.iter().filter(|record| is(record)).count();
        let (admitted, denied) = (count(|record| record.admitted), count(Record::is_denied));
        let excess = worst(cell, records, measurement.offset).unwrap_or(Excess::whole(0));
        let bound = cell.bound();
        let impossible =
            |record: &&Record| record.admitted && u64::from(record.cost) > cell.limit.capacity();
        let impossible = records.iter().filter(impossible).count();
        let latency = sorted(records, Record::latency_us);
        let answered = records.len() - count(|record| record.source == DecisionSource::Missing);
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
            degraded: count(|record| record.source == DecisionSource::Fallback),
            errors: count(|record| record.source == DecisionSource::Missing),
            admitted_units: records
                .iter()
                .filter(|record| record.admitted)
                .map(|record| u64::from(record.cost))
                .sum(),
            ideal_units: measurement.ideal.units(),
            excess: excess.units(),
            excess_bound: bound,
            is_exceeded: bound.is_some_and(|bound| excess.exceeds(bound) || impossible > 0),
            impossible,
            utilisation: measurement.ideal.utilisation(records),
            utilisation_full: measurement.ideal.utilisation_full(records),
            script_calls: measurement.script_calls,
            calls_per_request: per(measurement.script_calls, records.len()),
            calls_per_admitted: per(measurement.script_calls, admitted),
            calls_per_denied: per(measurement.script_calls, denied),
            sent_late_p99_us: nearest_rank(&sorted(records, Record::late_us), 990),
            p50_us: nearest_rank(&latency, 500),
            p99_us: nearest_rank(&latency, 990),
            p999_us: nearest_rank(&latency, 999),
            local_share: per(
                u64::try_from(count(|record| record.source.is_local())).unwrap_or(0),
                answered,
            ),
            retry_after: measurement.retry_after,
            targets: cell.targets,
        }
    }

    /// Units over the limit for the table: negative values become zero.
    pub(super) fn over(&self) -> f64 {
        self.excess.max(0.0)
    }

    /// The targets other than strictness that were missed, as text. Only leased limits have
    /// targets; the other modes are for comparison.
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
            missed.push(format!("utilisation {found:.3}, target {min}"));
        }
        let calls = [
            ("admitted", calls_per_admitted_max, self.calls_per_admitted),
            ("denied", calls_per_denied_max, self.calls_per_denied),
        ];
        for (what, max, found) in calls {
            if let (Some(max), Some(found)) = (max, found)
                && found > max
            {
                missed.push(format!("{found:.3} calls per {what}, target {max}"));
            }
        }
        if self.mode != Mode::Leased {
            missed.clear();
        }
        let RetryResult { kept, of } = self.retry_after;
        if kept < of {
            missed.push(format!("{} of {of} retries were denied", of - kept));
        }
        missed
    }
}

/// The worst excess over all keys.
fn worst(cell: &Cell, records: &[Record], offset: ClockOffset) -> Option<Excess> {
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
        .filter_map(|admissions| cell.limit.excess(admissions, offset));
    excesses.reduce(Excess::max)
}

/// The durations of answered requests, sorted.
fn sorted(records: &[Record], length_us: fn(&Record) -> u64) -> Vec<u64> {
    let answered = records
        .iter()
        .filter(|record| record.source != DecisionSource::Missing);
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
    use super::super::schedule::{self, ScheduledRequest};
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

    /// A row of a cold key, of which the first `admitted` of 3,000 requests were admitted.
    pub(in super::super) fn row(mode: Mode, replicas: usize, admitted: usize) -> Row {
        let cell = cell(mode, replicas);
        let requests = schedule::requests(&cell, SECOND_US);
        let record = |(index, scheduled): (usize, &ScheduledRequest)| Record {
            scheduled_us: scheduled.at_us,
            sent_us: 10,
            received_us: 500,
            key: 0,
            cost: scheduled.cost,
            admitted: index < admitted,
            source: if index.is_multiple_of(2) {
                DecisionSource::Store
            } else {
                DecisionSource::Lease
            },
        };
        let records: Vec<Record> = requests.iter().enumerate().map(record).collect();
        let measurement = CellMeasurement {
            records: &records,
            ideal: ideal::replay(&cell.limit, &records, SECOND_US).unwrap(),
            offset: ClockOffset {
                least_us: 0,
                most_us: 0,
            },
            script_calls: 30,
            retry_after: RetryResult { kept: 1, of: 2 },
        };
        Row::new(&cell, &measurement)
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
        assert_eq!(row.missed(), ["1 of 2 retries were denied"]);
    }

    #[test]
    fn one_unit_too_many_is_judged_by_mode() {
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
            retry_after: RetryResult::default(),
            ..row(Mode::Leased, 2, 900)
        };
        assert_eq!(
            row.missed(),
            [
                "utilisation 0.900, target 0.97",
                "0.014 calls per denied, target 0.001"
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
