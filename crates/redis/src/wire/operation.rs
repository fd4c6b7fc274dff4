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
    /// Works on shared records, by a script of its own (`scripts/records.lua`).
    Records = 12,
}

impl From<Intent> for Operation {
    fn from(intent: Intent) -> Self {
        match intent {
            Intent::Peek => Self::Peek,
            Intent::Inspect => Self::Inspect,
            Intent::Count => Self::Count,
            Intent::Reserve { .. } => Self::Reserve,
            _ => Self::Spend,
        }
    }
}
