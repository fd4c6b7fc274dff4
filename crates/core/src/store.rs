//! The store contract: *spend these checks together, or none of them.*
//!
//! A store keeps counters and the time. It takes data and returns data, in one trip, and knows
//! nothing of rules, HTTP or failure policy.

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

/// The most checks one request may make.
pub const DEMANDS_MAX: usize = 16;

/// One limit asked about one key.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    /// Which counter. It holds the limit's name and shape, so it is all a store needs.
    pub key: Key<'a>,
    /// What that counter allows.
    pub quota: &'a Quota,
    /// Units to spend; 0 only looks.
    pub cost: u64,
    /// A check that reports and never refuses: it spends only when it would have passed, and stops
    /// nothing.
    pub shadow: bool,
}

/// A [`Demand`] that owns what it is about.
#[derive(Clone, Debug)]
pub struct DemandBuf {
    prefix: KeyPrefix,
    parts: PartsBuf,
    /// What the counter allows.
    pub quota: Quota,
    /// Units to spend; 0 only looks.
    pub cost: u64,
    /// A check that reports and never refuses.
    pub shadow: bool,
}

impl DemandBuf {
    /// Who shares the counter, and how.
    #[inline]
    pub const fn consistency(&self) -> Consistency {
        self.prefix.consistency()
    }

    /// The same with another cost.
    #[must_use]
    pub fn with_cost(self, cost: u64) -> Self {
        Self { cost, ..self }
    }

    /// How many processes are said to share it.
    pub const fn replicas(&self) -> NonZeroU32 {
        self.prefix.replicas()
    }

    /// The check, as stores take it.
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
    /// True when a pass takes a place that must be given back.
    #[inline]
    pub(crate) const fn needs_permit(&self) -> bool {
        matches!(self.quota, Quota::Concurrency(_)) && self.cost > 0
    }

    /// A copy that owns what it is about.
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

/// Whether passing checks are charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// They are.
    Spend,
    /// They are not: tell what would happen.
    Peek,
}

/// The answer to a request, one outcome per check in the order asked.
#[derive(Clone, Debug)]
pub struct SpendReply {
    /// What each limit says. `remaining` and `reset_after` are what is left once the request has
    /// been dealt with: when it is only a peek, or refused by another limit, a limit that would let
    /// it pass says so and has kept its units.
    pub outcomes: SmallVec<[Outcome; 1]>,
    /// Where each of them came from.
    pub sources: OutcomeSources,
    /// The moment of the decision on the store's timeline.
    pub at: Micros,
}

impl SpendReply {
    /// The store's own answer to all checks.
    #[inline]
    pub fn by_store(outcomes: SmallVec<[Outcome; 1]>, at: Micros) -> Self {
        Self {
            outcomes,
            sources: OutcomeSources::default(),
            at,
        }
    }
}

/// Where the answers to the checks of one request came from: all from the store itself, unless told
/// otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeSources {
    /// One bit per check.
    leases: u16,
    denials: u16,
}

const _: () = assert!(
    DEMANDS_MAX <= u16::BITS as usize,
    "there is a bit for every check"
);

impl OutcomeSources {
    /// Says where the answer to the check at `index` came from.
    pub const fn set(&mut self, index: usize, source: Source) {
        match source {
            Source::Lease => self.leases |= 1 << index,
            Source::DenyCache => self.denials |= 1 << index,
            Source::Store | Source::Fallback | Source::Local => {}
        }
    }

    /// The same for every check.
    #[inline]
    pub const fn all(source: Source) -> Self {
        match source {
            Source::Lease => Self {
                leases: u16::MAX,
                denials: 0,
            },
            Source::DenyCache => Self {
                leases: 0,
                denials: u16::MAX,
            },
            Source::Store | Source::Fallback | Source::Local => Self {
                leases: 0,
                denials: 0,
            },
        }
    }

    /// Where the answer to the check at `index` came from.
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

    /// True when the store itself answered one of so many checks.
    pub const fn has_store(self, checks: usize) -> bool {
        ((self.leases | self.denials).trailing_ones() as usize) < checks
    }
}

