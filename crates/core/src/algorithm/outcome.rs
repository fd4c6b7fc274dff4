//! What an algorithm answers about one check.

use crate::time::Micros;

/// The answer of one limit to one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// May it pass, and if not, when.
    pub verdict: Verdict,
    /// The most that could ever pass at once: the limit, the capacity.
    pub limit: u64,
    /// Whole units left once the request has been dealt with.
    pub remaining: u64,
    /// How long until the budget is full again if nothing more is spent.
    pub reset_after: Micros,
}

/// Pass, later, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes. A queue asks the caller to hold the request for `wait` first; every other
    /// algorithm says zero.
    Allow {
        /// How long to hold the request before letting it through.
        wait: Micros,
    },
    /// It does not pass now. The same check alone passes after this long and not a microsecond
    /// earlier; for a concurrency limit, after this long at the latest.
    Deny {
        /// How long until it would pass.
        retry_after: Micros,
    },
    /// It asks for more than the limit holds when full, so it can never pass.
    Never,
}

impl Verdict {
    /// Passes now, without waiting.
    pub const ALLOW: Self = Self::Allow { wait: Micros::ZERO };

    /// True when the check passes.
    pub const fn is_allowed(self) -> bool {
        matches!(self, Self::Allow { .. })
    }
}
