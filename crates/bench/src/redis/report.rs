//! The result: one value, shown as tables and saved as numbers and a chart.

use serde::Serialize;

use super::entrant::{Crowd, Runtime, Subject};
use super::ratios::Ratio;
use crate::machine::Machine;
use crate::stats::{Spread, tenth};

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) server: String,
    pub(super) redis_benchmark: String,
    pub(super) rounds: usize,
    pub(super) round_ms: u128,
    /// The runtime that the figures of the store are quoted for.
    pub(super) published: Option<Runtime>,
    pub(super) ratios: Vec<Ratio>,
    pub(super) loads: Vec<Load>,
    pub(super) rows: Vec<Row>,
}

/// What was measured in turn with each other.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Load {
    pub(super) keys: u32,
    pub(super) callers: usize,
    /// Which part of the machine other programs took meanwhile.
    pub(super) others: f64,
}

/// One subject under one load.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    pub(super) subject: Subject,
    pub(super) keys: u32,
    #[serde(flatten)]
    pub(super) crowd: Crowd,
    pub(super) median: Round,
    /// The slowest and the fastest round.
    pub(super) decisions_per_s_min: f64,
    pub(super) decisions_per_s_max: f64,
    pub(super) rounds: Vec<Round>,
}

/// What a round says, or the medians of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Round {
    pub(super) decisions_per_s: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) calls_per_decision: f64,
}

impl Row {
    pub(super) fn new(subject: Subject, keys: u32, crowd: Crowd, rounds: Vec<Round>) -> Self {
        let spread = |number: fn(&Round) -> f64| Spread::of(rounds.iter().map(number).collect());
        let Spread { median, min, max } = spread(|round| round.decisions_per_s);
        let median = Round {
            decisions_per_s: tenth(median),
            p50_us: spread(|round| round.p50_us).median,
            p99_us: spread(|round| round.p99_us).median,
            calls_per_decision: spread(|round| round.calls_per_decision).median,
        };
        Self {
            subject,
            keys,
            crowd,
            median,
            decisions_per_s_min: tenth(min),
            decisions_per_s_max: tenth(max),
            rounds,
        }
    }

    /// How many callers in this process asked; none when the callers were another program's.
    pub(super) fn callers(&self) -> Option<usize> {
        self.subject.runtime.map(|_| self.crowd.callers)
    }
}

impl Report {
    /// The largest part of the machine that others took during any load.
    pub(super) fn others(&self) -> f64 {
        self.loads
            .iter()
            .map(|load| load.others)
            .fold(0.0, f64::max)
    }

    /// Subjects in the order they were listed.
    pub(super) fn subjects(&self) -> Vec<Subject> {
        listed(self.rows.iter().map(|row| row.subject))
    }

    /// Numbers of keys, with the numbers of callers that asked about them; none where a program
    /// brought its own.
    pub(super) fn crowds(&self) -> Vec<(u32, Option<usize>)> {
        listed(self.rows.iter().map(|row| (row.keys, row.callers())))
    }
}

/// Each once, in the order of their first coming.
fn listed<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut listed = Vec::new();
    for one in all {
        if !listed.contains(&one) {
            listed.push(one);
        }
    }
    listed
}
