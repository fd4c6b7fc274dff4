//! Reservations: an estimate is charged now, the actual cost when it is known.

use tollgate::store::{Intent, Settlement, SettlementKind};
use tollgate::{Demand, EncodedKey, Micros, PermitId, Quota, ReservationExpiry, Rule};
use tollgate_rules::{Attribute, Cost, RequestedLimit, Selection};

use super::actions::AppliedRequest;
use super::active::{ActiveConfig, DecideError};
use super::decide::GateDecision;
use super::denial::RequestOrigin;
use super::gate::Gate;
use super::permit::{PermitToken, PermitTokenError, TokenCounter, TokenKind};
use crate::metrics::ReservationResult;

/// What a reservation has really cost.
#[derive(Clone, Copy, Debug)]
pub struct SettledCost<'q> {
    /// The units of every limit whose cost is not fixed and that does not count tokens.
    pub units: Option<u64>,
    /// The numbers of tokens by their kind.
    pub tokens: &'q [(&'q str, u64)],
}

/// How a reservation was settled.
#[derive(Clone, Copy, Debug)]
pub struct GateSettlement {
    /// Whether the reservation was open.
    pub kind: SettlementKind,
    /// The largest number of units that a limit with an estimate was charged in all.
    pub charged: u64,
}

impl Gate {
    /// Charges the estimates of these demands until they are settled. `requested` has the limits
    /// that the request names.
    pub async fn reserve(
        &self,
        active: &ActiveConfig,
        demands: Selection<'_>,
        requested: &[RequestedLimit<'_>],
        ttl: Micros,
        origin: &RequestOrigin,
    ) -> Result<GateDecision, DecideError> {
        let demands = demands.into_iter();
        let (demands, fixed): (Selection<'_>, Vec<bool>) = demands
            .map(|demand| active.reserved(demand, requested))
            .unzip();
        let intent = Intent::Reserve { ttl };
        let Some(table) = active.actions.touching(&demands) else {
            let decision = self.spend_asked(active, &demands, intent, origin).await?;
            return Ok(active.with_reservation(decision, &demands, &fixed));
        };

        let applied = AppliedRequest::new(&table, &demands, intent, active.now());
        let spent = self
            .spend_applied(active, &demands, &applied, origin)
            .await?;
        Ok(active.with_reservation(spent, &applied.asked(), &applied.asked_of(&fixed)))
    }

    /// Reads the token of a reservation.
    pub fn open_reservation(&self, token: &str) -> Result<PermitToken, PermitTokenError> {
        self.active().permits.open(TokenKind::Reservation, token)
    }

    /// Applies the actual cost of a reservation, always all of it. `None` returns everything.
    pub async fn settle(
        &self,
        reservation: &PermitToken,
        actual: Option<SettledCost<'_>>,
    ) -> Result<GateSettlement, DecideError> {
        let active = self.active();
        let mut rules: Vec<Rule> = Vec::with_capacity(reservation.counters.len());
        for counter in &reservation.counters {
            rules.push(active.rule_from_text(&counter.limit)?);
        }

        let rows = rules.iter().zip(&reservation.counters);
        let demands: Vec<Demand<'_, EncodedKey>> = rows
            .map(|(rule, counter)| Demand::new(rule, counter.key.clone()).with_cost(counter.units))
            .collect();
        let mut charged = 0;
        let mut settlements = Vec::with_capacity(demands.len());
        for (demand, counter) in demands.iter().zip(&reservation.counters) {
            // A fixed cost stays charged even if the reservation has expired, so it is not charged
            // again.
            let is_permit = matches!(demand.quota(), Quota::Concurrency(_));
            let is_kept = demand.limit.on_reservation_expiry() == ReservationExpiry::Keep;
            if actual.is_some() && counter.is_fixed && is_kept && !is_permit {
                continue;
            }
            let units = actual.map_or(0, |actual| active.actual_units(demand, counter, actual));
            if !counter.is_fixed {
                charged = units.max(charged);
            }
            settlements.push(Settlement {
                demand: demand.as_demand(),
                actual: units,
            });
        }

        let limiter = &active.limiter;
        let kind = limiter.settle_request(&settlements, reservation.id).await?;
        let result = match kind {
            SettlementKind::Reserved if actual.is_some() => Some(ReservationResult::Settled),
            SettlementKind::Reserved => Some(ReservationResult::Cancelled),
            SettlementKind::Unreserved => Some(ReservationResult::Unknown),
            // It was counted the first time.
            _ => None,
        };
        if let Some(result) = result {
            active.count_reservation(rules.iter(), result);
        }
        Ok(GateSettlement { kind, charged })
    }
}

impl ActiveConfig {
    /// A demand as it is reserved, and whether its cost is fixed: permits and constant costs of the
    /// file are, and costs that the request states for one limit.
    fn reserved<'r>(
        &self,
        demand: Demand<'r, EncodedKey>,
        requested: &[RequestedLimit<'_>],
    ) -> (Demand<'r, EncodedKey>, bool) {
        let name = demand.limit.name().as_str();
        let has_own_cost = |limit: &RequestedLimit<'_>| limit.name == name && limit.cost.is_some();
        if requested.iter().any(has_own_cost) {
            return (demand.reserved(), true);
        }

        let constant = self.cost_of(name).filter(|cost| cost.is_constant());
        let is_permit = matches!(demand.quota(), Quota::Concurrency(_));
        match constant {
            Some(cost) => (demand.with_cost(cost.default), true),
            None if is_permit => (demand.with_cost(1), true),
            None => (demand.reserved(), false),
        }
    }

    /// The same demand with the constant cost of the file, if its limit has one.
    pub fn with_constant_cost<'r>(&self, demand: Demand<'r, EncodedKey>) -> Demand<'r, EncodedKey> {
        let cost = self.cost_of(demand.limit.name().as_str());
        match cost.filter(|cost| cost.is_constant()) {
            Some(cost) => demand.with_cost(cost.default),
            None => demand,
        }
    }

