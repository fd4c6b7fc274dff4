//! The interface of a clock.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::time::Micros;

/// A timeline that can be read and waited on.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The current time, in microseconds since the UNIX epoch.
    fn now(&self) -> Micros;

    /// Returns a future that completes once `length` has passed on this timeline.
    fn sleep(&self, length: Micros) -> Sleep;
}

/// The future of [`Clock::sleep`].
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;
