//! Waiting for something to become true.
//!
//! A test that sleeps is slow on a fast machine and fails on a slow one. What is here asks again
//! and again until the answer is there, and gives up at a deadline that is reached only when
//! something is broken. It is the one place of this crate that asks for the time.

use std::time::{Duration, Instant};

/// How often a condition is asked for: often enough that nobody notices, seldom enough to leave the
/// processor to what is waited for.
const EVERY: Duration = Duration::from_millis(2);

/// What the condition returns at last.
///
/// # Panics
///
/// When it has returned nothing for `limit`, saying that it waited for `what`.
pub fn until<T>(limit: Duration, what: &str, condition: impl FnMut() -> Option<T>) -> T {
    within(limit, condition).unwrap_or_else(|| give_up(limit, what))
}

/// Waits until the condition holds.
///
/// # Panics
///
/// When it has not held for `limit`, saying that it waited for `what`.
pub fn until_true(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    until(limit, what, || condition().then_some(()));
}

/// What the condition returns, or nothing if it has returned nothing for `limit`. It is asked at
/// least once.
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

/// The time, for what measures how long something took.
#[expect(
    clippy::disallowed_methods,
    reason = "what waits for real servers needs the real time"
)]
pub fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "between two looks at a condition there is nothing else to do"
)]
fn pause(length: Duration) {
    std::thread::sleep(length);
}

#[expect(clippy::panic, reason = "a test that waits in vain has failed")]
fn give_up(limit: Duration, what: &str) -> ! {
    panic!("waited {limit:?} in vain for {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_is_asked_until_it_answers() {
        let mut asked = 0;
        let answer = until(Duration::from_secs(10), "the third time", || {
            asked += 1;
            (asked == 3).then_some("there")
        });
        assert_eq!((answer, asked), ("there", 3));
    }

    #[test]
    fn without_time_the_condition_is_still_asked_once() {
        assert_eq!(within(Duration::ZERO, || Some(1)), Some(1));
        assert_eq!(within(Duration::ZERO, || None::<u8>), None);
    }

    #[test]
    #[should_panic(expected = "in vain for the moon")]
    fn waiting_in_vain_names_what_was_waited_for() {
        until_true(Duration::from_millis(1), "the moon", || false);
    }
}
