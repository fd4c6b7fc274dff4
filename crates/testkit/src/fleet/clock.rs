//! The clock of one replica, which differs from true time in offset and speed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate::{Clock, Micros, Sleep};

/// True time, which only the simulation advances.
#[derive(Clone, Debug)]
pub(super) struct TrueTime {
    now: Arc<AtomicU64>,
}

impl TrueTime {
    pub(super) fn new(now: u64) -> Self {
        Self {
            now: Arc::new(AtomicU64::new(now)),
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.now.load(Relaxed)
    }

    pub(super) fn set(&self, now: u64) {
        self.now.store(now, Relaxed);
    }
}

/// A clock that shows `offset` at the time `since` and from then on gains `gain` parts per million.
#[derive(Debug)]
pub(super) struct DriftingClock {
    pub(super) time: TrueTime,
    pub(super) since: u64,
    pub(super) offset: u64,
    pub(super) gain: i64,
}

impl Clock for DriftingClock {
    fn now(&self) -> Micros {
        let passed = i128::from(self.time.now() - self.since);
        let own = passed + passed * i128::from(self.gain) / 1_000_000;
        Micros::new(self.offset + u64::try_from(own).expect("a clock goes forward"))
    }

    /// Never called: the simulation has its own queue of events.
    fn sleep(&self, _: Micros) -> Sleep {
        Box::pin(std::future::pending())
    }
}
