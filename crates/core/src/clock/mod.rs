//! Clocks. All other code takes the time as an argument or from a [`Clock`].

mod manual;
mod source;
mod system;
mod timeline;

pub use manual::ManualClock;
pub(crate) use source::ClockSource;
pub use system::SystemClock;
pub use timeline::{Clock, Sleep};
