//! Decisions counted through the `metrics` facade, under the names that the service uses too.

use metrics::{counter, gauge, histogram};
use tollgate::{Decision, Micros};

/// Counts what every limit said, and how long it took.
pub(super) fn count(decision: &Decision, took: Micros) {
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
    histogram!("tollgate_decision_duration_seconds").record(std::time::Duration::from(took));
    gauge!("tollgate_degraded").set(if decision.is_degraded() { 1.0 } else { 0.0 });
}
