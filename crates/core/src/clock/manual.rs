//! A clock that is set by hand, for tests and for replaying recorded traffic.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

use super::timeline::{Clock, Sleep};
use crate::time::Micros;

/// A clock that moves only when [`advance`](Self::advance) or [`set`](Self::set) is called. Clones
/// share the same time.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter, ManualClock, MemoryStore};
///
/// let clock = ManualClock::default();
/// let store = MemoryStore::builder().clock(clock.clone()).build();
/// let limiter = Limiter::new(store, [Limit::fixed_window("api", 1, Duration::from_secs(60))])?;
///
/// assert!(limiter.check("api", "ann").try_now()?.is_allowed());
/// assert!(!limiter.check("api", "ann").try_now()?.is_allowed());
/// clock.advance(Duration::from_secs(60));
/// assert!(limiter.check("api", "ann").try_now()?.is_allowed());
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    now: Micros,
    sleepers: Vec<Waker>,
}

impl ManualClock {
    /// Creates a clock whose current time is `now`.
    pub fn new(now: Micros) -> Self {
        let sleepers = Vec::new();
        Self {
            state: Arc::new(Mutex::new(State { now, sleepers })),
        }
    }

    /// Moves the time forward and wakes all sleepers, so that those that are due complete.
    pub fn advance(&self, length: std::time::Duration) {
        let length = Micros::from_duration_ceil(length).unwrap_or(Micros::MAX);
        let now = self.now().after(length);
        self.set(now);
    }

    /// Sets the time, which may be earlier than before, and wakes all sleepers.
    pub fn set(&self, now: Micros) {
        let sleepers = {
            let mut state = self.state.lock();
            state.now = now;
            std::mem::take(&mut state.sleepers)
        };
        sleepers.into_iter().for_each(Waker::wake);
    }

    /// The number of wakers that wait for the time to move.
    pub fn sleepers(&self) -> usize {
        self.state.lock().sleepers.len()
    }
}

/// Starts at 2027-01-01 00:00:00 UTC.
impl Default for ManualClock {
    fn default() -> Self {
        Self::new(Micros::from_secs(1_798_761_600))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Micros {
        self.state.lock().now
    }

    fn sleep(&self, length: Micros) -> Sleep {
        let (clock, until) = (self.clone(), self.now().after(length));
        Box::pin(poll_fn(move |context| {
            let mut state = clock.state.lock();
            if state.now >= until {
                return Poll::Ready(());
            }

            // A future may be polled again before the time moves: register its waker once.
            let waker = context.waker();
            if !state.sleepers.iter().any(|other| other.will_wake(waker)) {
                state.sleepers.push(waker.clone());
            }
            Poll::Pending
        }))
    }
}
