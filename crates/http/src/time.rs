//! Times as HTTP and JSON report them: in whole units, rounded up, so that a client which waits as
//! long as reported is never early.

use std::time::Duration;

use tollgate::Micros;

/// Whole seconds, rounded up.
pub(crate) fn secs_ceil(length: Duration) -> u64 {
    length
        .as_secs()
        .saturating_add(u64::from(length.subsec_nanos() > 0))
}

/// The same of a time in microseconds.
pub(crate) const fn micros_secs_ceil(length: Micros) -> u64 {
    length.get().div_ceil(1_000_000)
}

/// Whole milliseconds, rounded up.
pub(crate) fn millis_ceil(length: Duration) -> u64 {
    length
        .as_secs()
        .saturating_mul(1_000)
        .saturating_add(length.subsec_nanos().div_ceil(1_000_000).into())
}

/// A retry time in seconds, rounded up, at least 1: a client would retry immediately on 0.
pub(crate) fn retry_secs(length: Duration) -> u64 {
    secs_ceil(length).max(1)
}
