//! The cases, with limits of the same quota for every subject.

use std::fmt;
use std::time::Duration;

use tollgate::{Limit, Rate};

/// The name of the limit that is checked.
pub(super) const LIMIT: &str = "api";
/// The key that all threads and tasks check.
pub(super) const KEY: &str = "user-000000000042";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// One hot key, always allowed.
    Hot,
    /// One key that has used up its budget.
    Denied,
}

impl Case {
    pub(super) const ALL: [Self; 2] = [Self::Hot, Self::Denied];

    /// The units that a key may use at once: more than a run ever uses, or few.
    pub(super) const fn budget(self) -> u32 {
        match self {
            Self::Hot => 1_000_000_000,
            Self::Denied => 10,
        }
    }

    /// A token bucket that never denies and is never full again, or one that is used up for the
    /// rest of the run.
    pub(super) fn limit(self) -> Limit {
        let rate = Rate::new(3, Duration::from_secs(7));
        match self {
            Self::Hot => Limit::token_bucket(LIMIT, self.budget().into(), rate),
            Self::Denied => used_up(self.budget()),
        }
    }

    /// Whether the number of allowed checks is correct. An eventual limit may admit a few units of
    /// a used-up budget again; its bound says how many.
    pub(super) const fn is_correct(self, allowed: u64, asked: u64) -> bool {
        match self {
            Self::Hot => allowed == asked,
            Self::Denied => allowed <= 1 || allowed * 1_000 <= asked,
        }
    }
}

/// A bucket that refills nothing while it is measured.
pub(super) fn used_up(capacity: u32) -> Limit {
    let rate = Rate::new(1, Duration::from_hours(24));
    Limit::token_bucket(LIMIT, capacity.into(), rate)
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Hot => "hot",
            Self::Denied => "denied",
        })
    }
}
