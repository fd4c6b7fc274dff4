//! What one limit said, counted without looking anything up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate::{LimitOutcome, Source};

use super::page::{MetricsPage, exact};

/// What a limit can say.
const OUTCOMES: [&str; 3] = ["allowed", "denied", "shadow_denied"];
/// How it can come to say it.
pub(crate) const SOURCES: [Source; 5] = [
    Source::Store,
    Source::Lease,
    Source::DenyCache,
    Source::Fallback,
    Source::Local,
];

/// The counters of one limit.
#[derive(Debug)]
pub(crate) struct LimitMetrics {
    /// Another limit of the same name, later, has another.
    id: u32,
    name: Arc<str>,
    /// Whether it shows before it has said anything.
    is_of_file: bool,
    counts: [[AtomicU64; OUTCOMES.len()]; SOURCES.len()],
}

/// What a limit has said so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct OutcomeCounts {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) shadow_denied: u64,
}

impl OutcomeCounts {
    /// How often it was asked.
    pub(crate) const fn total(&self) -> u64 {
        self.allowed + self.denied + self.shadow_denied
    }

    /// What it said since it had said `earlier`. Less than that means that it began anew.
    pub(crate) const fn since(&self, earlier: &Self) -> Self {
        if self.total() < earlier.total() {
            return *self;
        }
        Self {
            allowed: self.allowed.saturating_sub(earlier.allowed),
            denied: self.denied.saturating_sub(earlier.denied),
            shadow_denied: self.shadow_denied.saturating_sub(earlier.shadow_denied),
        }
    }
}

/// What a limit has said so far, and how it came to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitCounts {
    pub(crate) outcomes: OutcomeCounts,
    /// In the order of [`SOURCES`].
    pub(crate) by_source: [u64; SOURCES.len()],
}

impl LimitCounts {
    /// What was added since `earlier`, which the same meter gave.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut by_source = self.by_source;
        for (now, before) in by_source.iter_mut().zip(earlier.by_source) {
            *now = now.saturating_sub(before);
        }
        Self {
            outcomes: self.outcomes.since(&earlier.outcomes),
            by_source,
        }
    }
}

impl LimitMetrics {
    pub(super) fn new(id: u32, name: &str, is_of_file: bool) -> Self {
        Self {
            id,
            name: name.into(),
            is_of_file,
            counts: Default::default(),
        }
    }

    pub(crate) const fn id(&self) -> u32 {
        self.id
    }

    pub(crate) const fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn count(&self, status: &LimitOutcome) {
        let outcome = match (status.retry(), status.is_shadow()) {
            (None, _) => 0,
            (Some(_), false) => 1,
            (Some(_), true) => 2,
        };
        let source = SOURCES
            .iter()
            .position(|source| *source == status.source())
            .unwrap_or(0);
        self.counts[source][outcome].fetch_add(1, Relaxed);
    }

    /// What it has said so far, by whatever source.
    pub(crate) fn outcomes(&self) -> OutcomeCounts {
        let sum = |outcome: usize| {
            self.counts
                .iter()
                .map(|counts| counts[outcome].load(Relaxed))
                .sum()
        };
        OutcomeCounts {
            allowed: sum(0),
            denied: sum(1),
            shadow_denied: sum(2),
        }
    }

    /// The same with its sources. Each count is read once, so that both sums are of the same
    /// counts.
    pub(crate) fn counts(&self) -> LimitCounts {
        let mut tally = LimitCounts::default();
        for (by_source, counts) in tally.by_source.iter_mut().zip(&self.counts) {
            let [allowed, denied, shadow_denied] =
                counts.each_ref().map(|count| count.load(Relaxed));
            tally.outcomes.allowed += allowed;
            tally.outcomes.denied += denied;
            tally.outcomes.shadow_denied += shadow_denied;
            *by_source = allowed + denied + shadow_denied;
        }
        tally
    }

    /// Its lines. Sources that never occurred have none; a limit of the file that has said nothing
    /// yet shows as such.
    pub(super) fn write(&self, page: &mut MetricsPage) {
        for (source, counts) in SOURCES.iter().zip(&self.counts) {
            for (outcome, count) in OUTCOMES.iter().zip(counts) {
                let count = count.load(Relaxed);
                let is_usual = *source == Source::Store && *outcome != OUTCOMES[2];
                if count > 0 || (self.is_of_file && is_usual) {
                    let labels = [
                        ("limit", &*self.name),
                        ("outcome", outcome),
                        ("source", source.as_str()),
                    ];
                    page.line(&labels, exact(count));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_has_every_count_by_outcome_and_by_source() {
        let meter = LimitMetrics::new(1, "a", true);
        for (source, counts) in meter.counts.iter().enumerate() {
            for (outcome, count) in counts.iter().enumerate() {
                count.store(
                    10_u64.pow(u32::try_from(outcome).unwrap()) << source,
                    Relaxed,
                );
            }
        }
        let tally = meter.counts();
        assert_eq!(tally.outcomes, meter.outcomes());
        assert_eq!(
            tally.outcomes,
            OutcomeCounts {
                allowed: 31,
                denied: 310,
                shadow_denied: 3_100
            }
        );
        assert_eq!(tally.by_source, [111, 222, 444, 888, 1_776]);
        assert_eq!(tally.since(&LimitCounts::default()), tally);
        assert_eq!(tally.since(&tally), LimitCounts::default());
    }

    #[test]
    fn what_began_anew_said_everything_since() {
        let said = |allowed, denied| OutcomeCounts {
            allowed,
            denied,
            shadow_denied: 0,
        };
        assert_eq!(said(5, 3).since(&said(1, 1)), said(4, 2));
        assert_eq!(said(2, 0).since(&said(1, 9)), said(2, 0));
    }
}
