//! Decides requests: selects their limits, applies the actions on them, spends, and counts.

use tollgate::store::Intent;
use tollgate::{Decision, Demand, EncodedKey, Micros, Rule};
use tollgate_http::CounterBody;
use tollgate_rules::{Attributes, MissingKeyPolicy, RequestedLimit, SelectError, Selection};

use super::actions::{ActionTable, AppliedRequest, BlockStatus};
use super::active::{ActiveConfig, DecideError};
use super::denial::{Denial, RequestOrigin};
use super::gate::Gate;
use super::permit::PermitToken;
use crate::trace;

/// What a request asks for in addition to its attributes.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions<'q> {
    /// The limits to check; none checks every limit whose conditions match.
    pub limits: Option<&'q [RequestedLimit<'q>]>,
    /// Units the request costs; none uses the cost that each limit configures.
    pub cost: Option<u64>,
    /// Whether the request is charged or only peeks.
    pub intent: Intent,
    /// Where the request came from.
    pub origin: &'q RequestOrigin,
}

/// A decision, with the permit to release when the work is done.
#[derive(Debug)]
pub struct GateDecision {
    /// The outcome of each limit, and which one decided.
    pub decision: Decision,
    /// The text of a token. Present when the request was allowed and acquired a permit of a
    /// concurrency limit.
    pub permit: Option<String>,
    /// The text of a token. Present when the request was allowed and reserves what it charged.
    pub reservation: Option<String>,
    /// Why a token that the decision should have is missing.
    pub warning: Option<&'static str>,
    /// What the counters of an inspection contain, in the order of the limits. Empty while the
    /// store is unavailable.
    pub counters: Vec<CounterBody>,
    /// The status of a denial because an operator has blocked a key.
    pub block: Option<BlockStatus>,
}

/// A decision and nothing else.
impl From<Decision> for GateDecision {
    fn from(decision: Decision) -> Self {
        Self {
            decision,
            permit: None,
            reservation: None,
            warning: None,
            counters: Vec::new(),
            block: None,
        }
    }
}

impl Gate {
    /// Selects the limits that apply to the request and decides by them.
    pub async fn decide(
        &self,
        active: &ActiveConfig,
        attributes: &(impl Attributes + Sync),
        options: CheckOptions<'_>,
    ) -> Result<GateDecision, DecideError> {
        let inline = active.inline_rules(options)?;
        let demands = self.select(active, attributes, &inline, options)?;
        self.spend(active, &demands, options.intent, options.origin)
            .await
    }

