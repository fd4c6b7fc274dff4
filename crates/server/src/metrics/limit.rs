//! What one limit said, counted without looking anything up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate::{LimitOutcome, Source};

use super::page::{Page, exact};

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
pub(crate) struct LimitMeter {
    /// Another limit of the same name, later, has another.
    id: u32,
    name: Arc<str>,
    /// Whether it shows before it has said anything.
    is_of_file: bool,
    counts: [[AtomicU64; OUTCOMES.len()]; SOURCES.len()],
}

/// What a limit has said so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Said {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) shadow_denied: u64,
}

impl Said {
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
pub(crate) struct Tally {
    pub(crate) said: Said,
    /// In the order of [`SOURCES`].
    pub(crate) by_source: [u64; SOURCES.len()],
}

impl Tally {
    /// What was added since `earlier`, which the same meter gave.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut by_source = self.by_source;
        for (now, before) in by_source.iter_mut().zip(earlier.by_source) {
            *now = now.saturating_sub(before);
        }
        Self {
            said: self.said.since(&earlier.said),
            by_source,
        }
    }
}

impl LimitMeter {
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
    pub(crate) fn said(&self) -> Said {
        let sum = |outcome: usize| {
            self.counts
                .iter()
                .map(|counts| counts[outcome].load(Relaxed))
                .sum()
        };
        Said {
            allowed: sum(0),
            denied: sum(1),
            shadow_denied: sum(2),
        }
    }

    /// The same with its sources. Each count is read once, so that both sums are of the same
    /// counts.
    pub(crate) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for (by_source, counts) in tally.by_source.iter_mut().zip(&self.counts) {
            let [allowed, denied, shadow_denied] =
                counts.each_ref().map(|count| count.load(Relaxed));
            tally.said.allowed += allowed;
            tally.said.denied += denied;
            tally.said.shadow_denied += shadow_denied;
            *by_source = allowed + denied + shadow_denied;
        }
        tally
    }

    /// Its lines. Sources that never occurred have none; a limit of the file that has said nothing
    /// yet shows as such.
    pub(super) fn write(&self, page: &mut Page) {
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
        let meter = LimitMeter::new(1, "a", true);
        for (source, counts) in meter.counts.iter().enumerate() {
            for (outcome, count) in counts.iter().enumerate() {
                count.store(
                    10_u64.pow(u32::try_from(outcome).unwrap()) << source,
                    Relaxed,
                );
            }
        }
        let tally = meter.tally();
        assert_eq!(tally.said, meter.said());
        assert_eq!(
            tally.said,
            Said {
                allowed: 31,
                denied: 310,
                shadow_denied: 3_100
            }
        );
        assert_eq!(tally.by_source, [111, 222, 444, 888, 1_776]);
        assert_eq!(tally.since(&Tally::default()), tally);
        assert_eq!(tally.since(&tally), Tally::default());
    }

    #[test]
    fn what_began_anew_said_everything_since() {
        let said = |allowed, denied| Said {
            allowed,
            denied,
            shadow_denied: 0,
        };
        assert_eq!(said(5, 3).since(&said(1, 1)), said(4, 2));
        assert_eq!(said(2, 0).since(&said(1, 9)), said(2, 0));
    }
}
