//! The only module that reads a clock.
//!
//! The time that a thread was ready to run but had no core is caused by other programs. Linux
//! counts it, and it is subtracted. On a quiet machine it is close to zero; its share is reported.

use std::fs::File;
use std::io::Read as _;
use std::ops::AddAssign;
use std::time::{Duration, Instant, SystemTime};

/// The duration of some work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// Wall-clock time.
    pub(crate) wall: Duration,
    /// The part of `wall` during which the thread waited for a core.
    pub(crate) waited: Duration,
}

impl Span {
    /// Nanoseconds without the wait for a core.
    pub(crate) fn ns(self) -> f64 {
        self.wall.saturating_sub(self.waited).as_secs_f64() * 1e9
    }

    /// Nanoseconds for each of `operations`, without the wait for a core.
    pub(crate) fn ns_per_op(self, operations: u32) -> f64 {
        self.ns() / f64::from(operations)
    }

    /// The share of the time, from 0 to 1, that was spent waiting for a core.
    pub(crate) fn waited_share(self) -> f64 {
        if self.wall.is_zero() {
            0.0
        } else {
            self.waited.as_secs_f64() / self.wall.as_secs_f64()
        }
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        self.wall += other.wall;
        self.waited += other.waited;
    }
}

/// Runs `work` on this thread and returns its duration and result.
#[expect(
    clippy::disallowed_methods,
    reason = "measuring time is what a benchmark is for"
)]
#[inline]
pub(crate) fn time<T>(work: impl FnOnce() -> T) -> (Span, T) {
    let waited_before = waited_for_core();
    let start = Instant::now();
    let result = work();
    let wall = start.elapsed();
    (
        Span {
            wall,
            waited: waited_for_core().saturating_sub(waited_before).min(wall),
        },
        result,
    )
}

/// The current time, for tasks that await in between.
#[expect(
    clippy::disallowed_methods,
    reason = "measuring time is what a benchmark is for"
)]
#[inline]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The wall clock, for subjects whose caller passes the time: reading it is part of the cost of
/// such a decision.
#[expect(
    clippy::disallowed_methods,
    reason = "a subject's caller passes the time"
)]
#[inline]
pub(crate) fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// How long this thread has waited for a core since it started; zero where the system does not
/// count it. It does not allocate, because allocations may be counted at this time.
fn waited_for_core() -> Duration {
    let mut text = [0; 64];
    let Ok(mut file) = File::open("/proc/thread-self/schedstat") else {
        return Duration::ZERO;
    };
    let len = file.read(&mut text).unwrap_or_default();
    parse_schedstat(&text[..len]).map_or(Duration::ZERO, Duration::from_nanos)
}

/// Parses the second of three numbers: nanoseconds on a core, nanoseconds waiting for a core, time
/// slices.
fn parse_schedstat(text: &[u8]) -> Option<u64> {
    let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    numbers.nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_for_a_core_is_taken_out() {
        let mut span = Span {
            wall: Duration::from_micros(90),
            waited: Duration::from_micros(10),
        };
        span += Span {
            wall: Duration::from_micros(10),
            waited: Duration::ZERO,
        };
        assert!((span.ns_per_op(1_000) - 90.0).abs() < 1e-9);
        assert!((span.waited_share() - 0.1).abs() < 1e-9);
    }

    #[test]
    fn schedstat_is_read_by_position() {
        assert_eq!(parse_schedstat(b"137778 3271351 2\n"), Some(3_271_351));
        assert_eq!(parse_schedstat(b""), None);
    }
}
