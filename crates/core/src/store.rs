//! The store interface: spend all demands of a request in one atomic step, or none of them.
//!
//! A store keeps counters and the time. It takes demands and returns outcomes in a single round
//! trip. It knows nothing of limit names, HTTP or failure policies.

use std::fmt;
use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::task::{Context, Poll};

use smallvec::SmallVec;

use crate::algorithm::{Outcome, PermitId, Quota};
use crate::consistency::Consistency;
use crate::decision::Source;
use crate::key::{Key, KeyPrefix, PartsBuf};
use crate::time::Micros;

/// The maximum number of demands in one request.
pub const DEMANDS_MAX: usize = 16;

/// What a request asks of one counter: a limit's quota, a key and a cost.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    /// Identifies the counter. It includes the limit's name and shape, so a store needs nothing
    /// else to find the counter.
    pub key: Key<'a>,
    /// What the counter allows.
    pub quota: &'a Quota,
    /// Units to spend. Cost 0 only reads the counter.
    pub cost: u64,
    /// True for a shadow limit: it is charged when it allows the request, and never denies it.
    pub shadow: bool,
}

/// An owned [`Demand`].
#[derive(Clone, Debug)]
pub struct DemandBuf {
    prefix: KeyPrefix,
    parts: PartsBuf,
    /// What the counter allows.
    pub quota: Quota,
    /// Units to spend. Cost 0 only reads the counter.
    pub cost: u64,
    /// True for a shadow limit, which never denies a request.
    pub shadow: bool,
}

impl DemandBuf {
    /// How replicas share the counter.
    #[inline]
    pub const fn consistency(&self) -> Consistency {
        self.prefix.consistency()
    }

    /// The same demand with another cost.
    #[must_use]
    pub fn with_cost(self, cost: u64) -> Self {
        Self { cost, ..self }
    }

    /// How many replicas are expected to share the counter.
    pub const fn replicas(&self) -> NonZeroU32 {
        self.prefix.replicas()
    }

    /// Borrows the demand in the form that stores take.
    pub fn as_demand(&self) -> Demand<'_> {
        let key = Key::new(&self.prefix, self.parts.as_parts());
        Demand {
            key,
            quota: &self.quota,
            cost: self.cost,
            shadow: self.shadow,
        }
    }
}

impl Demand<'_> {
    /// True when the demand takes a permit, which must be released, if the request is allowed.
    #[inline]
    pub(crate) const fn needs_permit(&self) -> bool {
        matches!(self.quota, Quota::Concurrency(_)) && self.cost > 0
    }

    /// Copies the demand into an owned one.
    pub fn to_buf(&self) -> DemandBuf {
        let (prefix, parts) = (*self.key.prefix(), self.key.parts().to_buf());
        DemandBuf {
            prefix,
            parts,
            quota: *self.quota,
            cost: self.cost,
            shadow: self.shadow,
        }
    }
}

/// Whether an allowed request is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Charge the request if it is allowed.
    Spend,
    /// Charge nothing; only report what would happen.
    Peek,
}

/// The store's reply to a request: one outcome per demand, in the order of the request.
#[derive(Clone, Debug)]
pub struct SpendReply {
    /// The outcome of each demand. `remaining` and `reset_after` describe the counter after the
    /// request. If the request was a peek, or another limit denied it, a limit that would allow it
    /// still reports [`Allow`](crate::Verdict::Allow) and keeps its units.
    pub outcomes: SmallVec<[Outcome; 1]>,
    /// Where each outcome came from.
    pub sources: OutcomeSources,
    /// When the decision was made, on the store's timeline.
    pub at: Micros,
}

impl SpendReply {
    /// A reply in which every outcome came from the store itself.
    #[inline]
    pub fn by_store(outcomes: SmallVec<[Outcome; 1]>, at: Micros) -> Self {
        Self {
            outcomes,
            sources: OutcomeSources::default(),
            at,
        }
    }
}

/// Where the outcomes of one request came from: [`Source::Store`] by default,
/// [`Source::Lease`] or [`Source::DenyCache`] where set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeSources {
    /// One bit per demand: the outcome came from a lease.
    leases: u16,
    /// One bit per demand: the outcome came from the deny cache.
    denials: u16,
}

const _: () = assert!(
    DEMANDS_MAX <= u16::BITS as usize,
    "every demand must have a bit"
);

impl OutcomeSources {
    /// Sets the source of the outcome at `index`. Sources other than a lease and the deny cache
    /// leave it at [`Source::Store`].
    pub const fn set(&mut self, index: usize, source: Source) {
        match source {
            Source::Lease => self.leases |= 1 << index,
            Source::DenyCache => self.denials |= 1 << index,
            Source::Store | Source::Fallback | Source::Local => {}
        }
    }

    /// The same source for every outcome.
    #[inline]
    pub const fn all(source: Source) -> Self {
        let (leases, denials) = match source {
            Source::Lease => (u16::MAX, 0),
            Source::DenyCache => (0, u16::MAX),
            Source::Store | Source::Fallback | Source::Local => (0, 0),
        };
        Self { leases, denials }
    }

