//! The operations of store calls.

use tollgate::store::Intent;

/// What a call does. The numbers are those of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Operation {
    Spend = 1,
    Peek = 2,
    Refund = 3,
    Release = 4,
    Renew = 5,
    /// Settles the lease of an instance, spends, and grants more units.
    Lease = 6,
    /// Deletes the counter.
    Reset = 7,
    /// Charges the demands, whether they fit or not.
    Count = 8,
    /// Spends, and remembers what was charged.
    Reserve = 9,
    /// Applies the actual cost of a demand that was reserved.
    Settle = 10,
    /// Peeks, and tells what the counters contain.
    Inspect = 11,
    /// Peeks, and counts denials towards lockouts.
    Refuse = 12,
    /// Works on shared records, by a script of its own (`scripts/records.lua`).
    Records = 13,
}

impl Operation {
    /// True when the reply has the states of counters: of a spend, a peek and what is like them.
    pub(super) const fn has_states(self) -> bool {
        matches!(
            self,
            Self::Spend
                | Self::Peek
                | Self::Lease
                | Self::Count
                | Self::Reserve
                | Self::Inspect
                | Self::Refuse
        )
    }

    /// True when the lockouts of limits matter.
    pub(super) const fn has_lockouts(self) -> bool {
        self.has_states() && !matches!(self, Self::Lease)
    }
}

impl From<Intent> for Operation {
    fn from(intent: Intent) -> Self {
        match intent {
            Intent::Peek => Self::Peek,
            Intent::Inspect => Self::Inspect,
            Intent::Count => Self::Count,
            Intent::Reserve { .. } => Self::Reserve,
            Intent::Refuse => Self::Refuse,
            _ => Self::Spend,
        }
    }
}
