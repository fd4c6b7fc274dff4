//! Calls and removals that a sweep or the shutdown starts, not a request.

use super::{LeaseEntry, LeaseState};
use crate::store::lease::policy::{IDLE_AFTER, REMOVE_AFTER, REPORT_AFTER};
use crate::time::Micros;

impl LeaseEntry {
    /// Returns true when a sweep should return or report the units of this entry.
    pub(in crate::store::lease) fn is_return_due(&self, now: Micros) -> bool {
        let is_due = match self.state {
            LeaseState::Leased { .. } => {
                now.since(self.used_at) >= IDLE_AFTER || now >= self.expires_at
            }
            LeaseState::Eventual { .. } => {
                now.since(self.replied_at) >= REPORT_AFTER && now >= self.denied_until
            }
        };
        is_due && self.pending.is_none() && self.outstanding() > 0
    }

    /// Returns true when removing the entry changes nothing.
    pub(in crate::store::lease) fn is_removable(&self, now: Micros) -> bool {
        self.pending.is_none()
            && self.outstanding() == 0
            && now >= self.denied_until
            && now.since(self.used_at) >= REMOVE_AFTER
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
}
