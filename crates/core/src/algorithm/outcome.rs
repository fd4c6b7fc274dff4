//! The outcome of one limit for one demand.

use super::key_lock::KeyLock;
use crate::limit_error::AMOUNT_MAX;
use crate::time::Micros;

/// How far a timestamp may lie in the past before the clock counts as set back.
///
/// Threads read the clock before they lock a counter, so timestamps arrive slightly out of order.
/// An earlier timestamp within this slack is treated as if no time had passed.
pub const CLOCK_SLACK: Micros = Micros::from_secs(1);

/// The most expired reservations of a counter that one call removes, the first to expire first. The
/// others still count until later calls remove them, so that no call takes long.
pub const SWEEP_MAX: usize = 32;

/// The outcome of one limit for one demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the limit allows the demand, and if not, when it would.
    pub verdict: Verdict,
    /// The most units that a full budget holds: the limit or the capacity.
    pub limit: u64,
    /// Whole units left after the request has been decided.
    pub remaining: u64,
    /// How long until the budget is full again if nothing more is spent.
    pub reset_after: Micros,
    /// How long until more than `remaining` units are left if nothing more is spent; of a demand
    /// that is allowed. Zero when the budget is full, and for a concurrency limit, whose permits
    /// end when they are released.
    pub more_after: Micros,
    /// Whether the key is [locked out](crate::Lockout). Then nothing is left, and every demand with
    /// a cost is denied.
    pub lock: KeyLock,
}

/// Whether a limit allows a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The demand is allowed. A queue asks the caller to delay the request by `wait`; every other
    /// algorithm sets it to zero.
    Allow {
        /// How long the caller must delay the request.
        wait: Micros,
    },
    /// The demand is denied for now. Repeated alone, it is allowed after exactly this long and not
    /// a microsecond earlier; for a concurrency limit, after this long at the latest.
    Deny {
        /// How long until the demand would be allowed.
        retry_after: Micros,
    },
    /// The demand costs more than a full budget holds, so it can never be allowed.
    Never,
}

impl Verdict {
    /// Allowed without waiting.
    pub const ALLOW: Self = Self::Allow { wait: Micros::ZERO };

    /// Returns true when the demand is allowed.
    pub const fn is_allowed(self) -> bool {
        matches!(self, Self::Allow { .. })
    }
}

/// An algorithm whose state has a fixed size.
pub(crate) trait FixedStateAlgorithm {
    /// The state of a counter; the default is that of a counter that was never used.
    type State: Copy + Default;

    /// Spends `cost` when it fits. Returns the state after that and the verdict.
    ///
    /// A demand that is denied or costs nothing changes the state only when the clock has been set
    /// back since the last change: that never refills a budget, and denies no key for longer than
    /// an empty budget takes to fill.
    fn apply(&self, state: Self::State, cost: u64, now: Micros) -> (Self::State, Verdict);

    /// The outcome with this verdict and this state after it.
    fn outcome(&self, state: Self::State, verdict: Verdict, now: Micros) -> Outcome;

    /// Spends `cost` when it fits. Returns the state after that and the outcome.
    #[inline(always)]
    fn spend(&self, state: Self::State, cost: u64, now: Micros) -> (Self::State, Outcome) {
        let (next, verdict) = self.apply(state, cost, now);
        (next, self.outcome(next, verdict, now))
    }

    /// Charges `cost` whether it fits or not. The counter then owes what did not fit, up to
    /// `debt_max` units; what would be more is not charged.
    fn charge(&self, state: Self::State, cost: u64, debt_max: u64, now: Micros) -> Self::State;

    /// Returns `cost` units, at most what was spent.
    fn refund(&self, state: Self::State, cost: u64, now: Micros) -> Self::State;

    /// The window of a charge whose state is `state`, for [`give_back`](Self::give_back); zero for
    /// an algorithm without windows.
    fn charged_in(_state: Self::State) -> Micros {
        Micros::ZERO
    }

    /// Returns `units` of a charge that was made in this window, unless the state no longer
    /// contains them. Unlike a [refund](Self::refund), this never returns units that another
    /// request has spent in a later window. The state of an algorithm without windows stays as it
    /// is.
    fn give_back(
        &self,
        state: Self::State,
        _units: u64,
        _charged_in: Micros,
        _now: Micros,
    ) -> Self::State {
        state
    }
}

/// The units in a window after a charge of `cost`, of which the window owes at most `debt_max`.
pub(super) fn charged_count(count: u64, cost: u64, limit: u64, debt_max: u64) -> u64 {
    let most = limit.saturating_add(debt_max).min(AMOUNT_MAX);
    count.saturating_add(cost).min(most.max(count))
}