/// Where counters live. Every method is one atomic step; dropping an [`StoreFuture`] before it is ready
/// leaves the step done or not done, never half done.
///
/// A store answers every question within a deadline of its own, with an error if need be: the
/// limiter sets no timer, and waits as long as the store lets it. What a limit answers to an error
/// is the limit's choice, see [`FailurePolicy`](crate::FailurePolicy).
pub trait Store: Send + Sync + fmt::Debug {
    /// Spends 1 to [`DEMANDS_MAX`] checks, no two on the same counter: every one, or none when any
    /// that is not a shadow does not fit. Concurrency checks are held under `lease`.
    fn spend<'a>(
        &'a self,
        checks: &[Demand<'_>],
        intent: Intent,
        lease: PermitId,
    ) -> StoreFuture<'a, SpendReply>;

    /// The same for a single check, the usual case, by stores that can answer without waiting;
    /// `None` from those that cannot, which have then done nothing.
    #[inline]
    fn try_spend(
        &self,
        _check: &Demand<'_>,
        _intent: Intent,
        _lease: PermitId,
    ) -> Option<(Outcome, Source)> {
        None
    }

    /// Only whether a single check that takes no place passes, charged if it does: the shortest way
    /// for those who want to know no more.
    #[inline]
    fn try_is_allowed(&self, check: &Demand<'_>) -> Option<bool> {
        self.try_spend(check, Intent::Spend, PermitId::NONE)
            .map(|(outcome, _)| outcome.verdict.is_allowed())
    }

    /// Gives back what checks took, at most what is spent. It takes effect even if the answer is
    /// dropped unread. Concurrency checks give back through [`release`](Self::release) and are
    /// passed over here.
    fn refund<'a>(&'a self, checks: &[Demand<'_>]) -> StoreFuture<'a, ()>;

    /// Forgets a counter: its budget is full again.
    fn reset<'a>(&'a self, key: &Key<'_>) -> StoreFuture<'a, ()>;

    /// Ends a lease; false when it has already ended. It takes effect even if the answer is dropped
    /// unread. The check is the one that took the lease, or one with cost 0 when what it took is
    /// not known, which may take longer to find.
    fn release<'a>(&'a self, check: &Demand<'_>, lease: PermitId) -> StoreFuture<'a, bool>;

    /// Starts a lease's time again; false when it has already ended. The check is as for
    /// [`release`](Self::release).
    fn renew<'a>(&'a self, check: &Demand<'_>, lease: PermitId) -> StoreFuture<'a, bool>;

    /// Gives back what was taken in advance and is not spent, as a process does before it ends. A
    /// store that takes nothing in advance has nothing to give.
    fn return_leases(&self) -> StoreFuture<'_, ()> {
        StoreFuture::ready(Ok(()))
    }
}

/// A store's answer: here at once, or coming. Stores that answer from memory need no allocation and
/// no executor.
pub enum StoreFuture<'a, T> {
    /// It is here. `None` once it has been taken.
    Ready(Option<Result<T, StoreError>>),
    /// It is on its way.
    Pending(Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>),
}

impl<T> StoreFuture<'_, T> {
    /// An answer that is already here.
    pub fn ready(answer: Result<T, StoreError>) -> Self {
        Self::Ready(Some(answer))
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
            Self::Ready(answer) => answer.take().map_or(Poll::Pending, Poll::Ready),
            Self::Pending(answer) => answer.as_mut().poll(context),
        }
    }
}

/// Why a store gave no answer. Its text, and that of its sources, is logged: a store keeps secrets
/// and keys out of it.
///
/// ```
/// use tollgate::StoreError;
///
/// let away = StoreError::Unavailable("connection refused".into());
/// assert_eq!(away.to_string(), "the store cannot be reached");
/// assert_eq!((away.kind(), away.is_transient()), ("unavailable", true));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No answer came within the store's deadline. Whether the step was done is not known.
    #[error("the store did not answer within its deadline")]
    Timeout,
    /// The store could not be asked: there is no connection, or it broke.
    #[error("the store cannot be reached")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The store was not asked, because as much is waiting for it as may.
    #[error("as many requests wait for the store as may; this one was not sent")]
    Overloaded,
    /// The store answered, and not with what was asked. Someone must change something: a
    /// permission, a version, a memory limit.
    #[error("the store refused the request")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// True when the same request may succeed later without anyone changing anything.
    pub const fn is_transient(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }

    /// The word used in logs and metrics.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Unavailable(_) => "unavailable",
            Self::Overloaded => "overloaded",
            Self::Refused(_) => "refused",
        }
    }
}
