//! The field `Retry-After`, as whole seconds (RFC 9110, section 10.2.3).

use std::time::Duration;

use super::secs_ceil;
use crate::decision::Decision;

/// The value of `Retry-After`: the seconds until every limit that refuses would let the request
/// pass, at least 1. `None` when the request passes, and when it never will: waiting would be in
/// vain.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter, ManualClock, MemoryStore, headers};
///
/// let store = MemoryStore::builder().clock(ManualClock::default()).build();
/// let limiter = Limiter::new(store, [Limit::sliding_log("api", 1, Duration::from_millis(1_500))]);
/// let passed = limiter.check("api", "ann").now_or_never()?;
/// assert_eq!(headers::retry_after_secs(&passed), None);
///
/// let denied = limiter.check("api", "ann").now_or_never()?;
/// assert_eq!(headers::retry_after_secs(&denied), Some(2));
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn retry_after_secs(decision: &Decision) -> Option<u64> {
    // The decision's own time is that of the limit that refuses longest, so no limit's `t` is
    // later.
    decision.retry_after().map(wait_secs)
}

/// How long to tell a refused client to wait: 0 would send it straight back.
pub(super) fn wait_secs(length: Duration) -> u64 {
    secs_ceil(length).max(1)
}
