//! The store interface: spend all demands of a request in one atomic step, or none of them.
//!
//! A store keeps counters and the time. It takes demands and returns outcomes in a single round
//! trip. It knows nothing of limit names, HTTP or failure policies.
//!
//! # For authors of stores
//!
//! An application only chooses a store, such as [`MemoryStore`](crate::MemoryStore), and reads the
//! [`Source`] of its decisions and the [`StoreError`] of a failed call. The rest of this module is
//! for those who write a store or a tool:
//!
//! | to | use |
//! |---|---|
//! | implement a store | [`Store`], [`Intent`], [`SpendReply`], [`Settlement`], [`Ending`], [`SettleReply`], [`StoreFuture`], [`DEMANDS_MAX`] |
//! | spend a request in several backends, all or nothing | [`PartList`], with a [`Part`] for each |
//! | compute outcomes from the state in a remote store | [`remote`] |
//! | decide from units that were leased in advance | [`lease`] |
//! | replay requests by the time of a log | [`MemoryStore`](crate::MemoryStore) on a [`ManualClock`](crate::ManualClock) |

mod degraded;
mod error;
pub mod lease;
mod parts;
pub mod remote;
mod source;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use smallvec::SmallVec;

pub use degraded::DegradedReason;
pub use error::{Refusal, StoreError};
pub use parts::{Part, PartList};
pub use source::Source;

use crate::algorithm::{AMOUNT_MAX, CounterView, Outcome, PermitId};
use crate::demand::Demand;
use crate::key::Key;
use crate::limit::ReservationExpiry;
use crate::time::Micros;

/// The maximum number of demands in one request. It is more than a configuration file has limits,
/// so that no request meets too many of them.
pub const DEMANDS_MAX: usize = 1_024;

/// How long it is remembered how a reservation has ended, so that ending it again changes nothing.
pub const SETTLED_FOR: Micros = Micros::from_secs(600);

/// What a request does besides asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Intent {
    /// Charge the request if it is allowed.
    Spend,
    /// Charge nothing; only report what would happen.
    Peek,
    /// Like [`Peek`](Self::Peek), and also report what the counters contain. The reply has
    /// [`counters`](SpendReply::counters).
    Inspect,
    /// Charge every demand, whether it fits or not. The outcome of a demand that does not fit is a
    /// denial, with the retry time after the charge.
    Count,
    /// Charge nothing, because the request is denied elsewhere, but count its denials by limits
    /// with a [lockout](crate::Lockout). A store that has no lockouts may take it for a peek.
    Refuse,
    /// Like [`Spend`](Self::Spend), and remember for `ttl` what was charged, to
    /// [settle](Store::settle) it later. The permit id is the id of the reservation.
    Reserve {
        /// How long the reservation is open.
        ttl: Micros,
    },
}

impl Intent {
    /// True when a request that is allowed is charged.
    #[inline]
    pub const fn is_charge(self) -> bool {
        !matches!(self, Self::Peek | Self::Inspect | Self::Refuse)
    }

    /// True when what a request charges is remembered, to be settled.
    #[inline]
    pub const fn is_reserve(self) -> bool {
        matches!(self, Self::Reserve { .. })
    }

    /// True when a denial counts towards a [lockout](crate::Lockout).
    #[inline]
    pub const fn counts_denials(self) -> bool {
        matches!(self, Self::Spend | Self::Reserve { .. } | Self::Refuse)
    }

    /// True when a request is charged only if it is allowed.
    #[inline]
    pub const fn is_conditional(self) -> bool {
        matches!(self, Self::Spend | Self::Reserve { .. })
    }
}

/// How a reservation ends. The first end counts, for all of its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationEnd {
    /// The work was done: the actual costs are charged.
    Settled,
    /// The work was not done: everything is returned.
    Cancelled,
}

/// The end of a reservation that a store is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    /// The id of the reservation.
    pub reservation: PermitId,
    /// How it ends.
    pub end: ReservationEnd,
    /// True if another counter has shown that the reservation was open when it ended. A store then
    /// takes it for open even if it has expired meanwhile.
    pub was_open: bool,
}

impl Ending {
    /// An end that is the first as far as the caller knows.
    pub const fn new(reservation: PermitId, end: ReservationEnd) -> Self {
        Self {
            reservation,
            end,
            was_open: false,
        }
    }
}

