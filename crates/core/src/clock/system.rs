//! Real time, read from the processor's counter.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_timer::Delay;

use super::timeline::{Clock, Sleep};
use crate::time::Micros;

/// How often the processor's counter is corrected by the operating system's monotonic clock, in
/// microseconds.
const CORRECTION_INTERVAL: u64 = 1_000_000;
/// The tick rate is computed over 2^40 ticks, long enough for a precise quotient.
const TICKS_LOG2: u32 = 40;

/// Real time: the wall clock is read once at creation, the monotonic clock afterwards.
///
/// Later changes of the wall clock have no effect, so they can neither refill budgets nor lock
/// clients out. Where the processor's counter is steady, time is read from it, at a third of the
/// cost of the operating system's clock. Once a second the monotonic clock corrects it, so it does
/// not drift.
#[derive(Debug)]
pub struct SystemClock {
    counter: quanta::Clock,
    counter_start: u64,
    /// Microseconds per tick of the counter, in units of 2^-64.
    micros_per_tick: u64,
    monotonic_start: Instant,
    wall_start: Micros,
    /// Added to the microseconds counted: the wall clock at creation, plus the correction.
    offset: AtomicU64,
    /// When to correct `offset` next, in microseconds counted.
    correct_at: AtomicU64,
}

impl SystemClock {
    /// Creates a clock that starts at the current wall clock time.
    #[expect(clippy::disallowed_methods, reason = "this is where time comes from")]
    pub fn new() -> Self {
        let counter = quanta::Clock::new();
        let nanos = u128::from(counter.delta_as_nanos(0, 1 << TICKS_LOG2));
        let micros_per_tick = (nanos << (64 - TICKS_LOG2)) / 1_000;

        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let wall_start = Micros::from_duration_ceil(since_epoch).unwrap_or_default();

        Self {
            micros_per_tick: u64::try_from(micros_per_tick).unwrap_or(u64::MAX),
            counter_start: counter.raw(),
            counter,
            monotonic_start: Instant::now(),
            wall_start,
            offset: AtomicU64::new(wall_start.get()),
            correct_at: AtomicU64::new(CORRECTION_INTERVAL),
        }
    }

    /// Sets the offset so that the time agrees with the monotonic clock again.
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
            .store(counted.saturating_add(CORRECTION_INTERVAL), Relaxed);
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
        let counted = ((u128::from(ticks) * u128::from(self.micros_per_tick)) >> 64) as u64;
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
    fn starts_at_the_wall_clock_and_moves_forward() {
        let clock = SystemClock::new();
        let year_2026 = Micros::from_secs(1_767_225_600);
        let (first, second) = (clock.now(), clock.now());
        assert!(year_2026 < first && first <= second, "{first:?} {second:?}");
    }

    #[test]
    fn a_counter_that_runs_ahead_is_corrected_by_the_monotonic_clock() {
        let clock = SystemClock::new();
        let start = clock.now();
        clock.offset.fetch_add(3_600_000_000, Relaxed);
        assert!(clock.now().since(start) >= Micros::from_secs(3_600));
        clock.correct_at.store(0, Relaxed);
        assert!(clock.now().since(start) < Micros::from_secs(3_600));
    }

    #[test]
    fn counted_microseconds_match_the_counter() {
        let clock = SystemClock::new();
        let nanos = clock.counter.delta_as_nanos(0, 1 << 32);
        let counted = ((1u128 << 32) * u128::from(clock.micros_per_tick)) >> 64;
        assert!(
            u128::from(nanos / 1_000).abs_diff(counted) <= 1,
            "{nanos} ns are {counted} us"
        );
    }
}
