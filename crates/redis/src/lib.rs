//! The shared store of [Tollgate](tollgate): Redis and Valkey, standalone, Sentinel and Cluster.
//!
//! ```no_run
//! use std::time::Duration;
//! use tollgate::{Limit, Limiter};
//! use tollgate_redis::RedisStore;
//!
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! let store = RedisStore::connect("redis://127.0.0.1:6379")?;
//! let limiter = Limiter::new(store, [Limit::sliding_window("api", 100, Duration::from_secs(60))]);
//! let decision = limiter.check("api", "user:42").await?;
//! # Ok(())
//! # }
//! ```
//!
//! # The way of a request
//!
//! checks -> a request of bytes -> the [lane](RedisStore) of its server -> one script call, shared
//! with whatever else waits -> the counters as they were -> outcomes, by the arithmetic of the
//! embedded store.
//!
//! - **One atomic trip**: a request's checks are decided in one script call by the server's own
//!   clock. In a cluster, checks about the same entity share a slot; others are asked one slot
//!   after the other, narrowest limit first, and given back when a later one refuses.
//! - **Never hostage**: a request never waits for a connection and never beyond its deadline. A
//!   store that is away or slow is not asked; the limits' failure policies answer, see
//!   [`tollgate::FailurePolicy`].
//! - **Nothing is sent twice** that may have run.

mod access;
mod builder;
mod endpoint;
mod failure;
mod lane;
mod resp;
mod script;
mod store;
#[cfg(feature = "manual-time")]
#[doc(hidden)]
pub mod testing;
mod time;
mod tls;
mod topology;
mod wire;

pub use builder::RedisBuilder;
pub use endpoint::{Endpoint, RedisConfigError};
pub use store::{RedisStore, Stats};
