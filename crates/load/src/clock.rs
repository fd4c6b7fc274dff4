//! The clocks of a load. No other module of this crate reads the time.

use std::time::{Duration, Instant, SystemTime};

/// Monotonic time since the load started, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadClock {
    start: Instant,
    /// The wall clock time of the start, since the Unix epoch. Bursts at window edges need it,
    /// because windows are aligned to the wall clock.
    pub(crate) epoch: Duration,
}

impl LoadClock {
    pub(crate) fn start() -> Self {
        Self {
            start: now(),
            epoch: since_epoch(),
        }
    }

    /// Elapsed microseconds, rounded down.
    pub(crate) fn now_us(&self) -> u64 {
        micros(now().saturating_duration_since(self.start))
    }

    /// Elapsed microseconds, rounded up.
    pub(crate) fn now_us_ceil(&self) -> u64 {
        self.now_us().saturating_add(1)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "windows are aligned to the wall clock"
)]
fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Whole microseconds of a duration, saturating.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[expect(
    clippy::disallowed_methods,
    reason = "latencies are measured in real time"
)]
fn now() -> Instant {
    Instant::now()
}
