//! What one limit said, counted without looking anything up.

use prometheus::{IntCounter, IntCounterVec};
use tollgate::{LimitStatus, Source};

/// What a limit can say.
const OUTCOMES: [&str; 3] = ["allowed", "denied", "shadow_denied"];
/// How it can come to say it.
const SOURCES: [Source; 5] =
    [Source::Store, Source::Lease, Source::DenyCache, Source::Fallback, Source::Local];

/// The counters of one limit. Those for sources that never occur are made when they do.
#[derive(Debug)]
pub(crate) struct LimitMeter {
    name: Box<str>,
    counters: [[std::sync::OnceLock<IntCounter>; OUTCOMES.len()]; SOURCES.len()],
    family: IntCounterVec,
}

/// What a limit has said so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) shadow_denied: u64,
}

impl LimitMeter {
    pub(super) fn new(name: &str, family: &IntCounterVec) -> Self {
        let meter = Self { name: name.into(), counters: Default::default(), family: family.clone() };
        // A limit that has said nothing yet shows as such.
        meter.counter(0, 0);
        meter.counter(0, 1);
        meter
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn count(&self, status: &LimitStatus) {
        let outcome = match (status.retry(), status.is_shadow()) {
            (None, _) => 0,
            (Some(_), false) => 1,
            (Some(_), true) => 2,
        };
        let source = SOURCES.iter().position(|source| *source == status.source()).unwrap_or(0);
        self.counter(source, outcome).inc();
    }

    /// What it has said so far, by whatever source.
    pub(crate) fn said(&self) -> Said {
        let sum = |outcome: usize| {
            self.counters.iter().filter_map(|by_outcome| by_outcome[outcome].get()).map(IntCounter::get).sum()
        };
        Said { allowed: sum(0), denied: sum(1), shadow_denied: sum(2) }
    }

    pub(super) fn remove_from(&self, family: &IntCounterVec) {
        for source in SOURCES {
            for outcome in OUTCOMES {
                // Those that were never made are not there to be removed.
                drop(family.remove_label_values(&[&self.name, outcome, source.as_str()]));
            }
        }
    }

    fn counter(&self, source: usize, outcome: usize) -> &IntCounter {
        self.counters[source][outcome].get_or_init(|| {
            self.family.with_label_values(&[&*self.name, OUTCOMES[outcome], SOURCES[source].as_str()])
        })
    }
}
