//! The only place that asks for the time, and the only place that waits for it.

mod manual;
mod system;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use manual::ManualClock;
pub use system::SystemClock;

use crate::time::Micros;

/// A timeline: what time it is, and how to wait on it.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Now, in microseconds since the epoch.
    fn now(&self) -> Micros;

    /// Completes once `length` has passed on this timeline.
    fn sleep(&self, length: Micros) -> Sleep;
}

/// The clock of a store: real time, called directly because every decision asks for it, or another.
#[derive(Clone, Debug)]
pub(crate) enum Time {
    System(Arc<SystemClock>),
    Other(Arc<dyn Clock>),
}

impl Time {
    #[inline]
    pub(crate) fn now(&self) -> Micros {
        match self {
            Self::System(clock) => clock.now(),
            Self::Other(clock) => clock.now(),
        }
    }
}

/// See [`Clock::sleep`].
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;
