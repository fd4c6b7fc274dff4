//! What others want to know of decisions: events, hooks, metrics and warnings.

#[cfg(feature = "metrics")]
mod metrics;
mod warning;
mod watch;

use std::fmt;
use std::sync::Arc;

use tollgate::{Decision, LimitOutcome, Micros};

pub(crate) use self::warning::Warning;
pub(crate) use self::watch::Watch;
use crate::head::Head;
use crate::plan::Plan;

/// A function that is told of a decision.
pub(crate) type Hook = Arc<dyn Fn(&Head<'_>, &Decision) + Send + Sync>;

/// Who is told of what.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) allowed: Vec<Hook>,
    pub(crate) denied: Vec<Hook>,
    pub(crate) degraded: Vec<Hook>,
}

impl Plan {
    /// When a decision begins, if anybody measures how long it takes.
    pub(crate) fn began(&self) -> Option<Micros> {
        cfg!(feature = "metrics").then(|| self.limiter.clock().now())
    }

    /// Tells everyone of a decision.
    pub(crate) fn tell(&self, head: &Head<'_>, decision: &Decision, began: Option<Micros>) {
        let Hooks {
            allowed,
            denied,
            degraded,
        } = &self.hooks;
        let hooks = if decision.is_allowed() {
            allowed
        } else {
            denied
        };
        hooks.iter().for_each(|hook| hook(head, decision));
        if decision.is_degraded() {
            degraded.iter().for_each(|hook| hook(head, decision));
        }
        self.watch.decided(decision);
        event(decision);
        self.count(decision, began);
    }

    #[cfg(feature = "metrics")]
    fn count(&self, decision: &Decision, began: Option<Micros>) {
        let now = self.limiter.clock().now();
        metrics::count(decision, now.since(began.unwrap_or(now)));
    }

    #[cfg(not(feature = "metrics"))]
    #[expect(
        clippy::unused_self,
        reason = "it counts something where metrics are wanted"
    )]
    const fn count(&self, _: &Decision, _: Option<Micros>) {}
}

/// Denials are for those who look for them: somebody who is limited makes many.
fn event(decision: &Decision) {
    let source = decision.source().as_str();
    match decision.denied_by() {
        None => tracing::trace!(
            source,
            remaining = decision.remaining(),
            "a request passes its limits"
        ),
        Some(limit) => tracing::debug!(
            limit = limit.name(),
            source,
            retry_after_ms = decision.retry_after().map(|length| length.as_millis()),
            "a request is limited"
        ),
    }
    for limit in decision
        .limits()
        .iter()
        .filter(|limit| is_shadow_denial(limit))
    {
        tracing::debug!(
            limit = limit.name(),
            source,
            "a shadow limit would have refused a request"
        );
    }
}

fn is_shadow_denial(limit: &LimitOutcome) -> bool {
    limit.is_shadow() && limit.retry().is_some()
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            allowed,
            denied,
            degraded,
        } = self;
        write!(
            f,
            "Hooks({} on allowed, {} on denied, {} on degraded)",
            allowed.len(),
            denied.len(),
            degraded.len()
        )
    }
}
