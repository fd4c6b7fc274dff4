//! The clock of a store.

use std::sync::Arc;

use super::system::SystemClock;
use super::timeline::Clock;
use crate::time::Micros;

/// The clock of a store. Every decision reads it, so the usual clock is called directly instead of
/// through a vtable.
#[derive(Clone, Debug)]
pub(crate) enum ClockSource {
    System(Arc<SystemClock>),
    Custom(Arc<dyn Clock>),
}

impl Default for ClockSource {
    fn default() -> Self {
        Self::System(Arc::new(SystemClock::new()))
    }
}

impl ClockSource {
    #[inline]
    pub(crate) fn now(&self) -> Micros {
        match self {
            Self::System(clock) => clock.now(),
            Self::Custom(clock) => clock.now(),
        }
    }
}
