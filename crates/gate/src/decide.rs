//! The gate: every decision of the service, and what is counted of it.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use tollgate::store::Intent;
use tollgate::{Clock, Decision, Demand, EncodedKey, LimitOutcome, Micros, SystemClock};
use tollgate_rules::{Attributes, Config};

use super::actions::{ActionLog, ActionTable, AppliedRequest, BlockStatus};
use super::active::{ActiveConfig, DecideError};
use super::denial::{Denial, DenialObserver, RequestOrigin};
use super::permit::{PermitToken, PermitTokenError, TokenKind};
use super::select::CheckOptions;
use super::store::StoreOpenError;
use crate::metrics::Metrics;
use crate::trace;

/// Decides requests by the active configuration, and counts what it decides.
#[derive(Debug)]
pub struct Gate {
    active: ArcSwap<ActiveConfig>,
    pub(super) action_log: ActionLog,
    metrics: Arc<Metrics>,
    /// For durations, and for header fields that name a time.
    clock: Arc<dyn Clock>,
    /// Who keeps a record of denials, if denials are recorded.
    observer: OnceLock<Arc<dyn DenialObserver>>,
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
    /// The status of a denial because an operator has blocked a key.
    pub block: Option<BlockStatus>,
}

/// A decision without a permit, a reservation and a block.
impl From<Decision> for GateDecision {
    fn from(decision: Decision) -> Self {
        Self {
            decision,
            permit: None,
            reservation: None,
            block: None,
        }
    }
}

impl Gate {
    /// Opens the store that the configuration describes. Must be called inside a Tokio runtime.
    pub fn open(config: Config, metrics: Arc<Metrics>) -> Result<Self, StoreOpenError> {
        let active = ActiveConfig::open(config, &metrics)?;
        Ok(Self {
            active: ArcSwap::from_pointee(active),
            action_log: ActionLog::default(),
            metrics,
            clock: Arc::new(SystemClock::new()),
            observer: OnceLock::new(),
        })
    }

    /// A gate that decides in memory, by a clock that a test controls.
    pub fn with_clock(clock: &tollgate::ManualClock, config: Config) -> Self {
        let metrics = Arc::new(Metrics::default());
        let active = ActiveConfig::with_clock(clock, config, &metrics);
        Self {
            active: ArcSwap::from_pointee(active),
            action_log: ActionLog::default(),
            metrics,
            clock: Arc::new(clock.clone()),
            observer: OnceLock::new(),
        }
    }

    /// The active configuration.
    pub fn active(&self) -> Arc<ActiveConfig> {
        self.active.load_full()
    }

    /// True when requests must bring a token.
    pub fn requires_token(&self) -> bool {
        self.active.load().requires_token()
    }

    /// Activates another configuration. Limits that are in both keep their counts. Requests in
    /// flight finish with the old configuration.
    pub fn replace(&self, config: Config) -> Result<(), StoreOpenError> {
        let current = self.active.load();
        let next = current.reconfigured(config, &self.metrics)?;
        current.forget_changed_keys(&next);
        self.active.store(Arc::new(next));
        self.rebuild_actions();
        Ok(())
    }

    /// What is counted of the decisions.
    pub const fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The time since the UNIX epoch.
    pub fn now(&self) -> Micros {
        self.clock.now()
    }

    /// Selects the limits that apply to the request and decides by them.
    pub async fn decide(
        &self,
        active: &ActiveConfig,
        attributes: &(impl Attributes + Sync),
        options: CheckOptions<'_>,
    ) -> Result<GateDecision, DecideError> {
        let inline = active.inline_rules(options)?;
        let demands = active.select(attributes, &inline, options);
        let demands = demands.inspect_err(|error| self.metrics.count_refusal(error))?;
        self.spend_from(active, &demands, options.intent, options.origin)
            .await
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
            active.count(demands, decision);
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
    ) -> Result<GateDecision, DecideError> {
        self.spend_from(active, demands, intent, RequestOrigin::UNKNOWN)
            .await
    }

