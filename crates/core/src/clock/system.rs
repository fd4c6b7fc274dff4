//! Real time.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_timer::Delay;

use super::{Clock, Sleep};
use crate::time::Micros;

/// How often the processor's counter is compared with the operating system's clock.
const CORRECTION_EVERY_MICROS: u64 = 1_000_000;

/// Real time: the wall clock read once at the start, then the monotonic clock.
///
/// Setting the wall clock later moves nothing, so it can neither refill budgets nor lock anyone out. Time is read from
/// the processor's own counter where that is steady, which costs a third of asking the operating system, and corrected
/// by the monotonic clock once a second, so that it does not drift.
#[derive(Debug)]
pub struct SystemClock {
    counter: quanta::Clock,
    counter_start: u64,
    monotonic_start: Instant,
    wall_start: Micros,
    /// What to add to the counter's reading to get the monotonic clock's.
    correction: AtomicI64,
    correct_at: AtomicU64,
}

impl SystemClock {
    /// Starts the timeline at the wall clock's present reading.
    #[expect(clippy::disallowed_methods, reason = "this is where time comes from")]
    pub fn new() -> Self {
        let counter = quanta::Clock::new();
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            counter_start: counter.raw(),
            counter,
            monotonic_start: Instant::now(),
            wall_start: Micros::from_duration_ceil(since_epoch).unwrap_or_default(),
            correction: AtomicI64::new(0),
            correct_at: AtomicU64::new(CORRECTION_EVERY_MICROS),
        }
    }

    #[cold]
    fn correct(&self, elapsed: u64) {
        let monotonic = u64::try_from(self.monotonic_start.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.correction.store(monotonic.wrapping_sub(elapsed).cast_signed(), Relaxed);
        self.correct_at.store(elapsed.saturating_add(CORRECTION_EVERY_MICROS), Relaxed);
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
        let elapsed = self.counter.delta_as_nanos(self.counter_start, self.counter.raw()) / 1_000;
        if elapsed >= self.correct_at.load(Relaxed) {
            self.correct(elapsed);
        }
        self.wall_start.after(Micros::new(elapsed.saturating_add_signed(self.correction.load(Relaxed))))
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
    fn a_drifting_counter_is_pulled_back_to_the_monotonic_clock() {
        let clock = SystemClock::new();
        clock.correction.store(-3_600_000_000, Relaxed);
        let behind = clock.now();
        clock.correct_at.store(0, Relaxed);
        let corrected = clock.now();
        assert!(corrected.since(behind) > Micros::from_secs(3_599), "{behind:?} {corrected:?}");
    }
}