/// What one demand of a reservation has really cost.
#[derive(Clone, Copy, Debug)]
pub struct Settlement<'a> {
    /// The demand as it was reserved.
    pub demand: Demand<'a>,
    /// The actual cost in units. `None` keeps what was reserved.
    pub actual: Option<u64>,
    /// The units to charge if the reservation is not open: it has expired, or the store does not
    /// know it.
    pub late: u64,
}

impl<'a> Settlement<'a> {
    /// Charges the actual cost, at most [`AMOUNT_MAX`], whatever became of the reservation.
    pub fn new(demand: Demand<'a>, actual: u64) -> Self {
        let actual = actual.min(AMOUNT_MAX);
        Self {
            demand,
            actual: Some(actual),
            late: actual,
        }
    }

    /// Keeps what was reserved. It is charged again only if its limit has returned it.
    pub fn fixed(demand: Demand<'a>) -> Self {
        let is_returned = demand.limit.on_reservation_expiry() == ReservationExpiry::Release;
        Self {
            demand,
            actual: None,
            late: if is_returned {
                demand.cost.min(AMOUNT_MAX)
            } else {
                0
            },
        }
    }
}

/// How a demand of a reservation was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettlementKind {
    /// The reservation was open: the difference to the actual cost was charged or returned.
    Reserved,
    /// The reservation is unknown or has expired: the actual cost was charged.
    Unreserved,
    /// The reservation has ended before: nothing was changed.
    Repeated,
}

/// The reply to the settlement of one demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettleReply {
    /// How the demand was settled.
    pub kind: SettlementKind,
    /// How the reservation has ended, now or before.
    pub end: ReservationEnd,
    /// The units that the reservation has charged in all, within what the counter may owe. Zero for
    /// a permit.
    pub charged: u64,
}

impl SettleReply {
    /// What became of a reservation, from the replies to its settlements in their order: the first
    /// reply of a counter that knew it. A permit may be held longer than its reservation is open,
    /// so its reply counts only if the reservation has nothing else.
    pub fn of_request(settlements: &[Settlement<'_>], replies: &[Self]) -> Option<Self> {
        let rows = settlements.iter().zip(replies);
        let (permits, units): (Vec<_>, Vec<_>) = rows.partition(|(row, _)| row.demand.is_permit());
        let deciding = if units.is_empty() { permits } else { units };

        let mut replies = deciding.iter().map(|(_, reply)| **reply);
        let first = replies.clone().next();
        replies
            .find(|reply| reply.kind != SettlementKind::Unreserved)
            .or(first)
    }

    /// The reply to the release of a permit.
    pub const fn for_permit(was_held: bool, end: ReservationEnd) -> Self {
        let kind = if was_held {
            SettlementKind::Reserved
        } else {
            SettlementKind::Unreserved
        };
        Self {
            kind,
            end,
            charged: 0,
        }
    }

    /// How the other counters of the reservation end. `None` if it has ended the other way before:
    /// then they stay as they are.
    pub fn ending_of_others(&self, ending: Ending) -> Option<Ending> {
        let was_open = self.kind != SettlementKind::Unreserved;
        (self.end == ending.end).then_some(Ending {
            was_open: was_open || ending.was_open,
            ..ending
        })
    }
}

/// The store's reply to a request: one outcome per demand, in the order of the request.
#[derive(Clone, Debug)]
pub struct SpendReply {
    outcomes: SmallVec<[(Outcome, Source); 1]>,
    /// What the counter of each demand contains, in the order of the request. Empty unless the
    /// request was an [inspection](Intent::Inspect), or if the store does not tell.
    pub counters: Vec<CounterView>,
    /// When the decision was made, on the store's timeline.
    pub at: Micros,
}

impl SpendReply {
    /// A reply in which every outcome came from the same source.
    #[inline]
    pub fn new(outcomes: impl IntoIterator<Item = Outcome>, source: Source, at: Micros) -> Self {
        let outcomes = outcomes.into_iter();
        Self::from_sources(outcomes.map(|outcome| (outcome, source)), at)
    }

    /// A reply whose outcomes came from different sources.
    #[inline]
    pub fn from_sources(outcomes: impl IntoIterator<Item = (Outcome, Source)>, at: Micros) -> Self {
        Self {
            outcomes: outcomes.into_iter().collect(),
            counters: Vec::new(),
            at,
        }
    }

