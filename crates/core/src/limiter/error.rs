//! Why a limiter gave no decision.

use crate::key::KeyError;
use crate::limit::LimitError;
use crate::store::{DEMANDS_MAX, StoreError};

/// Why there is no decision. A denial is not among these: it is a [`Decision`](crate::Decision).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No limit has this name.
    #[error("there is no limit named {limit:?}; there are: {known}")]
    UnknownLimit {
        /// The name asked for.
        limit: String,
        /// The names there are.
        known: String,
    },
    /// The limit was made with wrong numbers.
    #[error("the limit {limit:?} is not usable: {cause}")]
    Limit {
        /// Its name.
        limit: String,
        /// What is wrong with it.
        cause: LimitError,
    },
    /// The key cannot name a counter.
    #[error("the key for the limit {limit:?} is not usable: {cause}")]
    Key {
        /// The limit's name.
        limit: String,
        /// What is wrong with the key.
        cause: KeyError,
    },
    /// The request names too many limits.
    #[error("a request may name {DEMANDS_MAX} limits at most; split it, or drop the widest limits")]
    TooManyLimits,
    /// The request charges one counter twice.
    #[error(
        "the request names the limit {limit:?} twice with the same key; name it once with a larger cost"
    )]
    DuplicateLimit {
        /// The limit's name.
        limit: String,
    },
    /// The numbers given with the call belong to another algorithm or window.
    #[error(
        "the limit {limit:?} is a {expected}; the numbers given with the call are a {found}, or have another window"
    )]
    QuotaMismatch {
        /// The limit's name.
        limit: String,
        /// The limit's algorithm.
        expected: &'static str,
        /// The algorithm of the numbers given.
        found: &'static str,
    },
    /// A concurrency limit was asked to refund.
    #[error(
        "the limit {limit:?} counts requests in flight: drop its permit or use Limiter::release instead of refunding it"
    )]
    RefundConcurrency {
        /// The limit's name.
        limit: String,
    },
    /// Nothing to hold.
    #[error(
        "there is nothing to hold: name a concurrency limit, with a cost, and ask with check instead of peek"
    )]
    NoConcurrencyLimit,
    /// The number of replicas is zero.
    #[error(
        "expected_replicas is 0; it must be at least 1, the number of processes that share the store"
    )]
    NoReplicas,
    /// The store does not answer at once.
    #[error("this store needs to be awaited; only the memory store answers immediately")]
    WouldBlock,
    /// The store gave no answer to a refund, a reset, a release or a renewal. A check is answered
    /// all the same, by the limits' failure policies: see
    /// [`FailurePolicy`](crate::FailurePolicy).
    #[error(transparent)]
    Store(#[from] StoreError),
}
