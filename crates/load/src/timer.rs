//! Waiting for a moment, to within some microseconds.
//!
//! The runtime's own timers are late by up to a millisecond, which is ten times what a decision
//! takes. Asking for the time over and over is punctual, but uses up a core, and a busy machine
//! lets whoever does that wait when it matters. So most of the wait is slept by a thread that does
//! nothing else, and only the rest is spent asking.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Clock;

/// A thread's sleep ends late by up to this. What comes sooner is waited for by asking for the
/// time.
const SOON_US: u64 = 300;
/// The same for the runtime's timers, where no thread can be had.
const SOON_WITHOUT_US: u64 = 2_000;

/// Waits for moments, one at a time. The thread ends with it.
#[derive(Debug)]
pub(crate) struct Timer {
    sleeper: Option<Sleeper>,
}

#[derive(Debug)]
struct Sleeper {
    lengths: Sender<Duration>,
    rang: Arc<Notify>,
}

impl Timer {
    pub(crate) fn new() -> Self {
        Self {
            sleeper: Sleeper::start().ok(),
        }
    }

    /// Waits for a moment, and lets everything else go on meanwhile. Tells what time it is then.
    pub(crate) async fn until(&self, clock: &Clock, due_us: u64) -> u64 {
        let soon_us = if self.sleeper.is_some() {
            SOON_US
        } else {
            SOON_WITHOUT_US
        };
        loop {
            let now_us = clock.now_us();
            let left_us = due_us.saturating_sub(now_us);
            if left_us == 0 {
                return now_us;
            } else if left_us <= soon_us {
                tokio::task::yield_now().await;
            } else {
                self.sleep(Duration::from_micros(left_us - soon_us)).await;
            }
        }
    }

    /// About so long, or less.
    async fn sleep(&self, length: Duration) {
        match &self.sleeper {
            Some(sleeper) if sleeper.lengths.send(length).is_ok() => sleeper.rang.notified().await,
            _ => tokio::time::sleep(length).await,
        }
    }
}

impl Sleeper {
    fn start() -> std::io::Result<Self> {
        let (lengths, asked) = channel();
        let rang = Arc::new(Notify::new());
        let bell = Arc::clone(&rang);
        thread::Builder::new()
            .name("load-timer".to_owned())
            .spawn(move || {
                for length in asked {
                    thread::park_timeout(length);
                    bell.notify_one();
                }
            })?;
        Ok(Self { lengths, rang })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn moments_are_waited_for_and_never_missed_on_the_early_side() {
        let clock = Clock::start();
        for timer in [Timer::new(), Timer { sleeper: None }] {
            for wait_us in [0, 50, 299, 301, 1_000, 5_000] {
                let due_us = clock.now_us() + wait_us;
                let told_us = timer.until(&clock, due_us).await;
                assert!(told_us >= due_us && clock.now_us() >= told_us, "{wait_us}");
            }
        }
    }

    /// A wait that was given up does not end the next one.
    #[tokio::test]
    async fn one_wait_does_not_end_another() {
        let (clock, timer) = (Clock::start(), Timer::new());
        for _ in 0..5 {
            let short = timer.until(&clock, clock.now_us() + 2_000);
            let _given_up = tokio::time::timeout(Duration::from_millis(1), short).await;
            let due_us = clock.now_us() + 6_000;
            assert!(timer.until(&clock, due_us).await >= due_us);
        }
    }
}
