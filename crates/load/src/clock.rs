//! The only place here that asks for the time.

use std::time::{Duration, Instant, SystemTime};

/// Time since the load began, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: now() }
    }

    /// Whole microseconds that have passed: not later than now.
    pub(crate) fn now_us(&self) -> u64 {
        micros(now().saturating_duration_since(self.start))
    }

    /// The same, but not earlier than now.
    pub(crate) fn now_us_ceil(&self) -> u64 {
        self.now_us().saturating_add(1)
    }
}

/// How long ago the epoch was, by the wall clock; for bursts at the edges of windows that go by it.
#[expect(clippy::disallowed_methods, reason = "windows begin by the wall clock")]
pub(crate) fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Whole microseconds of a length of time.
pub(crate) fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

#[expect(
    clippy::disallowed_methods,
    reason = "what measures latencies needs the real time"
)]
fn now() -> Instant {
    Instant::now()
}
