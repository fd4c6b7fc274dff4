//! The shared store of [Tollgate](tollgate) on Redis or Valkey: standalone, Sentinel and Cluster.
//!
//! ```no_run
//! use std::time::Duration;
//! use tollgate::{Limit, Limiter};
//! use tollgate_redis::RedisStore;
//!
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! let store = RedisStore::connect("redis://127.0.0.1:6379").await?;
//! let limiter = Limiter::new(store, [Limit::sliding_window("api", 100, Duration::from_secs(60))])?;
//! let decision = limiter.check("api", "user:42").await?;
//! # Ok(())
//! # }
//! ```
//!
//! `examples/shared_limit.rs` shows two limiters that share one limit, and a failure policy.
//!
//! # How a request is decided
//!
//! 1. The demands of a request are encoded into one store call (`wire`).
//! 2. The call waits in the queue of the link to its server (`link`). A link has one connection,
//!    and sends all calls that wait together in one script call.
//! 3. The script (`scripts/batch.lua`) decides, charges the counters, and replies with the state
//!    that it found in them.
//! 4. The outcomes are computed from that state with the same arithmetic as in the embedded store.
//!
//! # Guarantees
//!
//! - **One atomic round trip.** The demands of a request are decided in one script call, by the
//!   server's clock. In a cluster, demands with the same key attributes share a slot. Demands in
//!   different slots are spent one slot after the other, lowest limit first, and are refunded when
//!   a later one is denied.
//! - **Bounded waiting.** A request never waits for a connection to be established, and has two
//!   bounds: one for the store, from the write of a call to the arrival of its reply, and one for
//!   the whole decision. While a server is unavailable or too slow, calls to it fail fast and the
//!   limits' failure policies decide; see [`tollgate::FailurePolicy`].
//! - **No double charges.** A call that may have run is never sent again.

mod builder;
mod connector;
mod endpoint;
mod error;
mod layout;
mod link;
mod locator;
mod log;
mod opening;
pub mod records;
mod resp;
mod script;
mod sentinel;
mod server_check;
mod store;
#[cfg(feature = "manual-time")]
#[doc(hidden)]
pub mod testing;
#[cfg(feature = "tls")]
mod tls;
mod topology;
mod wire;

pub use builder::RedisBuilder;
pub use endpoint::{Endpoint, RedisConfigError};
pub use layout::{LAYOUT, LayoutError};
pub use opening::RedisConnectError;
pub use store::{RedisStore, Stats};

/// The crate's own page, whose code compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The guide in `docs/`, whose code compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/redis.md")]
struct Guide;
