//! A slow and simple model of leases: how a store must reply when instances lease units in advance.
//!
//! A bucket keeps its exact backlog and a list of leased units, each entry with the time at which
//! the lease has certainly ended. It behaves as if it were updated continuously: at any time, what
//! remains plus what is leased is at most the capacity, and units of a lease that ends without
//! being returned count as spent when it ends. A window counts units as spent when they are leased,
//! and takes them back only while it lasts.
//!
//! The model shares nothing with the scripts except the numbers of a quota, and nothing with the
//! arithmetic of the embedded store except the calendar. Windows are those of
//! [`model`](crate::model). Changes of the quota are not modelled.

mod bucket;
mod counter;
mod explore;

pub use counter::Lender;
pub use explore::Small;

/// How long new leases are added to a generation. All of its leases have certainly ended after
/// twice this time.
pub(crate) const GENERATION: i128 = 1_000_000;
/// The time from the start of a generation until all of its leases have certainly ended.
pub(crate) const OUT_FOR: i128 = 2 * GENERATION;
/// A clock that goes back by no more than this was not set back.
const SLACK: i128 = 1_000_000;
