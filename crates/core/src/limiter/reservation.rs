//! Reservations: an estimate is charged now, the actual cost when it is known.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::check::Check;
use super::engine::Engine;
use super::error::Error;
use super::request::{DemandList, Demands as _, ExtendDemands as _, OneDemand};
use crate::algorithm::{PermitId, Quota};
use crate::decision::Decision;
use crate::demand::{Demand, DemandBuf};
use crate::key::ToKey;
use crate::store::{Ending, Intent, ReservationEnd, SettleReply, Settlement, SettlementKind};
use crate::time::Micros;

/// How long a reservation is open by default.
pub const RESERVATION_TTL_DEFAULT: Duration = Duration::from_secs(60);
/// The longest time that a reservation may be open.
pub const RESERVATION_TTL_MAX: Duration = Duration::from_secs(3_600);

/// The time that a reservation is open, for [`Intent::Reserve`]; an error if it is less than a
/// millisecond or more than [`RESERVATION_TTL_MAX`].
pub fn reservation_ttl(ttl: Duration) -> Result<Micros, Error> {
    let is_valid = |micros: &Micros| {
        *micros >= Micros::from_millis(1) && Duration::from(*micros) <= RESERVATION_TTL_MAX
    };
    Micros::from_duration(ttl)
        .filter(is_valid)
        .ok_or(Error::ReservationTtl { found: ttl })
}

/// A request that charges an estimate, created by [`Limiter::reserve`](crate::Limiter::reserve).
/// Await it for the [`Reservation`].
#[derive(Debug)]
#[must_use = "a reservation is not made until it is awaited"]
pub struct Reserve<'a> {
    engine: &'a Arc<Engine>,
    demands: DemandList<'a>,
    /// How many demands there are.
    count: usize,
    /// How many of them, from the first on, were given an estimate; `None` if none was.
    estimated: Option<usize>,
    ttl: Duration,
}

impl<'a> Reserve<'a> {
    pub(super) fn new<K: ToKey>(engine: &'a Arc<Engine>, demand: OneDemand<'a, K>) -> Self {
        Self {
            engine,
            demands: demand.into_list(),
            count: 1,
            estimated: None,
            ttl: RESERVATION_TTL_DEFAULT,
        }
    }

    /// Adds another limit that the request must pass. All limits pass, or none is charged.
    pub fn and(mut self, limit: &'a str, key: impl ToKey) -> Self {
        let demand = OneDemand::new(self.engine.lookup(limit), key);
        self.demands.add(demand);
        self.count += 1;
        self
    }

    /// Sets the estimated cost in every limit added so far. These limits are settled with the
    /// actual cost; limits that are added later cost 1, and stay at it. An estimate above
    /// [`Limit::reservation_max`](crate::Limit::reservation_max) is reduced to it.
    pub fn cost(mut self, estimate: u64) -> Self {
        self.demands.set_cost(estimate);
        self.estimated = Some(self.count);
        self
    }

    /// Sets another quota for the limit added last, see [`Check::quota`].
    pub fn quota(mut self, quota: impl Into<Quota>) -> Self {
        self.demands.set_last(None, Some(quota.into()));
        self
    }

    /// Sets how long the reservation is open, up to [`RESERVATION_TTL_MAX`]. Defaults to a minute.
    /// After that, the limit's
    /// [`on_reservation_expiry`](crate::Limit::on_reservation_expiry) decides what happens to the
    /// units.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    async fn run(self) -> Result<Reservation, Error> {
        let ttl = reservation_ttl(self.ttl)?;
        let demands: Vec<DemandBuf> = self.demands.with(&self.engine.rules, |demands| {
            Ok(demands
                .iter()
                .map(|demand| demand.reserved().to_buf())
                .collect())
        })?;
        let check = Check::new(self.engine, &*demands, Intent::Reserve { ttl });
        let decision = check.await?;

        let id = decision.permit_id().unwrap_or(PermitId::NONE);
        Ok(Reservation {
            engine: self.engine.clone(),
            estimated: self.estimated.unwrap_or(demands.len()),
            demands,
            id,
            decision,
        })
    }
}

