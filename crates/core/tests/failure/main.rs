//! A store that stops answering: what each limit says then, what is logged and counted, and what is
//! held meanwhile.

mod holding;
mod local;
mod outages;
mod policies;
mod scoped;
mod store;

use std::future::IntoFuture;
use std::time::Duration;

use pollster::block_on;
use tollgate::limiter::{Check, Demands, LimiterBuilder};
use tollgate::{Decision, Error, FailurePolicy, Limit, Limiter, ManualClock};

use store::{Fault, Flaky, Way};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A limiter, its store to be broken and the clock of both.
struct Scene {
    limiter: Limiter,
    store: Flaky,
    clock: ManualClock,
}

impl Scene {
    fn new(limits: impl IntoIterator<Item = Limit>) -> Self {
        Self::with(Way::AtOnce, limits, |builder| builder)
    }

    fn of_replicas(replicas: u32, limits: impl IntoIterator<Item = Limit>) -> Self {
        Self::with(Way::AtOnce, limits, |builder| {
            builder.expected_replicas(replicas)
        })
    }

    fn with(
        way: Way,
        limits: impl IntoIterator<Item = Limit>,
        more: impl FnOnce(LimiterBuilder) -> LimiterBuilder,
    ) -> Self {
        let clock = ManualClock::default();
        let store = Flaky::new(&clock, way);
        let builder = Limiter::builder()
            .store(store.clone())
            .clock(clock.clone())
            .limits(limits);
        Self {
            limiter: more(builder).build().expect("right limits"),
            store,
            clock,
        }
    }

    /// The same, the store being away.
    fn away(self) -> Self {
        self.store.fail(Fault::Away);
        self
    }

    fn check(&self, limit: &str) -> Decision {
        decided(self.limiter.check(limit, "ann"))
    }

    /// Brings the store back and has the limiter notice.
    fn recover(&self, limit: &str) {
        self.store.heal();
        self.clock.advance(SECOND + Duration::from_micros(1));
        assert!(!decided(self.limiter.peek(limit, "nobody")).is_degraded());
        assert!(!self.limiter.health().degraded);
    }
}

fn decided<'a, S: Demands<'a> + Unpin>(ask: Check<'a, S>) -> Decision {
    asked(ask).expect("a decision")
}

fn asked<'a, S: Demands<'a> + Unpin>(ask: Check<'a, S>) -> Result<Decision, Error> {
    block_on(ask.into_future())
}

/// So many per minute, counted one by one.
fn per_minute(name: &str, limit: u64, policy: FailurePolicy) -> Limit {
    Limit::sliding_log(name, limit, MINUTE).on_store_failure(policy)
}

/// The policy that each limit of a decision was answered by.
fn fallbacks(decision: &Decision) -> Vec<Option<FailurePolicy>> {
    decision
        .limits()
        .iter()
        .map(tollgate::LimitOutcome::fallback)
        .collect()
}
