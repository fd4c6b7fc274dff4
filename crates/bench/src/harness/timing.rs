//! The only module that reads a clock.
//!
//! The time that a thread was ready to run but had no core is caused by other programs. Linux
//! counts it, and it is subtracted. On a quiet machine it is close to zero; its share is reported.

#![expect(
    clippy::disallowed_methods,
    reason = "measuring time is what a benchmark is for"
)]

use std::fs::File;
use std::io::Read as _;
use std::ops::AddAssign;
use std::sync::Barrier;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use hdrhistogram::Histogram;
use tollgate_load::LatencySummary;

use super::row::{Figures, float};
use super::text::whole;

pub(crate) const P50: &str = "p50_us";
pub(crate) const P99: &str = "p99_us";

/// The most operations of a round.
const OPERATIONS_MAX: u32 = 1_000_000_000;

/// The duration of some work.
#[derive(Clone, Copy, Debug, Default)]
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
        // Not a number is less than zero here.
        (self.waited.as_secs_f64() / self.wall.as_secs_f64()).max(0.0)
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        self.wall += other.wall;
        self.waited += other.waited;
    }
}

/// Runs `work` on this thread and returns its duration and result.
#[inline]
pub(crate) fn time<T>(work: impl FnOnce() -> T) -> (Span, T) {
    let waited_before = waited_for_core();
    let start = Instant::now();
    let result = work();
    let wall = start.elapsed();
    let waited = waited_for_core().saturating_sub(waited_before).min(wall);
    (Span { wall, waited }, result)
}

/// Runs `work` on several threads, which start together and get their numbers. Returns the sum of
/// their durations, and their results.
pub(crate) fn together<T: Send>(
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
) -> (Vec<T>, Span) {
    let barrier = Barrier::new(threads);
    let run = |number| {
        barrier.wait();
        time(|| work(number))
    };
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..threads)
            .map(|number| scope.spawn(move || run(number)))
            .collect();
        let mut sum = Span::default();
        let results = threads.into_iter().map(|thread| {
            let (span, result) = thread.join().expect("subjects do not panic");
            sum += span;
            result
        });
        (results.collect(), sum)
    })
}

/// How many operations take about this long. `ns_per_op` runs a number of them and returns the
/// nanoseconds that each took.
pub(crate) fn calibrate(
    length: Duration,
    mut ns_per_op: impl FnMut(u32) -> Result<f64>,
) -> Result<u32> {
    let length_ns = length.as_secs_f64() * 1e9;
    let mut operations = 1_000;
    loop {
        let ns = ns_per_op(operations)?;
        if ns * f64::from(operations) > length_ns / 8.0 || operations > OPERATIONS_MAX / 4 {
            let count = (length_ns / ns).clamp(1_000.0, f64::from(OPERATIONS_MAX));
            return Ok(u32::try_from(whole(count))?);
        }
        operations *= 4;
    }
}

/// The current time, for tasks that await in between.
#[inline]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The wall clock, for subjects whose caller passes the time: reading it is part of the cost of
/// such a decision.
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

/// Records a latency in nanoseconds.
#[inline]
pub(super) fn record(latencies: &mut Histogram<u64>, took: Duration) {
    latencies.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
}

/// The median and the 99th percentile, in microseconds.
pub(super) fn percentiles(latencies: &Histogram<u64>) -> Figures {
    let summary = LatencySummary::from_histogram(latencies);
    let us = |ns| float(ns) / 1e3;
    summary.map_or_else(Figures::new, |summary| {
        Figures::from([(P50, us(summary.p50)), (P99, us(summary.p99))])
    })
}

#[cfg(test)]
mod tests {
    use tollgate_load::latency_histogram;

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
    fn threads_have_numbers_and_their_times_are_added() {
        let (numbers, span) = together(3, |number| number);
        assert_eq!(numbers, [0, 1, 2]);
        assert!(span.wall > Duration::ZERO);
    }

    #[test]
    fn a_round_is_as_long_as_its_operations() {
        let length = Duration::from_millis(20);
        assert_eq!(calibrate(length, |_| Ok(50.0)).unwrap(), 400_000);
        assert_eq!(calibrate(length, |_| Ok(1e9)).unwrap(), 1_000);
        assert_eq!(calibrate(length, |_| Ok(1e-9)).unwrap(), OPERATIONS_MAX);
    }

    #[test]
    fn schedstat_is_read_by_position() {
        assert_eq!(parse_schedstat(b"137778 3271351 2\n"), Some(3_271_351));
        assert_eq!(parse_schedstat(b""), None);
    }

    #[test]
    fn percentiles_are_in_microseconds() {
        let mut latencies = latency_histogram(3);
        assert!(percentiles(&latencies).is_empty());
        (1..=100).for_each(|us| record(&mut latencies, Duration::from_micros(us)));
        let found = percentiles(&latencies);
        assert!((found[P50] - 50.0).abs() < 0.1, "{found:?}");
        assert!((found[P99] - 99.0).abs() < 0.1, "{found:?}");
    }
}
