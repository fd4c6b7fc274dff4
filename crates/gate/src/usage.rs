//! Reports keys that have used most of a limit with a long window.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Decision, Demand, EncodedKey, Micros};

use super::active::ActiveConfig;
use crate::metrics::{LimitUsage, UsageWatch};

/// Reports keys that have used most of a limit.
#[derive(Clone, Debug)]
pub(super) struct UsageAlert {
    watch: Arc<UsageWatch>,
    /// Of limits with at least this window.
    window_min: Duration,
}

impl UsageAlert {
    /// None if keys are not reported.
    pub(super) fn new(window_min: Option<Duration>, watch: &Arc<UsageWatch>) -> Option<Self> {
        let watch = watch.clone();
        window_min.map(|window_min| Self { watch, window_min })
    }
}

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
            let usage = LimitUsage {
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
