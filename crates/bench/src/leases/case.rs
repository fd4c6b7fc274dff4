//! What is asked, in limits of the same numbers for everybody.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use tollgate::{Limit, Rate};

/// The name of the limit that is asked about.
pub(super) const LIMIT: &str = "api";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Case {
    /// One key that everybody wants, always allowed.
    Hot,
    /// One key that has used up its budget.
    Denied,
}

impl Case {
    pub(super) const ALL: [Self; 2] = [Self::Hot, Self::Denied];

    /// How much a key may do at once: more than any run asks for, or little.
    pub(super) const fn budget(self) -> u32 {
        match self {
            Self::Hot => 1_000_000_000,
            Self::Denied => 10,
        }
    }

    /// A token bucket that never refuses and is never full again, or one that is used up for the
    /// rest of the run.
    pub(super) fn limit(self) -> Limit {
        match self {
            Self::Hot => Limit::token_bucket(
                LIMIT,
                self.budget().into(),
                Rate::new(3, Duration::from_secs(7)),
            ),
            Self::Denied => used_up(self.budget()),
        }
    }

    /// Whether so many of those asked were allowed as should be. An eventual limit lets a few of a
    /// used-up budget pass when it has forgotten that it is; its formula says how many.
    pub(super) const fn is_right(self, allowed: u64, asked: u64) -> bool {
        match self {
            Self::Hot => allowed == asked,
            Self::Denied => allowed <= 1 || allowed * 1_000 <= asked,
        }
    }
}

/// A bucket that gains nothing while it is measured.
pub(super) fn used_up(capacity: u32) -> Limit {
    Limit::token_bucket(
        LIMIT,
        capacity.into(),
        Rate::new(1, Duration::from_hours(24)),
    )
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Hot => "hot",
            Self::Denied => "denied",
        })
    }
}
