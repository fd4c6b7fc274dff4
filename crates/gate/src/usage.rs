//! Reports keys that have used most of a limit with a long window.

use tollgate::{Decision, Demand, EncodedKey, FailurePolicy, LimitOutcome, Micros};

use super::active::ActiveConfig;
use crate::metrics::{UsageAlert, UsedShare};

impl ActiveConfig {
    /// Reports the keys of a decision that have used most of a configured limit.
    pub(super) fn record_usage(
        &self,
        demands: &[Demand<'_, EncodedKey>],
        decision: &Decision,
        now: Micros,
    ) {
        let Some(UsageAlert { watch, window_min }) = &self.usage else {
            return;
        };

        for (demand, outcome) in demands.iter().zip(decision.limits()) {
            let position = demand.limit.position();
            let window = outcome.window().filter(|window| window >= window_min);
            let (Some(window), true) = (window, position < self.config.limits.len()) else {
                continue;
            };
            if !is_measured(outcome) {
                continue;
            }
            let usage = UsedShare {
                limit: outcome.limit(),
                remaining: outcome.remaining(),
                is_denied: outcome.retry().is_some(),
            };
            let Some(percent) = usage.percent() else {
                continue;
            };

            // A fixed window ends when it resets; the others have no end, only a length.
            let window = Micros::from_duration_ceil(window).unwrap_or(Micros::MAX);
            let until = now.after(outcome.outcome().reset_after.min(window));
            let limit_id = self.metrics[position].id();
            watch.record(limit_id, &demand.key, percent, now, until);
        }
    }
}

/// Whether an outcome tells what the key has used. A block, an exemption and a failure policy that
/// does not count tell nothing.
fn is_measured(outcome: &LimitOutcome) -> bool {
    let is_asked = outcome.is_counted() && !outcome.is_blocked();
    let fallback = outcome.fallback();
    is_asked && fallback.is_none_or(|policy| policy == FailurePolicy::Local)
}