    /// Selects the limits that apply to a request, and counts what cannot be selected. `inline` has
    /// the rules that the request brings along.
    pub(super) fn select<'r>(
        &self,
        active: &'r ActiveConfig,
        attributes: &impl Attributes,
        inline: &'r [Rule],
        options: CheckOptions<'_>,
    ) -> Result<Selection<'r>, DecideError> {
        let CheckOptions { limits, cost, .. } = options;
        let selector = &active.selector;
        let count_refusal = |error: &SelectError| self.metrics().count_refusal(error);
        let count_skip = |index: usize| {
            if options.intent.is_charge() {
                active.metrics[index].count_skip();
            }
        };
        if let Some(limits) = limits {
            let selected = selector.select_requested(limits, inline, attributes, cost, count_skip);
            return Ok(selected.inspect_err(count_refusal)?);
        }

        // Filled in place: moving the demands would take as long as finding them.
        let mut selection = Selection::new();
        let on_missing = MissingKeyPolicy::Error;
        let selected =
            selector.for_each_selected(attributes, cost, on_missing, |index, demands| {
                if demands.is_empty() {
                    count_skip(index);
                }
                selection.extend(demands);
            });
        selected.inspect_err(count_refusal)?;
        Ok(selection)
    }

    /// Decides by these demands, all or none, if that needs no waiting, and returns what `read`
    /// takes of the decision and of the status of a block. Otherwise, and if a limit hands out
    /// permits, returns none and has charged nothing.
    // The decision is read where it is built: moving it would take as long as spending.
    #[inline]
    pub fn try_decide<T>(
        &self,
        active: &ActiveConfig,
        demands: &[Demand<'_, EncodedKey>],
        read: impl FnOnce(&Decision, Option<BlockStatus>) -> T,
    ) -> Result<Option<T>, DecideError> {
        if demands.iter().any(Demand::needs_permit) {
            return Ok(None);
        }

        let read = |decision: &Decision, block| {
            for (demand, outcome) in demands.iter().zip(decision.limits()) {
                if let Some(metrics) = active.metrics_of(demand.limit) {
                    metrics.count(outcome);
                }
            }
            Some(read(decision, block))
        };
        if let Some(table) = active.actions.touching(demands) {
            let decided = try_applied(active, &table, demands)?;
            return Ok(decided.and_then(|decided| read(&decided.decision, decided.block)));
        }
        match active.limiter.request(demands, Intent::Spend).try_now() {
            Ok(ref decision) => Ok(read(decision, None)),
            Err(tollgate::Error::WouldBlock) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Decides by these demands: all of them are charged, or none.
    pub async fn spend(
        &self,
        active: &ActiveConfig,
        demands: &[Demand<'_, EncodedKey>],
        intent: Intent,
        origin: &RequestOrigin,
    ) -> Result<GateDecision, DecideError> {
        match active.actions.touching(demands) {
            None => self.spend_asked(active, demands, intent, origin).await,
            // Boxed, to keep the future of a request without actions small.
            Some(table) => {
                let applied = AppliedRequest::new(&table, demands, intent, active.now());
                Box::pin(self.spend_applied(active, demands, &applied, origin)).await
            }
        }
    }

    /// Decides by demands on which there is no action.
    pub(super) async fn spend_asked(
        &self,
        active: &ActiveConfig,
        demands: &[Demand<'_, EncodedKey>],
        intent: Intent,
        origin: &RequestOrigin,
    ) -> Result<GateDecision, DecideError> {
        let started_at = self.now();
        let decision = active.limiter.request(demands, intent).await?;
        self.observe(active, demands, &decision, intent, origin, started_at);
        Ok(self.with_permit(active, decision.into(), demands, intent))
    }

    /// Decides by demands to which actions were applied.
    pub(super) async fn spend_applied(
        &self,
        active: &ActiveConfig,
        demands: &[Demand<'_, EncodedKey>],
        applied: &AppliedRequest<'_>,
        origin: &RequestOrigin,
    ) -> Result<GateDecision, DecideError> {
        let started_at = self.now();
        let (asked, intent) = (applied.asked(), applied.intent());
        let answer = match asked.as_slice() {
            [] => None,
            asked => Some(active.limiter.request(asked, intent).await?),
        };
        let decision = applied.decision(answer.as_ref());
        self.observe(active, demands, &decision, intent, origin, started_at);
        let decided = GateDecision {
            block: applied.block_status(),
            ..decision.into()
        };
        Ok(self.with_permit(active, decided, &asked, intent))
    }

    /// The same decision with the token of its permit, if it has one.
    fn with_permit(
        &self,
        active: &ActiveConfig,
        mut decided: GateDecision,
        demands: &[Demand<'_, EncodedKey>],
        intent: Intent,
    ) -> GateDecision {
        let permit_id = decided.decision.permit_id();
        if let Some(id) = permit_id.filter(|_| !intent.is_reserve()) {
            let token = PermitToken::new(id, demands, |rule| active.limit_text(rule));
            self.hand_out(active, &mut decided, &token);
        }
        decided
    }

    /// Traces a decision, and counts it if it is one about a charge.
    fn observe(
        &self,
        active: &ActiveConfig,
        demands: &[Demand<'_, EncodedKey>],
        decision: &Decision,
        intent: Intent,
        origin: &RequestOrigin,
        started_at: Micros,
    ) {
        trace::record_decision(decision);
        if intent.is_charge() {
            let now = self.now();
            self.metrics().observe_decision(now.since(started_at));
            self.count(active, demands, decision, origin, now);
        }
    }

    /// Counts a decision: the outcome of each limit, the keys, and the denials.
    pub fn count(
        &self,
        active: &ActiveConfig,
        demands: &[Demand<'_, EncodedKey>],
        decision: &Decision,
        origin: &RequestOrigin,
        now: Micros,
    ) {
        let is_allowed = decision.is_allowed();
        let is_recorded = active.config.audit_log.is_some() && !is_allowed;
        let observer = self.observer.get().filter(|_| is_recorded);

        for (demand, outcome) in demands.iter().zip(decision.limits()) {
            if let Some(metrics) = active.metrics_of(demand.limit) {
                metrics.count(outcome);
                metrics.record_key(demand, outcome, is_allowed, now);
                if let Some(alert) = &active.usage {
                    alert.record(metrics, &demand.key, outcome, now);
                }
            }
            if let Some(observer) = observer
                && outcome.is_enforced_denial()
            {
                observer.denied(&Denial {
                    active,
                    demand,
                    outcome,
                    origin,
                    now,
                });
            }
        }
    }
}

impl ActiveConfig {
    /// The rules of the limits that a request brings along.
    pub(super) fn inline_rules(&self, options: CheckOptions<'_>) -> Result<Vec<Rule>, DecideError> {
        let limits = options.limits.unwrap_or_default();
        let config = &self.config.inline_limits;
        Ok(self.inline.read(config, &self.selector, limits)?)
    }
}

/// Decides by demands on which there are actions, if that needs no waiting.
#[cold]
fn try_applied(
    active: &ActiveConfig,
    table: &ActionTable,
    demands: &[Demand<'_, EncodedKey>],
) -> Result<Option<GateDecision>, DecideError> {
    let applied = AppliedRequest::new(table, demands, Intent::Spend, active.now());
    let asked = applied.asked();
    let answer = match asked.as_slice() {
        [] => None,
        asked => match active.limiter.request(asked, Intent::Spend).try_now() {
            Err(tollgate::Error::WouldBlock) => return Ok(None),
            decision => Some(decision?),
        },
    };

    Ok(Some(GateDecision {
        block: applied.block_status(),
        ..applied.decision(answer.as_ref()).into()
    }))
}
