//! Real time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_timer::Delay;

use super::{Clock, Sleep};
use crate::time::Micros;

/// How often the processor's counter is compared with the operating system's clock.
const CORRECTION_EVERY: u64 = 1_000_000;
/// A stretch of the counter long enough to measure its pace by.
const STRETCH_BITS: u32 = 40;

/// Real time: the wall clock read once at the start, then the monotonic clock.
///
/// Setting the wall clock later moves nothing, so it can neither refill budgets nor lock anyone
/// out. Time is read from the processor's own counter where that is steady, which costs a third of
/// asking the operating system, and corrected by the monotonic clock once a second, so that it does
/// not drift.
#[derive(Debug)]
pub struct SystemClock {
    counter: quanta::Clock,
    counter_start: u64,
    /// Microseconds per tick of the counter, in units of 2^-64.
    pace: u64,
    monotonic_start: Instant,
    wall_start: Micros,
    /// What to add to the microseconds counted: the wall clock at the start, corrected.
    offset: AtomicU64,
    /// When to correct it next, in microseconds counted.
    correct_at: AtomicU64,
}

impl SystemClock {
    /// Starts the timeline at the wall clock's present reading.
    #[expect(clippy::disallowed_methods, reason = "this is where time comes from")]
    pub fn new() -> Self {
        let counter = quanta::Clock::new();
        let stretch_nanos = u128::from(counter.delta_as_nanos(0, 1 << STRETCH_BITS));
        let pace = (stretch_nanos << (64 - STRETCH_BITS)) / 1_000;
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let wall_start = Micros::from_duration_ceil(since_epoch).unwrap_or_default();
        Self {
            pace: u64::try_from(pace).unwrap_or(u64::MAX),
            counter_start: counter.raw(),
            counter,
            monotonic_start: Instant::now(),
            wall_start,
            offset: AtomicU64::new(wall_start.get()),
            correct_at: AtomicU64::new(CORRECTION_EVERY),
        }
    }

    #[cold]
    fn correct(&self, counted: u64) {
        let elapsed = u64::try_from(self.monotonic_start.elapsed().as_micros()).unwrap_or(u64::MAX);
        let offset = self
            .wall_start
            .get()
            .wrapping_add(elapsed)
            .wrapping_sub(counted);
        self.offset.store(offset, Relaxed);
        self.correct_at
            .store(counted.saturating_add(CORRECTION_EVERY), Relaxed);
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    #[expect(clippy::disallowed_methods, reason = "this is where time comes from")]
    fn now(&self) -> Micros {
        let ticks = self.counter.raw().saturating_sub(self.counter_start);
        let counted = ((u128::from(ticks) * u128::from(self.pace)) >> 64) as u64;
        if counted >= self.correct_at.load(Relaxed) {
            self.correct(counted);
        }
        Micros::new(self.offset.load(Relaxed).wrapping_add(counted))
    }

    fn sleep(&self, length: Micros) -> Sleep {
        Box::pin(Delay::new(Duration::from(length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_starts_at_the_wall_clock_and_goes_forward() {
        let clock = SystemClock::new();
        let year_2026 = Micros::from_secs(1_767_225_600);
        let (first, second) = (clock.now(), clock.now());
        assert!(year_2026 < first && first <= second, "{first:?} {second:?}");
    }

    #[test]
    fn a_counter_that_ran_ahead_is_pulled_back_to_the_monotonic_clock() {
        let clock = SystemClock::new();
        let start = clock.now();
        clock.offset.fetch_add(3_600_000_000, Relaxed);
        assert!(clock.now().since(start) >= Micros::from_secs(3_600));
        clock.correct_at.store(0, Relaxed);
        assert!(clock.now().since(start) < Micros::from_secs(3_600));
    }

    #[test]
    fn a_counted_second_is_a_second() {
        let clock = SystemClock::new();
        let nanos = clock.counter.delta_as_nanos(0, 1 << 32);
        let counted = ((1u128 << 32) * u128::from(clock.pace)) >> 64;
        assert!(
            u128::from(nanos / 1_000).abs_diff(counted) <= 1,
            "{nanos} ns are {counted} us"
        );
    }
}
