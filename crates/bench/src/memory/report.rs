//! The result, shown as tables and saved as numbers and a chart.

use serde::Serialize;

use super::bytes::Footprint;
use super::cap::FloodResult;
use super::entrant::Round;
use crate::machine::Machine;
use crate::stats::{Spread, tenth};

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) rounds: usize,
    pub(super) rows: Vec<Row>,
    pub(super) bytes_per_key: Vec<Footprint>,
    pub(super) cap: Vec<FloodResult>,
}

/// The time of one subject in one case.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) subject: &'static str,
    pub(super) case: &'static str,
    pub(super) threads: usize,
    pub(super) ns_per_op: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    /// The largest share of any round's time that was lost to other programs.
    pub(super) waited: f64,
}

impl Row {
    pub(super) fn new(
        subject: &'static str,
        case: &'static str,
        threads: usize,
        rounds: &[Round],
    ) -> Self {
        let Spread { median, min, max } =
            Spread::of(rounds.iter().map(|round| round.ns_per_op).collect());
        let waited = rounds.iter().map(|round| round.waited).fold(0.0, f64::max);
        Self {
            subject,
            case,
            threads,
            ns_per_op: tenth(median),
            min: tenth(min),
            max: tenth(max),
            waited,
        }
    }
}

impl Report {
    /// Cases with their threads, in the order in which they were measured.
    pub(super) fn loads(&self) -> Vec<(&'static str, usize)> {
        let mut loads = Vec::new();
        for load in self.rows.iter().map(|row| (row.case, row.threads)) {
            if !loads.contains(&load) {
                loads.push(load);
            }
        }
        loads
    }

    /// Subjects in the order in which they were measured.
    pub(super) fn subjects(&self) -> Vec<&'static str> {
        let mut subjects = Vec::new();
        for row in &self.rows {
            if !subjects.contains(&row.subject) {
                subjects.push(row.subject);
            }
        }
        subjects
    }

    pub(super) fn row(&self, load: (&str, usize), subject: &str) -> Option<&Row> {
        self.rows
            .iter()
            .find(|row| (row.case, row.threads) == load && row.subject == subject)
    }

    /// The time of governor with default settings under this load, which is the reference. Its
    /// variants have separate columns.
    pub(super) fn governor_ns(&self, load: (&str, usize)) -> Option<f64> {
        self.row(load, "governor").map(|row| row.ns_per_op)
    }

    /// The largest share of any round's time that was lost to other programs.
    pub(super) fn waited(&self) -> f64 {
        self.rows.iter().map(|row| row.waited).fold(0.0, f64::max)
    }
}