    /// The outcome of each demand, and where it came from. `remaining` and `reset_after` describe
    /// the counter after the request. If the request was a peek, or another limit denied it, a
    /// limit that would allow it still reports [`Allow`](crate::Verdict::Allow) and keeps its
    /// units.
    #[inline]
    pub fn outcomes(&self) -> &[(Outcome, Source)] {
        &self.outcomes
    }

    /// The outcomes, to be corrected.
    pub fn outcomes_mut(&mut self) -> &mut [(Outcome, Source)] {
        &mut self.outcomes
    }

    /// The demands that were charged, if the request was allowed or only counted: those with a
    /// cost, except on shadow limits that would have denied them.
    pub fn charged<'d>(&self, demands: &[Demand<'d>], intent: Intent) -> Vec<Demand<'d>> {
        let is_charged = |demand: &Demand<'_>, outcome: &Outcome| {
            let fits = outcome.verdict.is_allowed() || intent == Intent::Count;
            demand.cost > 0 && fits && intent.is_charge()
        };
        let pairs = demands.iter().zip(&self.outcomes);
        pairs
            .filter(|(demand, (outcome, _))| is_charged(demand, outcome))
            .map(|(demand, _)| *demand)
            .collect()
    }

    /// True when a demand that is not on a shadow limit is denied.
    pub fn is_denied(&self, demands: &[Demand<'_>]) -> bool {
        let mut pairs = demands.iter().zip(&self.outcomes);
        pairs.any(|(demand, (outcome, _))| {
            !demand.limit.is_shadow() && !outcome.verdict.is_allowed()
        })
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
    /// none if any demand that is not a shadow is denied. In the same step, a limit with a
    /// [lockout](crate::Lockout) counts its own denial, and denies if the key is locked. Demands on
    /// concurrency limits take their permits under `permit_id`.
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

    /// Like [`try_spend`](Self::try_spend) for several demands.
    fn try_spend_all(
        &self,
        _demands: &[Demand<'_>],
        _intent: Intent,
        _permit_id: PermitId,
    ) -> Option<SpendReply> {
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

    /// Ends a [reservation](Intent::Reserve) and applies the actual cost of its demands: always all
    /// of it, so a counter may go into debt. Demands on concurrency limits release their permits.
    ///
    /// The first other demand decides: its counter remembers for [`SETTLED_FOR`] how the
    /// reservation has ended, and the others follow. If it has ended in the same way before, they
    /// are settled as far as they are not, so that a call that failed can be repeated. If it has
    /// ended the other way, nothing changes. Takes effect even if the future is dropped. There is a
    /// reply for each settlement, in order.
    fn settle<'a>(
        &'a self,
        settlements: &[Settlement<'_>],
        ending: Ending,
    ) -> StoreFuture<'a, Vec<SettleReply>>;

    /// Clears a counter: its budget is full again, and its reservations and its lockout are
    /// forgotten.
    fn reset<'a>(&'a self, key: &Key<'_>) -> StoreFuture<'a, ()>;

    /// Releases a permit; false if it has already ended. Takes effect even if the future is
    /// dropped. `demand` is the one that acquired the permit, or one with cost 0 if its cost is not
    /// known, which may take longer to find.
    fn release<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool>;

    /// Restarts a permit's timeout; false if the permit has already ended. `demand` is as for
    /// [`release`](Self::release).
    fn renew<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool>;

    /// True if calls can fail. The limiter then remembers denials, so that the failure policy
    /// [`Local`](crate::FailurePolicy::Local) continues them during an outage.
    fn can_fail(&self) -> bool {
        true
    }

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

impl<'a, T> StoreFuture<'a, T> {
    /// The result if it is ready.
    pub fn now(self) -> Option<Result<T, StoreError>> {
        match self {
            Self::Ready(result) => result,
            Self::Pending(_) => None,
        }
    }

    /// Polls the future once, so that the result is ready if nothing has to wait.
    pub fn start(future: impl Future<Output = Result<T, StoreError>> + Send + 'a) -> Self {
        let mut future = Box::pin(future);
        let mut context = Context::from_waker(Waker::noop());
        match future.as_mut().poll(&mut context) {
            Poll::Ready(result) => Self::ready(result),
            Poll::Pending => Self::Pending(future),
        }
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
            Self::Ready(result) => Poll::Ready(
                result
                    .take()
                    .expect("a store future is polled until it is ready"),
            ),
            Self::Pending(call) => call.as_mut().poll(context),
        }
    }
}
