//! Waits for a condition to become true.
//!
//! A test that sleeps is slow on a fast machine and fails on a slow one. The functions here poll a
//! condition until it holds, and fail at a deadline that is reached only when something is broken.
//! This is the only module of this crate that reads the clock.

use std::time::{Duration, Instant};

/// The polling interval: short enough not to slow tests down, long enough to leave the processor to
/// the code under test.
const EVERY: Duration = Duration::from_millis(2);

/// Polls the condition until it returns a value, and returns it.
///
/// # Panics
///
/// If it has returned `None` for `limit`; the message names `what`.
pub fn until<T>(limit: Duration, what: &str, condition: impl FnMut() -> Option<T>) -> T {
    within(limit, condition).unwrap_or_else(|| give_up(limit, what))
}

/// Waits until the condition holds.
///
/// # Panics
///
/// If it has not held for `limit`; the message names `what`.
pub fn until_true(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    until(limit, what, || condition().then_some(()));
}

/// Polls the condition until it returns a value; returns `None` after `limit`. The condition is
/// called at least once.
pub fn within<T>(limit: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let start = now();
    loop {
        if let Some(found) = condition() {
            return Some(found);
        }

        if start.elapsed() >= limit {
            return None;
        }

        pause(EVERY);
    }
}

/// The current time, for measuring durations.
#[expect(
    clippy::disallowed_methods,
    reason = "waiting for real servers needs the real time"
)]
pub fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "there is nothing else to do between two polls"
)]
fn pause(length: Duration) {
    std::thread::sleep(length);
}

#[expect(clippy::panic, reason = "a test that times out has failed")]
fn give_up(limit: Duration, what: &str) -> ! {
    panic!("timed out after {limit:?} waiting for {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_is_polled_until_it_returns_a_value() {
        let mut asked = 0;
        let answer = until(Duration::from_secs(10), "the third time", || {
            asked += 1;
            (asked == 3).then_some("there")
        });
        assert_eq!((answer, asked), ("there", 3));
    }

    #[test]
    fn with_no_time_the_condition_is_still_called_once() {
        assert_eq!(within(Duration::ZERO, || Some(1)), Some(1));
        assert_eq!(within(Duration::ZERO, || None::<u8>), None);
    }

    #[test]
    #[should_panic(expected = "waiting for the moon")]
    fn a_timeout_names_what_was_waited_for() {
        until_true(Duration::from_millis(1), "the moon", || false);
    }
}
