//! Calls and removals that a sweep or the shutdown starts, not a request.

use super::{LeaseEntry, LeaseState};
use crate::store::lease::policy::{REPORT_AFTER, REVIEW_EVERY, SWEEP_EVERY};
use crate::time::Micros;

impl LeaseEntry {
    /// Returns true when a sweep should return or report the units of this entry.
    pub(in crate::store::lease) fn is_return_due(&self, now: Micros) -> bool {
        let is_due = match self.state {
            LeaseState::Leased { is_settled, .. } => {
                (self.available > 0 || is_settled) && now >= self.lease_ends_at()
            }
            LeaseState::Eventual { .. } => {
                now.since(self.replied_at) >= REPORT_AFTER && now >= self.denied_until
            }
        };
        is_due && self.pending.is_none() && self.outstanding() > 0
    }

    /// Forgets a lease that has ended and of which nothing is to be returned.
    pub(in crate::store::lease) fn forget_ended_lease(&mut self, now: Micros) {
        let has_ended = self.pending.is_none() && now >= self.lease_ends_at();
        if let LeaseState::Leased {
            lent, generation, ..
        } = &mut self.state
            && has_ended
        {
            (*lent, *generation) = (0, 0);
        }
    }

    /// When the next sweep of this entry is due: when its lease ends, as far as that is known now.
    pub(in crate::store::lease) fn sweep_at(&self, now: Micros) -> Micros {
        let soon = now.after(SWEEP_EVERY);
        match self.state {
            LeaseState::Leased { .. } if self.pending.is_none() => {
                self.lease_ends_at().clamp(soon, now.after(REVIEW_EVERY))
            }
            _ => soon,
        }
    }

    /// Returns true when removing the entry changes nothing but what is known of the key's demand,
    /// and that is outdated.
    pub(in crate::store::lease) fn is_removable(&self, now: Micros) -> bool {
        self.is_empty(now) && now.since(self.used_at) >= self.terms.long
    }

    /// Returns true when the entry has no units, no call in flight and no valid denial.
    pub(in crate::store::lease) fn is_empty(&self, now: Micros) -> bool {
        self.pending.is_none() && self.outstanding() == 0 && now >= self.denied_until
    }

    /// Units that the store counts as lent to this instance, or that it does not know about yet.
    pub(in crate::store::lease) const fn outstanding(&self) -> u64 {
        match self.state {
            LeaseState::Leased { lent, .. } => lent,
            LeaseState::Eventual { unreported, .. } => unreported,
        }
    }

    /// Returns true when the entry holds units and is not in the sweep queue.
    #[inline]
    pub(in crate::store::lease) const fn needs_sweep(&self) -> bool {
        self.outstanding() > 0 && !self.is_in_sweep_queue
    }

    /// When the lease ends: because it expires, or because the key is idle.
    fn lease_ends_at(&self) -> Micros {
        let idle_after = self.meter.idle_after(&self.terms);
        self.expires_at.min(self.used_at.after(idle_after))
    }
}