    /// The source of the outcome at `index`.
    #[inline]
    pub const fn get(self, index: usize) -> Source {
        if self.leases >> index & 1 == 1 {
            Source::Lease
        } else if self.denials >> index & 1 == 1 {
            Source::DenyCache
        } else {
            Source::Store
        }
    }

    /// True when at least one of the first `demands` outcomes came from the store itself.
    pub const fn has_store(self, demands: usize) -> bool {
        ((self.leases | self.denials).trailing_ones() as usize) < demands
    }
}

/// Keeps counters. Every method is one atomic step: if a [`StoreFuture`] is dropped before it is
/// ready, the step has been done completely or not at all.
///
/// A store must reply within a deadline of its own, with an error if necessary: the limiter sets no
/// timer. What a limit does on an error is configured per limit, see
/// [`FailurePolicy`](crate::FailurePolicy).
pub trait Store: Send + Sync + fmt::Debug {
    /// Spends 1 to [`DEMANDS_MAX`] demands, no two of them on the same counter: all of them, or
    /// none if any demand that is not a shadow is denied. Demands on concurrency limits take their
    /// permits under `permit_id`.
    fn spend<'a>(
        &'a self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> StoreFuture<'a, SpendReply>;

    /// Like [`spend`](Self::spend) for a single demand, without waiting. This is the fast path for
    /// the usual case. A store that would have to wait returns `None` and has done nothing.
    #[inline]
    fn try_spend(
        &self,
        _demand: &Demand<'_>,
        _intent: Intent,
        _permit_id: PermitId,
    ) -> Option<(Outcome, Source)> {
        None
    }

    /// Like [`try_spend`](Self::try_spend) for a demand that takes no permit, returning only
    /// whether it is allowed. Stores override it where that is faster.
    #[inline]
    fn try_is_allowed(&self, demand: &Demand<'_>) -> Option<bool> {
        self.try_spend(demand, Intent::Spend, PermitId::NONE)
            .map(|(outcome, _)| outcome.verdict.is_allowed())
    }

    /// Returns the units that demands have spent, at most as many as are spent. Takes effect even
    /// if the future is dropped. Demands on concurrency limits are skipped: their permits end with
    /// [`release`](Self::release).
    fn refund<'a>(&'a self, demands: &[Demand<'_>]) -> StoreFuture<'a, ()>;

    /// Clears a counter: its budget is full again.
    fn reset<'a>(&'a self, key: &Key<'_>) -> StoreFuture<'a, ()>;

    /// Releases a permit; false if it has already ended. Takes effect even if the future is
    /// dropped. `demand` is the one that acquired the permit, or one with cost 0 if its cost is not
    /// known, which may take longer to find.
    fn release<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool>;

    /// Restarts a permit's timeout; false if the permit has already ended. `demand` is as for
    /// [`release`](Self::release).
    fn renew<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool>;

    /// Returns leased units that are not spent, before the process ends. Does nothing in stores
    /// without leases.
    fn return_leases(&self) -> StoreFuture<'_, ()> {
        StoreFuture::ready(Ok(()))
    }
}

/// The result of a store call, ready or pending. Stores that reply from memory return a ready one,
/// which needs neither an allocation nor an executor.
pub enum StoreFuture<'a, T> {
    /// The result is ready; `None` once it has been polled.
    Ready(Option<Result<T, StoreError>>),
    /// The call is in flight.
    Pending(Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>),
}

impl<T> StoreFuture<'_, T> {
    /// A future that is ready with this result.
    pub fn ready(result: Result<T, StoreError>) -> Self {
        Self::Ready(Some(result))
    }
}

impl<T> fmt::Debug for StoreFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Self::Ready(_)) {
            "StoreFuture::Ready(..)"
        } else {
            "StoreFuture::Pending(..)"
        })
    }
}

impl<T: Unpin> Future for StoreFuture<'_, T> {
    type Output = Result<T, StoreError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Ready(result) => result.take().map_or(Poll::Pending, Poll::Ready),
            Self::Pending(call) => call.as_mut().poll(context),
        }
    }
}

/// Why a store call failed. The text of the error and of its sources is logged, so stores must keep
/// secrets and keys out of it.
///
/// ```
/// use tollgate::StoreError;
///
/// let error = StoreError::Unavailable("connection refused".into());
/// assert_eq!(error.to_string(), "store unavailable");
/// assert_eq!((error.kind(), error.is_transient()), ("unavailable", true));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store did not reply within its deadline. It may or may not have done the step.
    #[error("store call timed out")]
    Timeout,
    /// The store could not be reached, or the connection was lost during the call.
    #[error("store unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The call was not sent, because too many calls are already in flight.
    #[error("store overloaded: too many calls in flight")]
    Overloaded,
    /// The store replied with an error that needs an operator: a missing permission, an unsupported
    /// version, a memory limit.
    #[error("store refused the request")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// True when the same call may succeed later without any change by an operator.
    pub const fn is_transient(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }

    /// The kind of the error as used in logs and metrics: `timeout`, `unavailable`, `overloaded` or
    /// `refused`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Unavailable(_) => "unavailable",
            Self::Overloaded => "overloaded",
            Self::Refused(_) => "refused",
        }
    }
}
