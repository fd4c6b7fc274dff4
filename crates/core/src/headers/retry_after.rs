//! The field `Retry-After`, in whole seconds (RFC 9110, section 10.2.3).

use std::time::Duration;

use super::secs_ceil;
use crate::decision::Decision;

/// The value of `Retry-After`: the seconds until the request would pass all limits, at least 1.
/// `None` when the request is allowed, and when it can never pass.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter, ManualClock, MemoryStore, headers};
///
/// let store = MemoryStore::builder().clock(ManualClock::default()).build();
/// let limiter = Limiter::new(store, [Limit::sliding_log("api", 1, Duration::from_millis(1_500))])?;
/// let allowed = limiter.check("api", "ann").try_now()?;
/// assert_eq!(headers::retry_after_secs(&allowed), None);
///
/// let denied = limiter.check("api", "ann").try_now()?;
/// assert_eq!(headers::retry_after_secs(&denied), Some(2));
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn retry_after_secs(decision: &Decision) -> Option<u64> {
    // The decision reports the longest retry time of all limits, so no limit's `t` is later.
    decision.retry_after().map(wait_secs)
}

/// A retry time in seconds, rounded up, at least 1: a client would retry immediately on 0.
pub(super) fn wait_secs(length: Duration) -> u64 {
    secs_ceil(length).max(1)
}
