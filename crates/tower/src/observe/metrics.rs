//! Metrics through the `metrics` facade, under the names that the Tollgate service uses too.

use metrics::{counter, gauge, histogram};
use tollgate::{Decision, Micros};

/// Records the outcome of every limit, the duration of the decision and whether it is degraded.
pub(super) fn record(decision: &Decision, duration: Micros) {
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

    histogram!("tollgate_decision_duration_seconds").record(std::time::Duration::from(duration));
    gauge!("tollgate_degraded").set(if decision.is_degraded() { 1.0 } else { 0.0 });
}
