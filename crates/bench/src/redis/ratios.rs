//! Ratios with targets: the store compared with redis-benchmark, and with a bare client.

use serde::Serialize;

use super::entrant::{Runtime, Subject};
use super::report::{Round, Row};
use super::subjects::{BARE, PIPELINED, TOLLGATE};
use super::{CROWD, KEYS};
use crate::stats::Spread;

/// The store in relation to another subject.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Ratio {
    pub(super) what: Measure,
    pub(super) keys: u32,
    pub(super) runtime: Runtime,
    /// The ratio of the medians.
    pub(super) value: f64,
    /// The lowest and the highest ratio of the rounds.
    pub(super) lowest: f64,
    pub(super) highest: f64,
    #[serde(rename = "asked")]
    pub(super) target: f64,
    pub(super) is_reached: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Measure {
    /// Decisions per second with the most callers, relative to redis-benchmark with pipelines.
    /// Higher is better.
    Throughput,
    /// The median latency of one caller, relative to a bare EVALSHA on the same runtime. Lower is
    /// better.
    Latency,
}

impl Measure {
    pub(super) const ALL: [Self; 2] = [Self::Throughput, Self::Latency];

    pub(super) const fn target(self) -> f64 {
        match self {
            Self::Throughput => 1.5,
            Self::Latency => 1.3,
        }
    }

    fn is_reached(self, ratio: f64) -> bool {
        match self {
            Self::Throughput => ratio >= self.target(),
            Self::Latency => ratio <= self.target(),
        }
    }

    const fn callers(self) -> usize {
        match self {
            Self::Throughput => CROWD,
            Self::Latency => 1,
        }
    }

    const fn number(self, round: &Round) -> f64 {
        match self {
            Self::Throughput => round.decisions_per_s,
            Self::Latency => round.p50_us,
        }
    }

    fn ratio(self, rows: &[Row], keys: u32, runtime: Runtime) -> Option<Ratio> {
        let find = |name, runtime| {
            let subject = Subject { name, runtime };
            let is_meant = |row: &&Row| row.subject == subject && row.keys == keys;
            rows.iter()
                .filter(is_meant)
                .find(|row| runtime.is_none() || row.crowd.callers == self.callers())
        };
        let ours = find(TOLLGATE, Some(runtime))?;
        let theirs = match self {
            Self::Throughput => find(PIPELINED, None),
            Self::Latency => find(BARE, Some(runtime)),
        }?;
        let value = self.number(&ours.median) / self.number(&theirs.median);
        let rounds = ours.rounds.iter().zip(&theirs.rounds);
        let rounds = rounds.map(|(ours, theirs)| self.number(ours) / self.number(theirs));
        let Spread { min, max, .. } = Spread::of(rounds.collect());
        let (target, is_reached) = (self.target(), self.is_reached(value));
        Some(Ratio {
            what: self,
            keys,
            runtime,
            value,
            lowest: min,
            highest: max,
            target,
            is_reached,
        })
    }
}

/// All ratios whose subjects were measured.
pub(super) fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let all = Measure::ALL
        .into_iter()
        .flat_map(|what| KEYS.map(|keys| (what, keys)));
    let all = all.flat_map(|(what, keys)| Runtime::ALL.map(|runtime| (what, keys, runtime)));
    all.filter_map(|(what, keys, runtime)| what.ratio(rows, keys, runtime))
        .collect()
}

/// The runtime that makes more decisions with the most callers, over all keys.
pub(super) fn faster(rows: &[Row]) -> Option<Runtime> {
    let sum = |runtime| {
        let subject = Subject {
            name: TOLLGATE,
            runtime: Some(runtime),
        };
        let rows = rows
            .iter()
            .filter(|row| row.subject == subject && row.crowd.callers == CROWD);
        rows.map(|row| row.median.decisions_per_s).sum::<f64>()
    };
    let faster = Runtime::ALL
        .into_iter()
        .max_by(|one, other| sum(*one).total_cmp(&sum(*other)));
    faster.filter(|runtime| sum(*runtime) > 0.0)
}

#[cfg(test)]
mod tests {
    use super::super::entrant::Crowd;
    use super::*;

    fn row(
        name: &'static str,
        runtime: Option<Runtime>,
        callers: usize,
        numbers: [(f64, f64); 3],
    ) -> Row {
        let round = |(decisions_per_s, p50_us)| Round {
            decisions_per_s,
            p50_us,
            p99_us: p50_us * 2.0,
            calls_per_decision: 1.0,
        };
        let crowd = Crowd {
            callers,
            pipeline: if runtime.is_some() { 1 } else { 16 },
        };
        Row::new(
            Subject { name, runtime },
            1,
            crowd,
            numbers.map(round).to_vec(),
        )
    }

    fn rows() -> Vec<Row> {
        let workers = Some(Runtime::TwoWorkers);
        vec![
            row(
                TOLLGATE,
                workers,
                1,
                [(9.0, 13.0), (9.0, 12.0), (9.0, 18.0)],
            ),
            row(BARE, workers, 1, [(9.0, 10.0), (9.0, 10.0), (9.0, 9.0)]),
            row(
                TOLLGATE,
                workers,
                CROWD,
                [(150.0, 1.0), (160.0, 1.0), (140.0, 1.0)],
            ),
            row(
                PIPELINED,
                None,
                50,
                [(100.0, 1.0), (80.0, 1.0), (100.0, 1.0)],
            ),
            row(
                TOLLGATE,
                Some(Runtime::CurrentThread),
                CROWD,
                [(190.0, 1.0), (80.0, 1.0), (80.0, 1.0)],
            ),
        ]
    }

    #[test]
    fn only_comparable_rows_are_compared() {
        let ratios = ratios(&rows());
        let found: Vec<_> = ratios
            .iter()
            .map(|ratio| (ratio.what, ratio.runtime, ratio.is_reached))
            .collect();
        let workers = Runtime::TwoWorkers;
        assert_eq!(
            found,
            [
                (Measure::Throughput, workers, true),
                (Measure::Throughput, Runtime::CurrentThread, false),
                (Measure::Latency, workers, true)
            ]
        );
        let numbers: Vec<_> = ratios
            .iter()
            .map(|ratio| [ratio.value, ratio.lowest, ratio.highest])
            .collect();
        assert_eq!(numbers, [[1.5, 1.4, 2.0], [0.8, 0.8, 1.9], [1.3, 1.2, 2.0]]);
    }

    #[test]
    fn one_good_round_does_not_choose_the_runtime() {
        assert_eq!(faster(&rows()), Some(Runtime::TwoWorkers));
        assert_eq!(faster(&[]), None);
    }

    #[test]
    fn what_was_not_measured_has_no_ratio() {
        assert_eq!(ratios(&rows()[..1]), []);
    }
}
