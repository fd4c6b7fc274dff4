//! The result: one value, shown as tables and saved as numbers and a chart.

use serde::Serialize;

use super::case::Case;
use super::entrant::Load;
use super::ratios::Ratio;
use super::truth::Burst;
use crate::machine::Machine;
use crate::stats::Spread;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) server: String,
    pub(super) rounds: usize,
    pub(super) round_ms: u128,
    pub(super) ratios: Vec<Ratio>,
    pub(super) rows: Vec<Row>,
    pub(super) bursts: Vec<Burst>,
}

/// One subject under one load.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) case: Case,
    pub(super) subject: &'static str,
    pub(super) load: Load,
    pub(super) median: Round,
    /// The fastest and the slowest round.
    pub(super) ns_min: f64,
    pub(super) ns_max: f64,
    pub(super) rounds: Vec<Round>,
}

/// What a round says, or the medians of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Round {
    /// What one thread spends on each of its decisions; of callers, all of them together.
    pub(super) ns_per_decision: f64,
    /// Of all threads or callers together.
    pub(super) decisions_per_s: f64,
    /// Which part was answered without waiting for the store.
    pub(super) local: f64,
    pub(super) calls_per_decision: f64,
    /// Which part of the time threads were without a core. It is not in the numbers, but caches
    /// went cold meanwhile.
    pub(super) waited: f64,
}

impl Row {
    pub(super) fn new(case: Case, subject: &'static str, load: Load, rounds: Vec<Round>) -> Self {
        let spread = |number: fn(&Round) -> f64| Spread::of(rounds.iter().map(number).collect());
        let Spread { median, min, max } = spread(|round| round.ns_per_decision);
        let median = Round {
            ns_per_decision: median,
            decisions_per_s: spread(|round| round.decisions_per_s).median,
            local: spread(|round| round.local).median,
            calls_per_decision: spread(|round| round.calls_per_decision).median,
            waited: spread(|round| round.waited).median,
        };
        Self {
            case,
            subject,
            load,
            median,
            ns_min: min,
            ns_max: max,
            rounds,
        }
    }
}

impl Report {
    pub(super) fn row(&self, case: Case, subject: &str, load: Load) -> Option<&Row> {
        self.rows
            .iter()
            .find(|row| (row.case, row.subject, row.load) == (case, subject, load))
    }

    /// The largest part of their time that threads were without a core in the middle round of any
    /// subject.
    pub(super) fn waited(&self) -> f64 {
        self.rows
            .iter()
            .map(|row| row.median.waited)
            .fold(0.0, f64::max)
    }
}
