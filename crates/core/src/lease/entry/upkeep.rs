//! What there is to do about a counter although nobody asks for it.

use super::Entry;
use crate::lease::call::CallPurpose;
use crate::lease::pace::{FORGET, IDLE, MERGE};
use crate::time::Micros;

impl Entry {
    /// What there is to do although nobody asks.
    pub(in crate::lease) fn due(&self, now: Micros) -> Option<CallPurpose> {
        if self.flight.is_some() {
            None
        } else if self.is_eventual {
            (self.held > 0 && now.since(self.heard) >= MERGE && now >= self.until)
                .then_some(CallPurpose::Merge)
        } else {
            let is_idle = now.since(self.used) >= IDLE || now >= self.ends;
            (is_idle && self.owes()).then_some(CallPurpose::Return)
        }
    }

    /// What there is to give back or to tell before the process ends.
    pub(in crate::lease) fn leaves(&self) -> Option<CallPurpose> {
        let errand = if self.is_eventual {
            CallPurpose::Merge
        } else {
            CallPurpose::Return
        };
        let has_something = if self.is_eventual {
            self.held > 0
        } else {
            self.owes()
        };
        (self.flight.is_none() && has_something).then_some(errand)
    }

    /// True when forgetting it changes nothing.
    pub(in crate::lease) fn is_worthless(&self, now: Micros) -> bool {
        let holds = if self.is_eventual {
            self.held > 0
        } else {
            self.owes()
        };
        self.flight.is_none() && !holds && now >= self.until && now.since(self.used) >= FORGET
    }

    /// Units that are out, or not told.
    pub(in crate::lease) const fn held(&self) -> u64 {
        self.held
    }

    /// True when it holds something and nobody looks after it.
    #[inline]
    pub(in crate::lease) const fn is_unwatched(&self) -> bool {
        self.held > 0 && !self.is_watched
    }

    fn owes(&self) -> bool {
        self.generation != 0 && self.held > 0
    }
}
