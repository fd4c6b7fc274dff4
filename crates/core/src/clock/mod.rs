//! Clocks. All other code takes the time as an argument or from a [`Clock`].

mod manual;
mod system;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use manual::ManualClock;
pub use system::SystemClock;

use crate::time::Micros;

/// A timeline that can be read and waited on.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The current time, in microseconds since the UNIX epoch.
    fn now(&self) -> Micros;

    /// Returns a future that completes once `length` has passed on this timeline.
    fn sleep(&self, length: Micros) -> Sleep;
}

/// The clock of a store. Every decision reads it, so the usual clock is called directly instead of
/// through a vtable.
#[derive(Clone, Debug)]
pub(crate) enum ClockSource {
    System(Arc<SystemClock>),
    Custom(Arc<dyn Clock>),
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

/// The future of [`Clock::sleep`].
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;
