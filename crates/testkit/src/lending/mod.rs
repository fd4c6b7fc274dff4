//! The slow obvious model of lending: what a store must answer when processes take units in
//! advance.
//!
//! A bucket keeps its exact backlog and a plain list of what is out, each entry with the moment at
//! which it has certainly ended, and is looked at as if it had been watched all the time: at every
//! moment what is left and what is out together are at most the capacity, and what ends unreturned
//! counts as spent when it ends. A window counts units as spent when they are given, and takes them
//! back only while it lasts.
//!
//! It shares nothing with the scripts but the numbers of a quota, and nothing with the arithmetic
//! of the embedded store but the calendar. Windows are those of [`model`](crate::model). Quotas do
//! not change under it.

mod bucket;
mod counter;
mod explore;

pub use counter::Lender;
pub use explore::Small;

/// A generation takes in leases for this long, and what is in it has certainly ended when twice as
/// long is over.
pub(crate) const GENERATION: i128 = 1_000_000;
/// When what was given in a generation has certainly ended, from when the generation began.
pub(crate) const OUT_FOR: i128 = 2 * GENERATION;
/// Within this much a clock that goes back was not set.
const SLACK: i128 = 1_000_000;
