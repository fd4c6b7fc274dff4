//! The result, shown as tables and saved as numbers and a chart.

use serde::Serialize;

use super::accuracy::Burst;
use super::case::Case;
use super::entrant::Load;
use super::ratios::Ratio;
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

/// The result of one round, or the medians of all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Round {
    /// The time per decision of one thread; for tasks, of all of them together.
    pub(super) ns_per_decision: f64,
    /// Decisions per second of all threads or tasks together.
    pub(super) decisions_per_s: f64,
    /// The share of decisions that did not wait for the store.
    pub(super) local: f64,
    pub(super) calls_per_decision: f64,
    /// The share of the time that threads waited for a core. It is subtracted from the times, but
    /// caches get cold meanwhile.
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

    /// The largest share of time that threads waited for a core in the median round of any subject.
    pub(super) fn waited(&self) -> f64 {
        self.rows
            .iter()
            .map(|row| row.median.waited)
            .fold(0.0, f64::max)
    }
}
