//! Calls and removals that a sweep or the shutdown starts, not a request.

use super::LeaseEntry;
use crate::lease::call::CallPurpose;
use crate::lease::policy::{IDLE_AFTER, REMOVE_AFTER, REPORT_AFTER};
use crate::time::Micros;

impl LeaseEntry {
    /// The call that a sweep should start for this entry, if any.
    pub(in crate::lease) fn due_call(&self, now: Micros) -> Option<CallPurpose> {
        if self.pending.is_some() {
            None
        } else if self.is_eventual {
            let is_due = self.outstanding > 0
                && now.since(self.replied_at) >= REPORT_AFTER
                && now >= self.denied_until;
            is_due.then_some(CallPurpose::Report)
        } else {
            let is_idle = now.since(self.used_at) >= IDLE_AFTER || now >= self.expires_at;
            (is_idle && self.has_lease()).then_some(CallPurpose::Return)
        }
    }

    /// The call that returns or reports all units before the instance shuts down, if there are any.
    pub(in crate::lease) fn final_call(&self) -> Option<CallPurpose> {
        let purpose = if self.is_eventual {
            CallPurpose::Report
        } else {
            CallPurpose::Return
        };

        (self.pending.is_none() && self.has_units()).then_some(purpose)
    }

    /// Returns true when removing the entry changes nothing.
    pub(in crate::lease) fn is_removable(&self, now: Micros) -> bool {
        self.pending.is_none()
            && !self.has_units()
            && now >= self.denied_until
            && now.since(self.used_at) >= REMOVE_AFTER
    }

    /// Units that the store counts as lent to this instance, or that it does not know about yet.
    pub(in crate::lease) const fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Returns true when the entry holds units and is not in the sweep queue.
    #[inline]
    pub(in crate::lease) const fn needs_sweep(&self) -> bool {
        self.outstanding > 0 && !self.is_in_sweep_queue
    }

    /// Returns true when there are units to return or to report.
    fn has_units(&self) -> bool {
        if self.is_eventual {
            self.outstanding > 0
        } else {
            self.has_lease()
        }
    }

    fn has_lease(&self) -> bool {
        self.generation != 0 && self.outstanding > 0
    }
}
