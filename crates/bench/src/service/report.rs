//! The result, shown as tables and saved as numbers and a chart.

use serde::Serialize;

use super::entrant::Subject;
use super::ratios::Ratio;
use super::request::{Case, Protocol};
use crate::h2load::Round;
use crate::machine::Machine;
use crate::percentiles::Percentiles;
use crate::stats::{Spread, tenth};

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) h2load: String,
    pub(super) rounds: usize,
    pub(super) round_ms: u128,
    pub(super) ratios: Vec<Ratio>,
    /// The subjects that were not measured, and why.
    pub(super) absent: Vec<String>,
    pub(super) groups: Vec<Group>,
    pub(super) rows: Vec<Row>,
}

/// One group of interleaved subjects.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Group {
    pub(super) protocol: Protocol,
    pub(super) case: Case,
    /// The share of the machine that other programs used meanwhile.
    pub(super) others: f64,
}

/// One subject in one case over one protocol.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) protocol: Protocol,
    pub(super) case: Case,
    pub(super) subject: Subject,
    pub(super) name: String,
    pub(super) median: Round,
    /// The slowest and the fastest round.
    pub(super) requests_per_s_min: f64,
    pub(super) requests_per_s_max: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) rounds: Vec<Round>,
}

impl Row {
    pub(super) fn new(
        (protocol, case): (Protocol, Case),
        subject: Subject,
        rounds: Vec<Round>,
        latencies: Percentiles,
    ) -> Self {
        let spread = |number: fn(&Round) -> f64| Spread::of(rounds.iter().map(number).collect());
        let Spread { median, min, max } = spread(|round| round.requests_per_s);
        let cpu_us = spread(|round| round.cpu_us).median;
        let Percentiles { p50_us, p99_us } = latencies;
        Self {
            protocol,
            case,
            name: subject.over(protocol),
            subject,
            median: Round {
                requests_per_s: tenth(median),
                cpu_us,
            },
            requests_per_s_min: tenth(min),
            requests_per_s_max: tenth(max),
            p50_us,
            p99_us,
            rounds,
        }
    }
}

impl Report {
    /// The largest share of the machine that other programs used during any group.
    pub(super) fn others(&self) -> f64 {
        self.groups
            .iter()
            .map(|group| group.others)
            .fold(0.0, f64::max)
    }

    /// Subjects in the order of their first occurrence.
    pub(super) fn subjects(&self) -> Vec<&Subject> {
        let mut subjects = Vec::new();
        for Row { subject, .. } in &self.rows {
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
        }
        subjects
    }

    pub(super) fn rows_of(&self, protocol: Protocol, case: Case) -> impl Iterator<Item = &Row> {
        self.rows
            .iter()
            .filter(move |row| (row.protocol, row.case) == (protocol, case))
    }
}
