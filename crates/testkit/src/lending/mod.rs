//! A slow and simple model of leases: how a store must reply when instances lease units in advance.
//!
//! A bucket keeps its exact backlog and a list of leased units, each entry with the time at which
//! the lease has certainly ended. It behaves as if it were updated continuously: at any time, what
//! remains plus what is leased is at most the capacity, and units of a lease that ends without
//! being returned count as spent when it ends. A window counts units as spent when they are leased,
//! and takes them back only while it lasts.
//!
//! Other clients charge the same counter without leases. What they count or settle may leave it in
//! debt. Then nothing remains and nothing is leased until the debt is worked off; units that were
//! leased before stay leased.
//!
//! The model shares nothing with the scripts except the numbers of a quota, and nothing with the
//! arithmetic of the embedded store except the calendar. Windows are those of
//! [`model`](crate::model). Changes of the quota are not modelled.

mod bucket;
mod callers;
mod counter;
mod explore;
mod reserve;

use tollgate::store::lease::LeaseTerms;

pub use counter::Lender;
pub use explore::Small;

/// What the store adds to the length of a lease before it writes the lease off.
const MARGIN: i128 = LeaseTerms::MARGIN.get() as i128;
/// No generation ends later than this.
const GENERATION_MAX: i128 = 2 * LeaseTerms::LONG_MAX.get() as i128 + MARGIN;
/// A clock that goes back by no more than this was not set back.
const SLACK: i128 = 1_000_000;
/// A bucket owes at most what it works off in this time: 100 years.
const RECOVERY_MAX: i128 = 100 * 366 * 86_400 * 1_000_000;
