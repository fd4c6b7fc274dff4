//! The time that the log says it is. It is set for every line, so it is one word without a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate::{Clock, Micros, Sleep};

/// A clock that shows the time of the line under replay. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogClock(Arc<AtomicU64>);

impl LogClock {
    #[inline]
    pub(crate) fn set(&self, now: Micros) {
        self.0.store(now.get(), Relaxed);
    }
}

impl Clock for LogClock {
    #[inline]
    fn now(&self) -> Micros {
        Micros::new(self.0.load(Relaxed))
    }

    /// Nothing in a replay waits, and the log would not wait for it.
    fn sleep(&self, _: Micros) -> Sleep {
        Box::pin(std::future::ready(()))
    }
}
