//! The two kinds of time a store can live in.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, ManualClock, Micros, Store, SystemClock};

use super::Harness;

/// A store whose clock is moved by hand.
#[derive(Debug)]
pub struct ByHand {
    /// Its clock.
    pub clock: ManualClock,
    /// The store.
    pub store: Arc<dyn Store>,
}

impl Harness for ByHand {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn advance(&self, length: Duration) {
        self.clock.advance(length);
    }

    fn is_exact(&self) -> bool {
        true
    }
}

/// A store for which time really passes.
#[derive(Debug)]
pub struct InRealTime(pub Arc<dyn Store>);

impl Harness for InRealTime {
    fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    /// Waits a millisecond more, so that a timer that is early by the fraction of one does no harm.
    fn advance(&self, length: Duration) {
        let length = Micros::from_duration_ceil(length)
            .expect("a short wait")
            .after(Micros::from_millis(1));
        pollster::block_on(SystemClock::new().sleep(length));
    }

    fn is_exact(&self) -> bool {
        false
    }
}
