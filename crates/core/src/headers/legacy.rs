//! The legacy fields `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, which
//! describe a single limit.

use std::time::Duration;

use super::secs_ceil;
use crate::decision::Decision;

/// The values of the legacy fields. They describe the [tightest](Decision::tightest) limit: the one
/// that denied the request, else the one with the fewest units left.
///
/// ```
/// use std::time::Duration;
/// use tollgate::headers::LegacyFields;
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))])?;
/// let decision = limiter.check("api", "ann").try_now()?;
/// let now = Duration::from_millis(1_798_761_600_500);
/// let expected = LegacyFields { limit: 100, remaining: 99, reset_epoch_secs: 1_798_761_661 };
/// assert_eq!(LegacyFields::new(&decision, now), Some(expected));
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyFields {
    /// `X-RateLimit-Limit`: the size of the limit.
    pub limit: u64,
    /// `X-RateLimit-Remaining`: whole units left.
    pub remaining: u64,
    /// `X-RateLimit-Reset`: when the budget is full again, in seconds since the UNIX epoch, rounded
    /// up.
    pub reset_epoch_secs: u64,
}

impl LegacyFields {
    /// The values for a decision made at `now`, a time since the UNIX epoch. `None` when no limit
    /// is enforced.
    pub fn new(decision: &Decision, now: Duration) -> Option<Self> {
        let tightest = decision.tightest().filter(|limit| !limit.is_shadow())?;
        Some(Self {
            limit: tightest.limit(),
            remaining: tightest.remaining(),
            reset_epoch_secs: secs_ceil(now.saturating_add(tightest.reset_after())),
        })
    }
}