    /// The cost that the file gives a limit.
    fn cost_of(&self, limit: &str) -> Option<&Cost> {
        self.selector.limit(limit).ok()?.cost.as_ref()
    }

    /// The same decision with the token of the reservation, if it reserves anything.
    fn with_reservation(
        &self,
        mut decision: GateDecision,
        demands: &[Demand<'_, EncodedKey>],
        fixed: &[bool],
    ) -> GateDecision {
        let id = decision.decision.permit_id();
        decision.reservation = id.filter(|_| !demands.is_empty()).map(|id| {
            let token = self.reservation_token(id, demands, fixed);
            self.permits.seal(&token)
        });
        if decision.reservation.is_some() {
            let limits = demands.iter().map(|demand| demand.limit);
            self.count_reservation(limits, ReservationResult::Reserved);
        }
        decision
    }

    fn reservation_token(
        &self,
        id: PermitId,
        demands: &[Demand<'_, EncodedKey>],
        fixed: &[bool],
    ) -> PermitToken {
        let counters = demands
            .iter()
            .zip(fixed)
            .map(|(demand, is_fixed)| TokenCounter {
                limit: self.demand_text(demand),
                key: demand.key.clone(),
                units: demand.cost,
                is_fixed: *is_fixed,
            });
        PermitToken {
            kind: TokenKind::Reservation,
            id,
            counters: counters.collect(),
        }
    }

    /// What a demand of a reservation has really cost. A limit about which nothing is said keeps
    /// what was reserved.
    fn actual_units(
        &self,
        demand: &Demand<'_, EncodedKey>,
        counter: &TokenCounter,
        actual: SettledCost<'_>,
    ) -> u64 {
        if counter.is_fixed {
            return counter.units;
        }
        let tokens = |attribute: &Attribute| {
            let kind = attribute.name().strip_prefix("tokens.")?;
            let mut counts = actual.tokens.iter();
            counts
                .find(|(name, _)| *name == kind)
                .map(|(_, count)| *count)
        };
        let weighed = self
            .cost_of(demand.limit.name().as_str())
            .and_then(|cost| cost.weigh(tokens));
        weighed.or(actual.units).unwrap_or(counter.units)
    }
}
