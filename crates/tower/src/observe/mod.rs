//! Observability: hooks, log events, metrics and warnings about decisions.

#[cfg(feature = "metrics")]
mod metrics;
mod monitor;
mod warning;

use std::fmt;
use std::sync::Arc;

use tollgate::{Decision, LimitOutcome, Micros};

pub(crate) use self::monitor::LayerMonitor;
pub(crate) use self::warning::Warning;
use crate::policy::LayerPolicy;
use crate::request_head::RequestHead;

/// A function of the application that is called with a decision.
pub(crate) type DecisionHook = Arc<dyn Fn(&RequestHead<'_>, &Decision) + Send + Sync>;

/// The hooks of a layer, by the decisions for which they are called.
#[derive(Clone, Default)]
pub(crate) struct DecisionHooks {
    pub(crate) allowed: Vec<DecisionHook>,
    pub(crate) denied: Vec<DecisionHook>,
    /// Called in addition to those for the verdict.
    pub(crate) degraded: Vec<DecisionHook>,
}

impl LayerPolicy {
    /// The current time, if decisions are timed. Without the feature `metrics` they are not, and
    /// the clock is not read.
    pub(crate) fn started(&self) -> Option<Micros> {
        cfg!(feature = "metrics").then(|| self.limiter.clock().now())
    }

    /// Calls the hooks, logs a decision and records its metrics. `started` is when the check
    /// started.
    pub(crate) fn observe(
        &self,
        head: &RequestHead<'_>,
        decision: &Decision,
        started: Option<Micros>,
    ) {
        let hooks = if decision.is_allowed() {
            &self.hooks.allowed
        } else {
            &self.hooks.denied
        };
        hooks.iter().for_each(|hook| hook(head, decision));
        if decision.is_degraded() {
            let hooks = &self.hooks.degraded;
            hooks.iter().for_each(|hook| hook(head, decision));
        }

        self.monitor.track_degradation(decision);
        log_decision(decision);
        self.record_metrics(decision, started);
    }

    #[cfg(feature = "metrics")]
    fn record_metrics(&self, decision: &Decision, started: Option<Micros>) {
        let now = self.limiter.clock().now();
        metrics::record(decision, now.since(started.unwrap_or(now)));
    }

    #[cfg(not(feature = "metrics"))]
    #[expect(
        clippy::unused_self,
        reason = "the signature is that of the version with metrics"
    )]
    const fn record_metrics(&self, _: &Decision, _: Option<Micros>) {}
}

/// Logs a decision at a low level, because a client over its limit causes many denials.
fn log_decision(decision: &Decision) {
    let source = decision.source().as_str();
    match decision.denied_by() {
        None => tracing::trace!(source, remaining = decision.remaining(), "request allowed"),
        Some(limit) => tracing::debug!(
            limit = limit.name(),
            source,
            retry_after_ms = decision.retry_after().map(|delay| delay.as_millis()),
            "request denied"
        ),
    }

    let limits = decision.limits().iter();
    for limit in limits.filter(|limit| is_shadow_denial(limit)) {
        tracing::debug!(
            limit = limit.name(),
            source,
            "shadow limit would have denied the request"
        );
    }
}

fn is_shadow_denial(limit: &LimitOutcome) -> bool {
    limit.is_shadow() && limit.retry().is_some()
}

impl fmt::Debug for DecisionHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecisionHooks")
            .field("allowed", &self.allowed.len())
            .field("denied", &self.denied.len())
            .field("degraded", &self.degraded.len())
            .finish()
    }
}
