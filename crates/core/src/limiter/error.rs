//! The errors of a limiter.

use std::time::Duration;

use crate::key::KeyError;
use crate::limit::LimitError;
use crate::store::{DEMANDS_MAX, StoreError};

/// Why a limiter could not do what was requested. A denial is not an error: it is a
/// [`Decision`](crate::Decision).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No limit has this name.
    #[error("unknown limit {limit:?}; expected one of: {known}")]
    UnknownLimit {
        /// The first 80 characters of the name found.
        limit: String,
        /// The names of the limiter's limits, at most eight of them.
        known: String,
    },
    /// The limit is invalid.
    #[error("invalid limit {limit:?}: {source}")]
    Limit {
        /// The limit's name.
        limit: String,
        /// What is wrong with the limit.
        source: LimitError,
    },
    /// The key is invalid.
    #[error("invalid key for limit {limit:?}: {source}")]
    Key {
        /// The limit's name.
        limit: String,
        /// What is wrong with the key.
        source: KeyError,
    },
    /// The request has more than [`DEMANDS_MAX`] limits.
    #[error("too many limits in one request; must be at most {DEMANDS_MAX}")]
    TooManyLimits,
    /// The request has the same limit and key twice.
    #[error("duplicate limit {limit:?} with the same key; use it once with a larger cost")]
    DuplicateLimit {
        /// The limit's name.
        limit: String,
    },
    /// The quota of the call has another algorithm or window than the limit.
    #[error(
        "quota mismatch for limit {limit:?}; expected a {expected} with the limit's window, \
         found a {found}"
    )]
    QuotaMismatch {
        /// The limit's name.
        limit: String,
        /// The limit's algorithm.
        expected: &'static str,
        /// The algorithm of the call's quota.
        found: &'static str,
    },
    /// A refund includes a concurrency limit.
    #[error(
        "concurrency limit {limit:?} cannot be refunded; \
         drop the permit or use Limiter::release"
    )]
    RefundConcurrency {
        /// The limit's name.
        limit: String,
    },
    /// A permit was requested by a peek, or without a concurrency limit whose cost is at least 1.
    #[error(
        "no permit to acquire; \
         expected a check (not a peek) of a concurrency limit with a cost of at least 1"
    )]
    NoConcurrencyLimit,
    /// The time to live of a reservation is out of range.
    #[error("reservation ttl {found:?} is out of range; must be between 1ms and 1h")]
    ReservationTtl {
        /// The time found.
        found: Duration,
    },
    /// The number of replicas is zero.
    #[error(
        "expected_replicas is 0; must be at least 1, the number of replicas that share the store"
    )]
    NoReplicas,
    /// The decision needs a store call, which must be awaited. Nothing has been charged.
    #[error("the decision is not available without waiting; await the check instead")]
    WouldBlock,
    /// The store failed during a refund, a reset, a release or a renewal. Checks never return this:
    /// they follow the limits' [failure policies](crate::FailurePolicy).
    #[error(transparent)]
    Store(#[from] StoreError),
}
