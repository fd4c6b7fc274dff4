//! The rate limiting algorithms: their validated parameters and the arithmetic that decides.
//!
//! Every algorithm is a pure function of its parameters, its state, a cost and the time, and it
//! computes with integers only. This module does not know where state is stored, what a key is or
//! how to read a clock.
//!
//! | algorithm | allows when | worst case in any window's length | state |
//! |---|---|---|---|
//! | [`FixedWindow`] | used + cost <= limit | 2 x limit, across an edge | a count and an end |
//! | [`SlidingWindow`] | weighted count + cost <= limit | just under 2 x limit | two counts |
//! | [`SlidingLog`] | sum in the window + cost <= limit | the limit, exactly | every hit |
//! | [`TokenBucket`] | tokens >= cost | capacity + rate x length, exactly | one moment |
//! | [`LeakyBucket`] | level + cost <= capacity | capacity + rate x length, exactly | one moment |
//! | [`Concurrency`] | in flight + cost <= limit | the limit at any moment | every permit |
//!
//! The worst case of [`SlidingWindow`] needs traffic that is made to provoke it.

mod calendar;
mod concurrency;
mod division;
mod fixed_window;
mod gcra;
mod leaky_bucket;
mod outcome;
mod quota;
mod rate;
pub mod remote;
mod share;
mod sliding_log;
mod sliding_window;
mod token_bucket;

use std::time::Duration;

pub use calendar::Calendar;
pub use concurrency::{Concurrency, IN_FLIGHT_MAX, PermitId};
pub(crate) use concurrency::{PermitEntry, Permits};
pub(crate) use fixed_window::WindowCount;
pub use fixed_window::{FixedWindow, WindowStart};
pub(crate) use gcra::{BucketState, Gcra};
pub use leaky_bucket::{LeakyBucket, LeakyMode};
pub use outcome::{Outcome, Verdict};
pub use quota::{Quota, QuotaShape};
pub use rate::Rate;
pub(crate) use sliding_log::{HitLog, LogHit};
pub use sliding_log::{LOG_HITS_MAX, SlidingLog};
pub(crate) use sliding_window::SlidingCounts;
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;

use crate::limit::LimitError;
use crate::time::Micros;

/// The largest limit or capacity: 2^53. Up to here a double represents every integer exactly.
pub const AMOUNT_MAX: u64 = 1 << 53;
/// How far a timestamp may lie in the past before the clock counts as set back.
///
/// Threads read the clock before they lock a counter, so timestamps arrive slightly out of order.
/// An earlier timestamp within this slack is treated as if no time had passed.
pub const CLOCK_SLACK: Micros = Micros::from_secs(1);
/// The shortest window.
pub const WINDOW_MIN: Micros = Micros::from_millis(1);
/// The longest window: ten years, leap days included.
pub const WINDOW_MAX: Micros = Micros::from_secs(3_653 * 86_400);

/// Validates a limit or a capacity.
fn validate_amount(field: &'static str, found: u64) -> Result<u64, LimitError> {
    if (1..=AMOUNT_MAX).contains(&found) {
        Ok(found)
    } else {
        Err(LimitError::Amount { field, found })
    }
}

/// Validates the length of a window: in range, and a whole number of microseconds.
fn validate_window(found: Duration) -> Result<Micros, LimitError> {
    Micros::from_duration_ceil(found)
        .filter(|length| (WINDOW_MIN..=WINDOW_MAX).contains(length))
        .filter(|_| found.subsec_nanos().is_multiple_of(1_000))
        .ok_or(LimitError::Window { found })
}
