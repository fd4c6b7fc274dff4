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
mod counter_view;
mod division;
mod entries;
mod fixed_window;
mod gcra;
mod key_lock;
mod leaky_bucket;
mod lockout;
mod low_water;
mod outcome;
mod permits;
mod quota;
pub(crate) mod remote;
mod share;
mod sliding_log;
mod sliding_window;
mod token_bucket;

pub use calendar::Calendar;
pub use concurrency::Concurrency;
pub use counter_view::{CounterDetail, CounterView, ReservedUnits, WindowSpan};
pub(crate) use fixed_window::WindowCount;
pub use fixed_window::{FixedWindow, WindowStart};
pub(crate) use gcra::{BucketState, Gcra};
pub use key_lock::KeyLock;
pub use leaky_bucket::{LeakyBucket, LeakyMode};
pub(crate) use lockout::LockoutState;
pub use lockout::{LOCKOUT_MAX_DEFAULT, Lockout, LockoutView};
pub(crate) use low_water::LowWaterMarks;
pub(crate) use outcome::FixedStateAlgorithm;
pub use outcome::{CLOCK_SLACK, Outcome, SWEEP_MAX, Verdict};
pub use permits::PermitId;
pub(crate) use permits::{PermitEntry, Permits};
pub use quota::{Quota, QuotaShape};
pub(crate) use sliding_log::HitLog;
pub use sliding_log::{LOG_HITS_MAX, SlidingLog};
pub(crate) use sliding_window::SlidingCounts;
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;

pub use crate::limit_error::{
    AMOUNT_MAX, IN_FLIGHT_MAX, LOCKOUT_AFTER_MAX, LOCKOUT_FACTOR_MAX, WINDOW_MAX, WINDOW_MIN,
};
pub use crate::rate::Rate;
