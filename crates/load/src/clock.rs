//! The clocks of a load, and a timer that is accurate to some microseconds. No other module of this
//! crate reads the time.
//!
//! The runtime's timers fire up to a millisecond late, which is ten times as long as a decision
//! takes. Polling the clock is accurate but keeps a core busy, and a busy machine then preempts the
//! thread at the wrong moment. So a separate thread sleeps for most of the wait, and only the rest
//! is polled.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Notify;

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

/// A thread's sleep ends late by up to this, so the last part of a wait is polled.
const POLL_US: u64 = 300;

/// Waits until a given time, one wait at a time. Dropping it ends its thread.
#[derive(Debug)]
pub(crate) struct PreciseTimer {
    /// The durations for which the thread sleeps before it notifies.
    sleeps: Sender<Duration>,
    wakeup: Arc<Notify>,
}

impl PreciseTimer {
    pub(crate) fn new() -> Self {
        let (sleeps, receiver) = channel();
        let wakeup = Arc::new(Notify::new());
        let notify = Arc::clone(&wakeup);

        // Without the thread, the runtime's timers have to do.
        let _best_effort = thread::Builder::new()
            .name("load-timer".to_owned())
            .spawn(move || {
                for duration in receiver {
                    thread::park_timeout(duration);
                    notify.notify_one();
                }
            });
        Self { sleeps, wakeup }
    }

    /// Waits until `due_us` while other tasks run, and returns the current time.
    pub(crate) async fn until(&self, clock: &LoadClock, due_us: u64) -> u64 {
        loop {
            let now_us = clock.now_us();
            let left_us = due_us.saturating_sub(now_us);
            if left_us == 0 {
                return now_us;
            } else if left_us <= POLL_US {
                tokio::task::yield_now().await;
            } else {
                self.sleep(Duration::from_micros(left_us - POLL_US)).await;
            }
        }
    }

    /// Sleeps for about this long. May return early if an earlier wait was cancelled.
    async fn sleep(&self, duration: Duration) {
        if self.sleeps.send(duration).is_ok() {
            self.wakeup.notified().await;
        } else {
            tokio::time::sleep(duration).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_never_end_early() {
        let clock = LoadClock::start();
        let without_thread = PreciseTimer {
            sleeps: channel().0,
            ..PreciseTimer::new()
        };
        for timer in [PreciseTimer::new(), without_thread] {
            for wait_us in [0, 50, 299, 301, 1_000, 5_000] {
                let due_us = clock.now_us() + wait_us;
                let ended_us = timer.until(&clock, due_us).await;
                assert!(
                    ended_us >= due_us && clock.now_us() >= ended_us,
                    "{wait_us}"
                );
            }
        }
    }

    /// A cancelled wait does not end the next one early.
    #[tokio::test]
    async fn a_cancelled_wait_does_not_end_the_next_one() {
        let (clock, timer) = (LoadClock::start(), PreciseTimer::new());
        for _ in 0..5 {
            let short = timer.until(&clock, clock.now_us() + 2_000);
            let _cancelled = tokio::time::timeout(Duration::from_millis(1), short).await;
            let due_us = clock.now_us() + 6_000;
            assert!(timer.until(&clock, due_us).await >= due_us);
        }
    }
}
