//! Which keys use a limit most: always on in the service, bounded, and cheap enough for every
//! decision.
//!
//! Requests can have any number of distinct keys, so they are summarised. A *table* counts the keys
//! of the last seconds (`table`). When its five seconds are over, its heaviest rows become a
//! *summary* (`summary`), and summaries of short periods become summaries of longer ones
//! (`history`), until an hour has passed. Every count comes with a bound on how much it may be too
//! high; a key that is heavy enough is never missed. Whether a key may be displayed is decided by
//! the caller.

mod history;
mod row;
pub mod shared;
mod span;
mod summary;
mod table;

pub use self::history::KeySketch;
pub(crate) use self::history::{ALL_BYTES_MAX, LIMIT_BYTES_MAX};
pub use self::row::KeyUsage;
pub use self::span::{UsageKind, UsageSpan};
pub use self::summary::UsageSummary;

#[cfg(test)]
mod tests;
