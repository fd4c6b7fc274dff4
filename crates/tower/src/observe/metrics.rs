//! Metrics through the `metrics` facade, under the names that the Tollgate service uses too.

use tollgate::{Decision, LimitName, Limiter, Micros};

/// Whether decisions are recorded.
pub(crate) const ARE_RECORDED: bool = cfg!(feature = "metrics");

/// When a check starts. Without the feature `metrics` checks are not timed, and the clock is not
/// read.
pub(crate) fn start(limiter: &Limiter) -> Option<Micros> {
    ARE_RECORDED.then(|| limiter.clock().now())
}

/// Records the outcome of every limit, the duration of the decision and whether it is degraded.
pub(crate) fn record(limiter: &Limiter, decision: &Decision, started: Option<Micros>) {
    #[cfg(feature = "metrics")]
    if let Some(started) = started {
        let duration = limiter.clock().now().since(started);
        record_decision(decision, duration.into());
    }
}

/// Counts settlements that the store has not confirmed.
pub(crate) fn count_failed_settlements<'l>(limits: impl Iterator<Item = &'l LimitName>) {
    for limit in limits {
        let labels = [("limit", limit.to_string())];
        #[cfg(feature = "metrics")]
        metrics::counter!("tollgate_failed_settlements_total", &labels).increment(1);
        drop(labels);
    }
}

#[cfg(feature = "metrics")]
fn record_decision(decision: &Decision, duration: std::time::Duration) {
    use metrics::{counter, gauge, histogram};

    for limit in decision.limits() {
        let outcome = match (limit.retry(), limit.is_shadow()) {
            (None, _) => "allowed",
            (Some(_), false) => "denied",
            (Some(_), true) => "shadow_denied",
        };
        let labels = [
            ("limit", limit.name().to_owned()),
            ("outcome", outcome.into()),
            ("source", limit.source().as_str().into()),
        ];
        counter!("tollgate_decisions_total", &labels).increment(1);
    }

    histogram!("tollgate_decision_duration_seconds").record(duration);
    gauge!("tollgate_degraded").set(if decision.is_degraded() { 1.0 } else { 0.0 });
}
