//! Exact rate limiting, in process or shared between replicas.
//!
//! Tollgate decides whether a request may pass one or several rate limits. Decisions are exact: all
//! arithmetic is in integers, a request over several limits charges all of them or none, and a
//! denial reports to the microsecond when the same request would pass.
//!
//! # Quick start
//!
//! Create a [`Limiter`] with one or more [`Limit`]s, then [`check`](Limiter::check) a request by
//! the limit's name and a key that identifies the client:
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Limit, Limiter};
//!
//! # async fn handler() -> Result<(), tollgate::Error> {
//! // 100 requests per minute and key.
//! let limiter = Limiter::in_memory([Limit::sliding_window("api", 100, Duration::from_secs(60))])?;
//!
//! let decision = limiter.check("api", "user:42").await?;
//! if decision.is_allowed() {
//!     println!("{} of {} requests left", decision.remaining(), decision.limit());
//! } else {
//!     println!("denied; retry in {:?}", decision.retry_after());
//! }
//! # assert!(decision.is_allowed());
//! # Ok(())
//! # }
//! # pollster::block_on(handler()).unwrap();
//! ```
//!
//! A denial is a [`Decision`], not an error. An [`Error`] means that the request was invalid, such
//! as one that names an unknown limit.
//!
//! A longer example is in `examples/quickstart.rs`: several limits in one request, a denial and its
//! retry time, and a permit of a concurrency limit.
//!
//! # Concepts
//!
//! | term | meaning |
//! |---|---|
//! | [`Limit`] | a named limit: an algorithm with its [`Quota`], and options such as shadow mode |
//! | [`Key`] | identifies the client or resource; every key of a limit has a counter of its own |
//! | [`Demand`] | one limit, one key and a cost: what a request asks of one counter |
//! | request | up to [`DEMANDS_MAX`](store::DEMANDS_MAX) demands that pass together or not at all |
//! | [`Store`] | keeps the counters; spends a request's demands in one atomic step |
//! | [`Decision`] | the result of a check: allowed or denied, with one outcome per limit |
//! | [`Permit`] | a slot of a concurrency limit, released when dropped |
//!
//! # Choosing an algorithm
//!
//! | to limit | use |
//! |---|---|
//! | requests per minute, hour, .. of an API | [`Limit::sliding_window`] |
//! | few, important events, exactly (logins, payments) | [`Limit::sliding_log`] |
//! | a steady rate with bursts | [`Limit::token_bucket`] or [`Limit::leaky_bucket`] |
//! | a quota per calendar day or month | [`Limit::calendar_window`] |
//! | outgoing calls, spaced evenly | [`Limit::queue`] |
//! | requests in flight | [`Limit::concurrency`] |
//!
//! The [`algorithm`] module lists what each algorithm guarantees and what state it keeps.
//!
//! # Features
//!
//! - **Several limits in one request:** [`Check::and`](limiter::Check::and). All of them pass, or
//!   none is charged.
//! - **Costs:** [`Check::cost`](limiter::Check::cost), for requests that use more than one unit.
//! - **Tiers:** [`Check::quota`](limiter::Check::quota) replaces a limit's quota for one caller.
//! - **Peek, refund, reset:** [`Limiter::peek`] charges nothing, [`Limiter::refund`] returns units,
//!   [`Limiter::reset`] clears a counter.
//! - **Waiting:** [`Check::wait_up_to`](limiter::Check::wait_up_to) waits until the request passes,
//!   [`Check::wait_in_queue`](limiter::Check::wait_in_queue) waits in a queue limit.
//! - **Permits:** [`Limiter::acquire`] takes a slot of a concurrency limit.
//! - **Failure policies:** [`Limit::on_store_failure`] sets, for each limit, what happens while the
//!   store is unavailable.
//! - **HTTP:** the crate `tollgate-http` turns a decision into header fields and response bodies,
//!   and `tollgate-tower` is a Tower layer.
//! - **Limits from JSON and other formats:** with the feature `serde`, [`Limit`] implements
//!   `Serialize` and `Deserialize`, with the field names of the service's configuration file.
//! - **Snapshots:** [`MemoryStore::snapshot`] and [`MemoryStore::restore`] keep counters across a
//!   restart.
//!
//! # Stores
//!
//! [`MemoryStore`] keeps counters in this process and needs no setup. The crate `tollgate-redis`
//! shares counters between replicas through Redis or Valkey. Any type that implements [`Store`] can
//! be used with [`Limiter::new`].
//!
//! # Executors
//!
//! The library works with any async executor. With the memory store it needs none:
//! [`Check::try_now`](limiter::Check::try_now) returns the decision directly, and
//! [`Check::try_is_allowed`](limiter::Check::try_is_allowed) returns a `bool` for hot paths.

pub mod algorithm;
mod clock;
mod consistency;
mod decision;
mod demand;
#[cfg(any(doc, doctest))]
pub mod guides;
mod key;
mod limit;
mod limit_error;
#[cfg(feature = "serde")]
mod limit_serde;
pub mod limiter;
mod lock;
pub mod memory;
mod name;
mod rate;
pub mod store;
mod time;

pub use algorithm::{
    Calendar, Concurrency, FixedWindow, LeakyBucket, LeakyMode, Lockout, Outcome, PermitId, Quota,
    Rate, SlidingLog, SlidingWindow, TokenBucket, Verdict,
};
pub use clock::{Clock, ManualClock, Sleep, SystemClock};
pub use consistency::Consistency;
pub use decision::{Decision, LimitOutcome, Retry};
pub use demand::{Demand, DemandBuf};
pub use key::{
    EncodedKey, KEY_MAX, Key, KeyDecodeError, KeyError, KeyHash, KeyPart, KeyParts, ToKey,
};
#[cfg(feature = "hashing")]
pub use key::{KeyHasher, SecretError};
pub use limit::{FailurePolicy, Limit, LimitError, QuotaUnit, ReservationExpiry, Rule};
pub use limiter::{Acquisition, Error, Health, Limiter, Permit, Reservation};
pub use memory::MemoryStore;
pub use name::{LimitName, NAME_MAX};
pub use store::{DegradedReason, Source, Store, StoreError};
pub use time::Micros;
