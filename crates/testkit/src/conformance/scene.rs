//! What stories are told with: rules of the story's own, questions to the store, and the passing of
//! time.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tollgate::store::{Intent, SpendReply, StoreFuture};
use tollgate::{
    Calendar, Concurrency, DemandBuf, FixedWindow, LeakyBucket, LeakyMode, Limit, LimitError,
    Micros, Outcome, PermitId, Quota, Rate, Rule, SlidingLog, SlidingWindow, Store, ToKey,
    TokenBucket, Verdict,
};

use super::Harness;
use crate::differential::Kind;

/// Long enough that no test ever sees its end.
pub(super) const LONG: Duration = Duration::from_hours(20 * 24);
/// Short enough to wait for.
pub(super) const SHORT: Duration = Duration::from_millis(60);

pub(super) struct Scene<'a> {
    number: usize,
    harness: &'a dyn Harness,
    store: Arc<dyn Store>,
    leases: Cell<u128>,
}

impl<'a> Scene<'a> {
    pub(super) fn new(number: usize, harness: &'a dyn Harness) -> Self {
        Self {
            number,
            harness,
            store: harness.store(),
            leases: Cell::new(0),
        }
    }

    /// A rule named after the story's number and its part in the story.
    pub(super) fn rule(&self, part: &str, quota: impl Into<Quota>) -> Rule {
        let limit = Limit::new(format!("story-{}/{part}", self.number), quota);
        limit
            .rule()
            .expect("the stories have right names and numbers")
    }

    /// Asks for one check and takes it if it passes.
    pub(super) fn spend(&self, rule: &Rule, cost: u64) -> Outcome {
        self.ask_one(rule, cost, Intent::Spend, self.new_lease())
    }

    /// Asks for one check and takes nothing.
    pub(super) fn peek(&self, rule: &Rule, cost: u64) -> Outcome {
        self.ask_one(rule, cost, Intent::Peek, PermitId::NONE)
    }

    /// What is left.
    pub(super) fn left(&self, rule: &Rule) -> u64 {
        self.peek(rule, 0).remaining
    }

    pub(super) fn spend_all(&self, checks: &[DemandBuf]) -> SpendReply {
        self.hold_all(checks, self.new_lease())
    }

    /// Takes several checks together under this lease.
    pub(super) fn hold_all(&self, checks: &[DemandBuf], lease: PermitId) -> SpendReply {
        self.ask(checks, Intent::Spend, lease)
    }

    pub(super) fn peek_all(&self, checks: &[DemandBuf]) -> SpendReply {
        self.ask(checks, Intent::Peek, self.new_lease())
    }

    /// Takes one check under this lease.
    pub(super) fn hold(&self, rule: &Rule, cost: u64, lease: PermitId) -> Outcome {
        self.ask_one(rule, cost, Intent::Spend, lease)
    }

    pub(super) fn refund(&self, rule: &Rule, cost: u64) {
        self.refund_all(&[check(rule, "ann", cost)]);
    }

    pub(super) fn refund_all(&self, checks: &[DemandBuf]) {
        answered(
            self.store
                .refund(&checks.iter().map(DemandBuf::as_demand).collect::<Vec<_>>()),
        );
    }

    pub(super) fn reset(&self, rule: &Rule) {
        answered(self.store.reset(&check(rule, "ann", 0).as_demand().key));
    }

    pub(super) fn release(&self, rule: &Rule, lease: PermitId) -> bool {
        answered(
            self.store
                .release(&check(rule, "ann", 0).as_demand(), lease),
        )
    }

    pub(super) fn renew(&self, rule: &Rule, lease: PermitId) -> bool {
        answered(self.store.renew(&check(rule, "ann", 0).as_demand(), lease))
    }

    pub(super) fn wait(&self, length: Micros) {
        self.harness.advance(length.into());
    }

    pub(super) fn is_exact(&self) -> bool {
        self.harness.is_exact()
    }

    /// A lease that nobody has.
    pub(super) fn new_lease(&self) -> PermitId {
        self.leases.set(self.leases.get() + 1);
        PermitId::new(self.leases.get())
    }

    /// One check by the short way, if the store has one.
    fn ask_one(&self, rule: &Rule, cost: u64, intent: Intent, lease: PermitId) -> Outcome {
        let check = check(rule, "ann", cost);
        let answered = self.store.try_spend(&check.as_demand(), intent, lease);
        answered.map_or_else(
            || self.ask(&[check], intent, lease).outcomes[0],
            |(outcome, _)| outcome,
        )
    }

    fn ask(&self, checks: &[DemandBuf], intent: Intent, lease: PermitId) -> SpendReply {
        let borrowed: Vec<_> = checks.iter().map(DemandBuf::as_demand).collect();
        let spent = answered(self.store.spend(&borrowed, intent, lease));
        assert_eq!(spent.outcomes.len(), checks.len(), "one outcome per check");
        spent
    }
}

pub(super) fn check(rule: &Rule, key: impl ToKey, cost: u64) -> DemandBuf {
    rule.demand(key, cost).expect("the stories have right keys")
}

/// The same check, as a shadow.
pub(super) fn shadow(mut check: DemandBuf) -> DemandBuf {
    check.shadow = true;
    check
}

/// A quota of the algorithm whose window no story sees the end of.
pub(super) fn long(kind: Kind, limit: u64) -> Quota {
    match kind {
        Kind::FixedCalendar => built(FixedWindow::aligned(limit, Calendar::Month)),
        _ => quota(kind, limit, LONG),
    }
}

/// A quota of the algorithm whose window can be waited for. The shortest unit of the calendar is a
/// second.
pub(super) fn short(kind: Kind, limit: u64) -> Quota {
    match kind {
        Kind::FixedCalendar => built(FixedWindow::aligned(limit, Calendar::Second)),
        _ => quota(kind, limit, SHORT),
    }
}

/// A quota with this window; a bucket takes that long to fill.
fn quota(kind: Kind, limit: u64, window: Duration) -> Quota {
    let rate = Rate::new(limit, window);
    match kind {
        Kind::FixedFirstHit => built(FixedWindow::new(limit, window)),
        Kind::FixedCalendar => built(FixedWindow::aligned(limit, Calendar::Day)),
        Kind::SlidingWindow => built(SlidingWindow::new(limit, window)),
        Kind::SlidingLog => built(SlidingLog::new(limit, window)),
        Kind::TokenBucket => built(TokenBucket::new(limit, rate)),
        Kind::LeakyMeter => built(LeakyBucket::new(LeakyMode::Meter, limit, rate)),
        Kind::LeakyQueue => built(LeakyBucket::new(LeakyMode::Queue, limit, rate)),
        Kind::Concurrency => built(Concurrency::new(limit, window)),
    }
}

fn built(quota: Result<impl Into<Quota>, LimitError>) -> Quota {
    quota.expect("the stories have right numbers").into()
}

/// How long to wait; `None` when it passes or never does.
pub(super) fn retry_after(outcome: &Outcome) -> Option<Micros> {
    match outcome.verdict {
        Verdict::Deny { retry_after } => Some(retry_after),
        Verdict::Allow { .. } | Verdict::Never => None,
    }
}

pub(super) fn passes(outcome: &Outcome) -> bool {
    outcome.verdict.is_allowed()
}

fn answered<T: Unpin>(answer: StoreFuture<'_, T>) -> T {
    pollster::block_on(answer).expect("the store is there")
}
