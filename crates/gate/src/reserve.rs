//! Reservations: an estimate is charged now, the actual cost when it is known.

use std::convert::Infallible;

use tollgate::store::{Ending, Intent, ReservationEnd, SettleReply, Settlement, SettlementKind};
use tollgate::{Demand, EncodedKey, Micros, PermitId, Quota, Rule};
use tollgate_rules::{Attribute, Cost, RequestedLimit, SelectError, Selection, validate_cost};

use super::actions::AppliedRequest;
use super::active::{ActiveConfig, DecideError};
use super::decide::GateDecision;
use super::denial::RequestOrigin;
use super::gate::Gate;
use super::permit::{PermitToken, TokenCounter, TokenKind};
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
    /// How the reservation has ended, now or before.
    pub end: ReservationEnd,
    /// The largest number of units that a limit with an estimate was charged in all, as far as its
    /// counter may owe them.
    pub charged: u64,
    /// Why the actual cost changed nothing, if no limit could take it. Plain text without quotes.
    pub warning: Option<&'static str>,
}

impl GateSettlement {
    /// What became of the reservation before, as answers say it.
    pub const fn reservation(&self) -> &'static str {
        match (self.kind, self.end) {
            (SettlementKind::Reserved, _) => "open",
            (SettlementKind::Repeated, ReservationEnd::Settled) => "settled",
            (SettlementKind::Repeated, ReservationEnd::Cancelled) => "cancelled",
            _ => "unknown",
        }
    }
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
            return Ok(self.with_reservation(active, decision, &demands, &fixed));
        };

        let applied = AppliedRequest::new(&table, &demands, intent, active.now());
        let spent = self
            .spend_applied(active, &demands, &applied, origin)
            .await?;
        let (demands, fixed) = (applied.asked(), applied.asked_of(&fixed));
        Ok(self.with_reservation(active, spent, &demands, &fixed))
    }

    /// The same decision with the token of the reservation, if it reserves anything.
    fn with_reservation(
        &self,
        active: &ActiveConfig,
        mut decided: GateDecision,
        demands: &[Demand<'_, EncodedKey>],
        fixed: &[bool],
    ) -> GateDecision {
        let id = decided.decision.permit_id();
        if let Some(id) = id.filter(|_| !demands.is_empty()) {
            let limits = demands.iter().map(|demand| demand.limit);
            active.count_reservation(limits, ReservationResult::Reserved);
            let token = active.reservation_token(id, demands, fixed);
            self.hand_out(active, &mut decided, &token);
        }
        decided
    }

    /// Applies the actual cost of a reservation, always all of it. `None` returns everything.
    pub async fn settle(
        &self,
        reservation: &PermitToken,
        actual: Option<SettledCost<'_>>,
    ) -> Result<GateSettlement, DecideError> {
        let active = self.active();
        validate_cost(actual.and_then(|actual| actual.units))?;
        let warning = active.settle_warning(reservation, actual);
        let mut rules: Vec<Rule> = Vec::with_capacity(reservation.counters.len());
        for counter in &reservation.counters {
            rules.push(active.rule_from_text(&counter.limit)?);
        }

        let rows = rules.iter().zip(&reservation.counters);
        let demands: Vec<Demand<'_, EncodedKey>> = rows
            .map(|(rule, counter)| Demand::new(rule, counter.key.clone()).with_cost(counter.units))
            .collect();
        let rows = demands.iter().zip(&reservation.counters);
        let settlements: Result<Vec<Settlement<'_>>, SelectError> = rows
            .map(|(demand, counter)| match actual {
                None => Ok(Settlement::new(demand.as_demand(), 0)),
                Some(_) if counter.is_fixed => Ok(Settlement::fixed(demand.as_demand())),
                Some(actual) => {
                    let units = active.actual_units(counter, demand.limit, actual)?;
                    Ok(Settlement::new(demand.as_demand(), units))
                }
            })
            .collect();
        let settlements = settlements?;
        let end = match actual {
            Some(_) => ReservationEnd::Settled,
            None => ReservationEnd::Cancelled,
        };

        let ending = Ending::new(reservation.id, end);
        let replies = active.limiter.settle_request(&settlements, ending).await?;
        let deciding = SettleReply::of_request(&settlements, &replies);
        let kind = deciding.map_or(SettlementKind::Unreserved, |reply| reply.kind);
        let estimated = replies.iter().zip(&reservation.counters);
        let estimated = estimated.filter(|(_, counter)| !counter.is_fixed);
        let charged = estimated.map(|(reply, _)| reply.charged).max();
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
        Ok(GateSettlement {
            kind,
            end: deciding.map_or(end, |reply| reply.end),
            charged: charged.unwrap_or(0),
            warning,
        })
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

    /// Whether numbers of tokens decide the cost in one of these limits.
    pub(super) fn counts_tokens(&self, demands: &[Demand<'_, EncodedKey>]) -> bool {
        let mut costs = demands
            .iter()
            .filter_map(|demand| self.cost_of(demand.limit.name().as_str()));
        costs.any(Cost::counts_tokens)
    }

    /// The cost that the file gives a limit.
    fn cost_of(&self, limit: &str) -> Option<&Cost> {
        self.selector.limit(limit).ok()?.cost.as_ref()
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

    /// What a counter of a reservation has really cost. A limit about which nothing is said keeps
    /// what was reserved.
    fn actual_units(
        &self,
        counter: &TokenCounter,
        limit: &Rule,
        actual: SettledCost<'_>,
    ) -> Result<u64, SelectError> {
        let stated = self.stated_units(counter, limit.name(), actual);
        validate_cost(stated)?;
        Ok(stated.unwrap_or(counter.units))
    }

    /// What is said about the cost in a limit; none if its cost is fixed or nothing is said.
    fn stated_units(
        &self,
        counter: &TokenCounter,
        limit: &str,
        actual: SettledCost<'_>,
    ) -> Option<u64> {
        if counter.is_fixed {
            return None;
        }
        let tokens = |attribute: &Attribute| {
            let kind = attribute.name().strip_prefix("tokens.");
            let mut counts = actual.tokens.iter();
            let found = counts.find(|(name, _)| Some(*name) == kind);
            Ok::<_, Infallible>(found.map(|(_, count)| *count))
        };
        let tallied = self.cost_of(limit).and_then(|cost| {
            let Ok(measured) = cost.measure(tokens);
            measured
        });
        tallied.or(actual.units)
    }

    /// Why an actual cost changes nothing; none if it does.
    fn settle_warning(
        &self,
        reservation: &PermitToken,
        actual: Option<SettledCost<'_>>,
    ) -> Option<&'static str> {
        let (actual, counters) = (actual?, &reservation.counters);
        let is_stated = |counter: &TokenCounter| {
            let rule = self.rule_from_text(&counter.limit).ok();
            rule.is_some_and(|rule| self.stated_units(counter, rule.name(), actual).is_some())
        };
        if counters.iter().all(|counter| counter.is_fixed) {
            Some(
                "all costs of this reservation were fixed when it was made, so the actual cost \
                 changed nothing",
            )
        } else if counters.iter().any(is_stated) {
            None
        } else {
            Some(
                "no limit of this reservation counts these tokens, so the estimate stays charged; \
                 settle with `actual`",
            )
        }
    }
}
