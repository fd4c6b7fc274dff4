//! The arithmetic of units that expire one by one, shared by the sliding log and the concurrency
//! limit.

use super::key_lock::KeyLock;
use super::outcome::{Outcome, Verdict};
use crate::time::Micros;

/// The most hits or permits that are searched for the time when enough of them have expired. Beyond
/// that it is the time when all have: a longer search would delay other calls.
const SEARCH_MAX: usize = 512;

/// The totals of a log's hits or of a concurrency limit's permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryTotals {
    /// The sum of their costs in units.
    pub sum: u64,
    /// When the last of them expires.
    pub until: Micros,
    /// When enough of them have expired for the demand to be allowed, if it is denied now; else
    /// when enough have expired for more units to be left than now.
    pub frees: Micros,
}

impl EntryTotals {
    /// The totals of entries that cost `sum` together, for a demand of `cost`. Each entry is given
    /// by the moment at which it expires and its cost, soonest to expire first.
    pub(super) fn new(
        sum: u64,
        limit: u64,
        cost: u64,
        entries: impl DoubleEndedIterator<Item = (Micros, u64)> + Clone,
    ) -> Self {
        let last = entries.clone().next_back();

        // A cost above the limit never fits, so there is nothing to search for. A demand without a
        // cost is allowed even if nothing is left, and then a unit is missing.
        let wanted = cost.clamp(1, limit.max(1));
        let mut missing = sum.saturating_add(wanted).saturating_sub(limit);
        let frees = entries.take(SEARCH_MAX).find(|(_, cost)| {
            missing = missing.saturating_sub(*cost);
            missing == 0
        });

        let expiry = |entry: Option<(Micros, u64)>| entry.map_or(Micros::ZERO, |(at, _)| at);
        Self {
            sum,
            until: expiry(last),
            frees: expiry(frees.or(last)),
        }
    }

    /// Spends `cost` if it fits: units spent now expire one `length` from now.
    pub(super) fn spend(
        self,
        limit: u64,
        length: Micros,
        cost: u64,
        now: Micros,
    ) -> (Self, Outcome) {
        // What has expired and still counts is removed by a later call.
        let soon = now.after(Micros::new(1));
        let (verdict, spent) = if cost > limit {
            (Verdict::Never, 0)
        } else if cost <= limit.saturating_sub(self.sum) {
            (Verdict::ALLOW, cost)
        } else {
            let retry_after = self.frees.max(soon).since(now);
            (Verdict::Deny { retry_after }, 0)
        };

        let mut next = self;
        if spent > 0 {
            next.sum = self.sum.saturating_add(spent);
            next.until = self.until.max(now.after(length));
        }
        if next.sum > 0 {
            next.until = next.until.max(soon);
        }
        let more_at = if !verdict.is_allowed() {
            Micros::ZERO
        } else if self.sum > 0 {
            self.frees
        } else {
            next.until
        };
        let outcome = Outcome {
            verdict,
            limit,
            remaining: limit.saturating_sub(next.sum),
            reset_after: next.until.since(now),
            more_after: more_at.since(now),
            lock: KeyLock::NONE,
        };
        (next, outcome)
    }
}
