//! What the span of a request says about its decision.

use tollgate::Decision;
use tracing::Span;

/// Records the decision in the current span, if that has fields for it.
pub(crate) fn record_decision(decision: &Decision) {
    let span = Span::current();
    if span.is_disabled() {
        return;
    }
    span.record("tollgate.allowed", decision.is_allowed());
    span.record("tollgate.source", decision.source().as_str());
    if let Some(outcome) = decision.denied_by() {
        span.record("tollgate.denied_by", outcome.name());
    }
}
