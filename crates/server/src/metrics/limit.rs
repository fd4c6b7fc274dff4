//! What one limit said, counted without looking anything up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate::{LimitStatus, Source};

use super::page::{Page, exact};

/// What a limit can say.
const OUTCOMES: [&str; 3] = ["allowed", "denied", "shadow_denied"];
/// How it can come to say it.
const SOURCES: [Source; 5] =
    [Source::Store, Source::Lease, Source::DenyCache, Source::Fallback, Source::Local];

/// The counters of one limit.
#[derive(Debug)]
pub(crate) struct LimitMeter {
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

impl LimitMeter {
    pub(super) fn new(name: &str, is_of_file: bool) -> Self {
        Self { name: name.into(), is_of_file, counts: Default::default() }
    }

    pub(crate) const fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn count(&self, status: &LimitStatus) {
        let outcome = match (status.retry(), status.is_shadow()) {
            (None, _) => 0,
            (Some(_), false) => 1,
            (Some(_), true) => 2,
        };
        let source = SOURCES.iter().position(|source| *source == status.source()).unwrap_or(0);
        self.counts[source][outcome].fetch_add(1, Relaxed);
    }

    /// What it has said so far, by whatever source.
    pub(crate) fn said(&self) -> Said {
        let sum = |outcome: usize| self.counts.iter().map(|counts| counts[outcome].load(Relaxed)).sum();
        Said { allowed: sum(0), denied: sum(1), shadow_denied: sum(2) }
    }

    /// Its lines. Sources that never occurred have none; a limit of the file that has said nothing yet shows as such.
    pub(super) fn write(&self, page: &mut Page) {
        for (source, counts) in SOURCES.iter().zip(&self.counts) {
            for (outcome, count) in OUTCOMES.iter().zip(counts) {
                let count = count.load(Relaxed);
                let is_usual = *source == Source::Store && *outcome != OUTCOMES[2];
                if count > 0 || (self.is_of_file && is_usual) {
                    let labels = [("limit", &*self.name), ("outcome", outcome), ("source", source.as_str())];
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
    fn what_began_anew_said_everything_since() {
        let said = |allowed, denied| Said { allowed, denied, shadow_denied: 0 };
        assert_eq!(said(5, 3).since(&said(1, 1)), said(4, 2));
        assert_eq!(said(2, 0).since(&said(1, 9)), said(2, 0));
    }
}