    /// The same for a request whose origin is known.
    pub async fn spend_from(
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
        let started_at = self.clock.now();
        let decision = active.limiter.request(demands, intent).await?;
        self.observe(active, demands, &decision, intent, origin, started_at);
        Ok(GateDecision {
            permit: active.permit_token(&decision, demands, intent),
            ..decision.into()
        })
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
            let now = self.clock.now();
            self.metrics.observe_decision(now.since(started_at));
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
        active.count(demands, decision);
        active.record_keys(demands, decision, now);
        active.record_usage(demands, decision, now);
        if active.config.audit_log.is_none() || decision.is_allowed() {
            return;
        }

        let Some(observer) = self.observer.get() else {
            return;
        };
        let outcomes = demands.iter().zip(decision.limits());
        for (demand, outcome) in outcomes.filter(|(_, outcome)| is_denial(outcome)) {
            observer.denied(&Denial {
                active,
                demand,
                outcome,
                origin,
                now,
            });
        }
    }

    /// Records denials from now on. Only the first observer is kept.
    pub fn observe_denials(&self, observer: Arc<dyn DenialObserver>) {
        let _ = self.observer.set(observer);
    }

    /// Decides by demands to which actions were applied.
    pub(super) async fn spend_applied(
        &self,
        active: &ActiveConfig,
        demands: &[Demand<'_, EncodedKey>],
        applied: &AppliedRequest<'_>,
        origin: &RequestOrigin,
    ) -> Result<GateDecision, DecideError> {
        let started_at = self.clock.now();
        let (asked, intent) = (applied.asked(), applied.intent());
        let answer = match asked.as_slice() {
            [] => None,
            asked => Some(active.limiter.request(asked, intent).await?),
        };
        let decision = applied.decision(answer.as_ref());
        self.observe(active, demands, &decision, intent, origin, started_at);
        Ok(GateDecision {
            permit: active.permit_token(&decision, &asked, intent),
            block: applied.block_status(),
            ..decision.into()
        })
    }

    /// Reads the token of a permit.
    pub fn open_permit(&self, token: &str) -> Result<PermitToken, PermitTokenError> {
        self.active().permits.open(TokenKind::Permit, token)
    }

    /// Releases a permit. Returns false if it was already released or had timed out.
    pub async fn release(&self, permit: &PermitToken) -> Result<bool, DecideError> {
        let active = self.active();

        let mut was_held = false;
        for counter in &permit.counters {
            let rule = active.rule_from_text(&counter.limit)?;
            let limit = active.limiter.with_rule(&rule);
            was_held |= limit.release(&counter.key, permit.id).await?;
        }
        Ok(was_held)
    }
}

/// True for an outcome that denied the request. A shadow limit denies none.
fn is_denial(outcome: &LimitOutcome) -> bool {
    outcome.retry().is_some() && !outcome.is_shadow()
}

impl ActiveConfig {
    /// The text of the token with which the permit of a decision is released.
    fn permit_token(
        &self,
        decision: &Decision,
        demands: &[Demand<'_, EncodedKey>],
        intent: Intent,
    ) -> Option<String> {
        let permit_id = decision.permit_id().filter(|_| !intent.is_reserve());
        permit_id.map(|permit_id| {
            let token = PermitToken::new(permit_id, demands, |rule| self.limit_text(rule));
            self.permits.seal(&token)
        })
    }
}

/// Decides if that needs no waiting.
#[inline]
fn try_now(
    active: &ActiveConfig,
    demands: &[Demand<'_, EncodedKey>],
) -> Result<Option<Decision>, DecideError> {
    match active.limiter.request(demands, Intent::Spend).try_now() {
        Err(tollgate::Error::WouldBlock) => Ok(None),
        decision => Ok(Some(decision?)),
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
        asked => match try_now(active, asked)? {
            None => return Ok(None),
            answer => answer,
        },
    };

    Ok(Some(GateDecision {
        block: applied.block_status(),
        ..applied.decision(answer.as_ref()).into()
    }))
}
