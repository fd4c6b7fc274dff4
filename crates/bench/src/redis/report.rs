//! The result, shown as tables and saved as numbers and a chart.

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
    /// The runtime for which the store's figures are quoted.
    pub(super) published: Option<Runtime>,
    pub(super) ratios: Vec<Ratio>,
    pub(super) loads: Vec<Load>,
    pub(super) rows: Vec<Row>,
}

/// The load of one group of interleaved subjects.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Load {
    pub(super) keys: u32,
    pub(super) callers: usize,
    /// The share of the machine that other programs used meanwhile.
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

/// The result of one round, or the medians of all rounds.
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

    /// The number of callers in this process; absent if the callers belong to another program.
    pub(super) fn callers(&self) -> Option<usize> {
        self.subject.runtime.map(|_| self.crowd.callers)
    }
}

impl Report {
    /// The largest share of the machine that other programs used during any load.
    pub(super) fn others(&self) -> f64 {
        self.loads
            .iter()
            .map(|load| load.others)
            .fold(0.0, f64::max)
    }

    /// Subjects in the order in which they were measured.
    pub(super) fn subjects(&self) -> Vec<Subject> {
        listed(self.rows.iter().map(|row| row.subject))
    }

    /// Numbers of keys, with the numbers of callers that used them; absent where a program brings
    /// its own callers.
    pub(super) fn crowds(&self) -> Vec<(u32, Option<usize>)> {
        listed(self.rows.iter().map(|row| (row.keys, row.callers())))
    }
}

/// The distinct values, in the order of their first occurrence.
fn listed<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut listed = Vec::new();
    for one in all {
        if !listed.contains(&one) {
            listed.push(one);
        }
    }
    listed
}
