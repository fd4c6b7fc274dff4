//! A store that becomes unavailable: decisions by failure policies, logs, counters, permits.

mod flapping;
mod local;
mod local_limits;
mod lockouts;
mod outages;
mod permits;
mod policies;
mod reservations;
mod store;

use std::future::IntoFuture;
use std::time::Duration;

use pollster::block_on;
use tollgate::limiter::{Check, Demands, LimiterBuilder};
use tollgate::{Decision, Error, FailurePolicy, Limit, Limiter, ManualClock};

use store::{FaultyStore, InjectedFault, ReplyMode};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A limiter, its store, which can be made to fail, and the clock of both.
struct Fixture {
    limiter: Limiter,
    store: FaultyStore,
    clock: ManualClock,
}

impl Fixture {
    fn new(limits: impl IntoIterator<Item = Limit>) -> Self {
        Self::with(ReplyMode::Ready, limits, |builder| builder)
    }

    fn with_replicas(replicas: u32, limits: impl IntoIterator<Item = Limit>) -> Self {
        Self::with(ReplyMode::Ready, limits, |builder| {
            builder.expected_replicas(replicas)
        })
    }

    fn with(
        reply_mode: ReplyMode,
        limits: impl IntoIterator<Item = Limit>,
        configure: impl FnOnce(LimiterBuilder) -> LimiterBuilder,
    ) -> Self {
        let clock = ManualClock::default();
        let store = FaultyStore::new(&clock, reply_mode);

        let builder = Limiter::builder()
            .store(store.clone())
            .clock(clock.clone())
            .limits(limits);
        Self {
            limiter: configure(builder).build().expect("valid limits"),
            store,
            clock,
        }
    }

    /// Makes the store unavailable.
    fn unavailable(self) -> Self {
        self.store.fail(InjectedFault::Unavailable);
        self
    }

    fn check(&self, limit: &str) -> Decision {
        decide(self.limiter.check(limit, "ann"))
    }

    /// Checks a limit until it denies. Returns how many requests it has admitted.
    fn exhaust(&self, limit: &str) -> usize {
        let mut decisions = std::iter::repeat_with(|| self.check(limit));
        let denied = decisions.position(|decision| !decision.is_allowed());
        denied.expect("a limit denies at some time")
    }

    /// Makes the store available, and lets the limiter notice.
    fn recover(&self, limit: &str) {
        self.store.heal();
        self.clock.advance(SECOND + Duration::from_micros(1));
        assert!(!decide(self.limiter.check(limit, "other")).is_degraded());
        assert!(!self.limiter.health().degraded);
    }
}

fn decide<'a, D: Demands<'a> + Unpin>(check: Check<'a, D>) -> Decision {
    try_decide(check).expect("a decision")
}

fn try_decide<'a, D: Demands<'a> + Unpin>(check: Check<'a, D>) -> Result<Decision, Error> {
    block_on(check.into_future())
}

/// A sliding log over a minute, with a failure policy.
fn per_minute(name: &str, limit: u64, policy: FailurePolicy) -> Limit {
    Limit::sliding_log(name, limit, MINUTE).on_store_failure(policy)
}

/// The failure policy that decided each limit.
fn fallbacks(decision: &Decision) -> Vec<Option<FailurePolicy>> {
    decision
        .limits()
        .iter()
        .map(tollgate::LimitOutcome::fallback)
        .collect()
}
