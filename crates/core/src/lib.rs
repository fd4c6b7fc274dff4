//! Exact rate limiting. Two lines to a first decision:
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Limit, Limiter};
//!
//! # async fn handler() -> Result<(), tollgate::Error> {
//! let limiter = Limiter::in_memory([Limit::sliding_window("api", 100, Duration::from_secs(60))]);
//! let decision = limiter.check("api", "user:42").await?;
//! # assert!(decision.is_allowed());
//! # Ok(())
//! # }
//! # pollster::block_on(handler()).unwrap();
//! ```
//!
//! # The way of a request
//!
//! request -> [`Key`] (who) -> [`Demand`]s (which limits, what cost) -> [`Store::spend`] (one atomic
//! step) -> [`Decision`].
//!
//! - **Choose an algorithm** for each [`Limit`]: the table in [`algorithm`] says what each
//!   promises.
//! - **Several limits at once** with [`and`](limiter::Ask::and): all pass, or none is charged.
//! - **A cost** with [`cost`](limiter::Ask::cost), **other numbers for this caller** with
//!   [`quota`](limiter::Ask::quota).
//! - **Look** with [`peek`](Limiter::peek), **give back** with [`refund`](Limiter::refund),
//!   **forget** with [`reset`](Limiter::reset).
//! - **Wait your turn** with [`wait_up_to`](limiter::Ask::wait_up_to), **hold a place** with
//!   [`acquire`](Limiter::acquire).
//! - **Survive a store that is away** by a policy for each limit:
//!   [`on_store_failure`](Limit::on_store_failure).
//! - **Tell the client** with the values in `headers` (feature `headers`, on by default).
//! - **Survive a restart** with [`MemoryStore::snapshot`] and [`MemoryStore::restore`].
//!
//! Works on any executor, and with none: the memory store answers
//! [`now_or_never`](limiter::Ask::now_or_never).

pub mod algorithm;
mod clock;
mod consistency;
mod decision;
#[cfg(doctest)]
mod guides;
#[cfg(feature = "headers")]
pub mod headers;
mod key;
pub mod lease;
mod limit;
pub mod limiter;
mod lock;
pub mod memory;
mod name;
pub mod store;
mod time;

pub use algorithm::{
    Calendar, Concurrency, FixedWindow, LeakyBucket, LeakyMode, Outcome, PermitId, Quota, Rate,
    SlidingLog, SlidingWindow, TokenBucket, Verdict,
};
pub use clock::{Clock, ManualClock, Sleep, SystemClock};
pub use consistency::Consistency;
pub use decision::{Decision, LimitOutcome, Retry, Source};
pub use key::{
    EncodedKey, KEY_MAX, Key, KeyDecodeError, KeyError, KeyHash, KeyHasher, KeyPart, KeyParts,
    SecretError, ToKey,
};
pub use limit::{FailurePolicy, Limit, LimitError, Rule};
pub use limiter::{Acquisition, Error, Health, Limiter, Permit};
pub use memory::MemoryStore;
pub use name::{LimitName, NAME_MAX};
pub use store::{Demand, DemandBuf, Store, StoreError};
pub use time::Micros;