impl<'a> IntoFuture for Reserve<'a> {
    type Output = Result<Reservation, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Units that were charged for work whose cost is not known yet. Created by
/// [`Limiter::reserve`](crate::Limiter::reserve).
///
/// A reservation that is dropped stays open until it expires: [`cancel`](Self::cancel) it if the
/// work was not done.
#[derive(Debug)]
#[must_use = "a denied reservation limits nothing if it is not read"]
pub struct Reservation {
    engine: Arc<Engine>,
    /// The demands as they were charged.
    demands: Vec<DemandBuf>,
    /// How many of them, from the first on, are settled with the actual cost.
    estimated: usize,
    id: PermitId,
    decision: Decision,
}

impl Reservation {
    /// The decision by which the reservation was made or denied.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// True when the units were charged and the work may begin.
    pub fn is_allowed(&self) -> bool {
        self.decision.is_allowed()
    }

    /// Charges the actual cost: always all of it. What was reserved too much is returned; what was
    /// reserved too little makes the counter owe units. Permits of concurrency limits are released.
    ///
    /// If the reservation has expired, or was allowed by a failure policy because the store was
    /// unavailable, the actual cost is charged as it is. If it was settled or cancelled before,
    /// nothing changes, so a call that failed can be repeated. Does nothing if the reservation was denied, nor to
    /// shadow limits that would have denied it.
    ///
    /// An error means that the store is unavailable, and may or may not have charged the cost. Until
    /// the call succeeds, the estimate stays charged. Repeat it within 10 minutes: a store remembers
    /// for [that long](crate::store::SETTLED_FOR) what was settled.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use std::time::Duration;
    /// use tollgate::store::SettlementKind;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let tokens = Limit::sliding_log("tokens", 1_000, Duration::from_secs(60));
    /// let limiter = Limiter::in_memory([tokens])?;
    /// let reservation = limiter.reserve("tokens", "ann").cost(400).await?;
    ///
    /// assert_eq!(reservation.settle(1_300).await?, SettlementKind::Reserved);
    /// assert_eq!(reservation.settle(1_300).await?, SettlementKind::Repeated);
    /// // The key owes 300 tokens.
    /// assert!(!limiter.check("tokens", "ann").await?.is_allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn settle(&self, actual: u64) -> Result<SettlementKind, Error> {
        self.end(ReservationEnd::Settled, |index, demand| {
            if index < self.estimated {
                Settlement::new(demand, actual)
            } else {
                self.fixed(index, demand)
            }
        })
        .await
    }

    /// Returns everything, because the work was not done: permits, and the units of all limits.
    /// Can be repeated if it fails. If the reservation was settled before, nothing changes.
    pub async fn cancel(&self) -> Result<SettlementKind, Error> {
        self.end(ReservationEnd::Cancelled, |_, demand| {
            Settlement::new(demand, 0)
        })
        .await
    }

    /// Settles a limit without an estimate. A charge that a failure policy has decided stays in the
    /// local counters.
    fn fixed<'d>(&self, index: usize, demand: Demand<'d>) -> Settlement<'d> {
        let fixed = Settlement::fixed(demand);
        let is_fallback = self.decision.limits()[index].fallback().is_some();
        Settlement {
            late: if is_fallback { 0 } else { fixed.late },
            ..fixed
        }
    }

    /// Ends the reservation in every limit that was charged.
    async fn end<'d>(
        &'d self,
        end: ReservationEnd,
        settlement: impl Fn(usize, Demand<'d>) -> Settlement<'d>,
    ) -> Result<SettlementKind, Error> {
        if !self.is_allowed() {
            return Ok(SettlementKind::Unreserved);
        }

        let mut settlements: Vec<Settlement<'_>> = Vec::new();
        let outcomes = self.decision.limits().iter();
        for (index, (buf, outcome)) in self.demands.iter().zip(outcomes).enumerate() {
            let demand = buf.as_demand();
            if outcome.retry().is_some() {
                continue;
            }
            if outcome.fallback().is_some() && demand.needs_permit() {
                self.engine.local_fallback().release(&demand, self.id);
            } else {
                settlements.push(settlement(index, demand));
            }
        }
        let replies = self.engine.settle(&settlements, Ending::new(self.id, end));
        let reply = SettleReply::of_request(&settlements, &replies.await?);
        Ok(reply.map_or(SettlementKind::Unreserved, |reply| reply.kind))
    }
}
