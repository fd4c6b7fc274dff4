//! The two harnesses: a manual clock, and real time.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, ManualClock, Micros, Store, SystemClock};

use super::Harness;

/// A store with a manual clock.
#[derive(Debug)]
pub struct ByHand {
    /// The store's clock.
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

/// A store for which real time passes.
#[derive(Debug)]
pub struct InRealTime(pub Arc<dyn Store>);

impl Harness for InRealTime {
    fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    /// Waits a millisecond longer, so that a timer that fires a fraction early does no harm.
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
