//! The result: one value, shown as tables and saved as numbers and a picture.

use serde::Serialize;

use super::ratios::Ratio;
use super::subject::{Case, Subject};
use crate::h2load::Round;
use crate::machine::Machine;
use crate::stats::{Spread, tenth};

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) h2load: String,
    pub(super) rounds: usize,
    pub(super) round_ms: u128,
    pub(super) ratios: Vec<Ratio>,
    pub(super) groups: Vec<Group>,
}

/// What was measured in turn with each other.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Group {
    pub(super) case: Case,
    /// Which part of the machine other programs took while servers were asked.
    pub(super) others: f64,
    /// Servers, over sockets.
    pub(super) rows: Vec<Row>,
    /// Calls in this process.
    pub(super) calls: Vec<Calls>,
}

/// One server.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) subject: Subject,
    pub(super) name: &'static str,
    pub(super) median: Round,
    /// The slowest and the fastest round.
    pub(super) requests_per_s_min: f64,
    pub(super) requests_per_s_max: f64,
    pub(super) rounds: Vec<Round>,
}

/// One subject without a server.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Calls {
    pub(super) subject: Subject,
    pub(super) name: &'static str,
    pub(super) ns: f64,
    /// The fastest and the slowest round.
    pub(super) ns_min: f64,
    pub(super) ns_max: f64,
    /// What the layer adds to the bare call.
    pub(super) added_ns: f64,
    pub(super) rounds: Vec<f64>,
}

impl Row {
    pub(super) fn new(subject: Subject, rounds: Vec<Round>) -> Self {
        let spread = |number: fn(&Round) -> f64| Spread::of(rounds.iter().map(number).collect());
        let Spread { median, min, max } = spread(|round| round.requests_per_s);
        let cpu_us = spread(|round| round.cpu_us).median;
        Self {
            subject,
            name: subject.name(),
            median: Round {
                requests_per_s: tenth(median),
                cpu_us,
            },
            requests_per_s_min: tenth(min),
            requests_per_s_max: tenth(max),
            rounds,
        }
    }
}

impl Calls {
    /// The calls of a subject, beside those of a bare service in the same rounds.
    pub(super) fn new(subject: Subject, rounds: Vec<f64>, bare: &[f64]) -> Self {
        let Spread { median, min, max } = Spread::of(rounds.clone());
        let added = rounds.iter().zip(bare).map(|(ns, bare)| ns - bare);
        let added_ns = Spread::of(added.collect()).median;
        Self {
            subject,
            name: subject.name(),
            ns: tenth(median),
            ns_min: tenth(min),
            ns_max: tenth(max),
            added_ns: tenth(added_ns),
            rounds,
        }
    }
}

impl Group {
    pub(super) fn row(&self, subject: Subject) -> Option<&Row> {
        self.rows.iter().find(|row| row.subject == subject)
    }

    pub(super) fn calls(&self, subject: Subject) -> Option<&Calls> {
        self.calls.iter().find(|calls| calls.subject == subject)
    }
}

impl Report {
    /// The largest part of the machine that others took during any group.
    pub(super) fn others(&self) -> f64 {
        self.groups
            .iter()
            .map(|group| group.others)
            .fold(0.0, f64::max)
    }
}
