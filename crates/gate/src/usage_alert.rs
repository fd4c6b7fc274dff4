//! Finds the keys that have used most of a limit with a long window.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, Decision, Demand, EncodedKey, Micros};

use crate::metrics::{KeyUsage, LimitMetrics, Metrics, UsageWatch};

/// Reports keys that have used most of a limit, if that is configured.
#[derive(Debug)]
pub(super) struct UsageAlert {
    watch: Arc<UsageWatch>,
    clock: Arc<dyn Clock>,
    /// Of limits with at least this window; none if keys are not reported.
    window_min: Option<Duration>,
}

impl UsageAlert {
    pub(super) fn new(
        metrics: &Metrics,
        clock: Arc<dyn Clock>,
        window_min: Option<Duration>,
    ) -> Self {
        Self {
            watch: metrics.usage().clone(),
            clock,
            window_min,
        }
    }

    pub(super) const fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// True when keys are reported.
    #[inline]
    pub(super) const fn is_on(&self) -> bool {
        self.window_min.is_some()
    }

    /// Reports the keys of configured limits, which have these metrics by their positions.
    #[cold]
    pub(super) fn record(
        &self,
        demands: &[Demand<'_, EncodedKey>],
        decision: &Decision,
        configured: &[Arc<LimitMetrics>],
    ) {
        for (demand, outcome) in demands.iter().zip(decision.limits()) {
            let window = outcome
                .window()
                .filter(|window| Some(*window) >= self.window_min);
            let limit = configured.get(demand.limit.position());
            let (Some(window), Some(limit)) = (window, limit) else {
                continue;
            };
            let usage = KeyUsage {
                limit: outcome.limit(),
                remaining: outcome.remaining(),
                is_denied: outcome.retry().is_some(),
            };
            let Some(percent) = usage.percent() else {
                continue;
            };

            let now = self.clock.now();
            // A fixed window ends when it resets; the others have no end, only a length.
            let window = Micros::from_duration_ceil(window).unwrap_or(Micros::MAX);
            let until = now.after(outcome.outcome().reset_after.min(window));
            self.watch
                .record(limit.id(), &demand.key, percent, now, until);
        }
    }
}
