//! Helpers for test cases: rules of one case, calls to the store, and the passing of time.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tollgate::store::{
    Ending, Intent, ReservationEnd, SettleReply, Settlement, SettlementKind, StoreFuture,
};
use tollgate::{
    Calendar, Concurrency, DemandBuf, FixedWindow, LeakyBucket, LeakyMode, Limit, LimitError,
    Micros, Outcome, PermitId, Quota, Rate, Rule, SlidingLog, SlidingWindow, Store, ToKey,
    TokenBucket, Verdict,
};

use super::Harness;
use crate::differential::Kind;

/// Longer than any test.
pub(super) const LONG: Duration = Duration::from_hours(20 * 24);
/// Short enough to wait for.
pub(super) const SHORT: Duration = Duration::from_millis(60);

pub(super) struct Scene<'a> {
    number: usize,
    harness: &'a dyn Harness,
    store: Arc<dyn Store>,
    permits: Cell<u128>,
}

impl<'a> Scene<'a> {
    pub(super) fn new(number: usize, harness: &'a dyn Harness) -> Self {
        Self {
            number,
            harness,
            store: harness.store(),
            permits: Cell::new(0),
        }
    }

    /// A rule named after the number of the case and its role in the case.
    pub(super) fn rule(&self, part: &str, quota: impl Into<Quota>) -> Rule {
        self.rule_with(part, quota, |limit| limit)
    }

    /// A rule of a limit with other settings than the default ones.
    pub(super) fn rule_with(
        &self,
        part: &str,
        quota: impl Into<Quota>,
        settings: impl FnOnce(Limit) -> Limit,
    ) -> Rule {
        let limit = Limit::new(format!("case-{}/{part}", self.number), quota);
        settings(limit)
            .validate()
            .expect("the cases have valid names and quotas")
    }

    /// Checks one demand and spends it if allowed.
    pub(super) fn spend(&self, rule: &Rule, cost: u64) -> Outcome {
        self.ask_one(rule, cost, Intent::Spend, self.new_permit_id())
    }

    /// Peeks at one demand.
    pub(super) fn peek(&self, rule: &Rule, cost: u64) -> Outcome {
        self.ask_one(rule, cost, Intent::Peek, PermitId::NONE)
    }

    /// The remaining units.
    pub(super) fn left(&self, rule: &Rule) -> u64 {
        self.peek(rule, 0).remaining
    }

    /// The number of open reservations, and the units that they have charged.
    pub(super) fn reserved(&self, rule: &Rule) -> (u64, u64) {
        let check = check(rule, "ann", 0);
        let inspected = self
            .store
            .spend(&[check.as_demand()], Intent::Inspect, PermitId::NONE);
        let reserved = answered(inspected).counters[0].reserved;
        (reserved.count, reserved.units)
    }

    pub(super) fn spend_all(&self, demands: &[DemandBuf]) -> SceneReply {
        self.acquire_all(demands, self.new_permit_id())
    }

    /// Spends several demands together with this permit id.
    pub(super) fn acquire_all(&self, demands: &[DemandBuf], permit_id: PermitId) -> SceneReply {
        self.ask(demands, Intent::Spend, permit_id)
    }

    pub(super) fn peek_all(&self, demands: &[DemandBuf]) -> SceneReply {
        self.ask(demands, Intent::Peek, self.new_permit_id())
    }

    /// Spends one demand with this permit id.
    pub(super) fn acquire(&self, rule: &Rule, cost: u64, permit_id: PermitId) -> Outcome {
        self.ask_one(rule, cost, Intent::Spend, permit_id)
    }

    /// Charges one demand, whether it fits or not.
    pub(super) fn count(&self, rule: &Rule, cost: u64) -> Outcome {
        self.ask_one(rule, cost, Intent::Count, self.new_permit_id())
    }

    pub(super) fn count_all(&self, demands: &[DemandBuf], permit_id: PermitId) -> SceneReply {
        self.ask(demands, Intent::Count, permit_id)
    }

    /// Reserves one demand.
    pub(super) fn reserve(&self, rule: &Rule, cost: u64, ttl: Micros, id: PermitId) -> Outcome {
        self.ask_one(rule, cost, Intent::Reserve { ttl }, id)
    }

    pub(super) fn reserve_all(
        &self,
        demands: &[DemandBuf],
        ttl: Micros,
        id: PermitId,
    ) -> SceneReply {
        self.ask(demands, Intent::Reserve { ttl }, id)
    }

    /// Settles one demand that was reserved with this cost.
    pub(super) fn settle(
        &self,
        rule: &Rule,
        cost: u64,
        actual: u64,
        id: PermitId,
    ) -> SettlementKind {
        self.settle_all(&[(check(rule, "ann", cost), actual)], id)[0]
    }

    /// Settles demands, each with its actual cost.
    pub(super) fn settle_all(
        &self,
        actuals: &[(DemandBuf, u64)],
        id: PermitId,
    ) -> Vec<SettlementKind> {
        let settlements: Vec<_> = actuals
            .iter()
            .map(|(demand, actual)| Settlement::new(demand.as_demand(), *actual))
            .collect();
        let replies = self.end(&settlements, id, ReservationEnd::Settled);
        replies.into_iter().map(|reply| reply.kind).collect()
    }

    /// Ends a reservation.
    pub(super) fn end(
        &self,
        settlements: &[Settlement<'_>],
        id: PermitId,
        end: ReservationEnd,
    ) -> Vec<SettleReply> {
        let replies = answered(self.store.settle(settlements, Ending::new(id, end)));
        assert_eq!(replies.len(), settlements.len(), "one reply each");
        replies
    }

    pub(super) fn refund(&self, rule: &Rule, cost: u64) {
        self.refund_all(&[check(rule, "ann", cost)]);
    }

    pub(super) fn refund_all(&self, demands: &[DemandBuf]) {
        answered(
            self.store
                .refund(&demands.iter().map(DemandBuf::as_demand).collect::<Vec<_>>()),
        );
    }

    pub(super) fn reset(&self, rule: &Rule) {
        answered(self.store.reset(&check(rule, "ann", 0).as_demand().key));
    }

    pub(super) fn release(&self, rule: &Rule, permit_id: PermitId) -> bool {
        answered(
            self.store
                .release(&check(rule, "ann", 0).as_demand(), permit_id),
        )
    }

    pub(super) fn renew(&self, rule: &Rule, permit_id: PermitId) -> bool {
        answered(
            self.store
                .renew(&check(rule, "ann", 0).as_demand(), permit_id),
        )
    }

    pub(super) fn wait(&self, length: Micros) {
        self.harness.advance(length.into());
    }

    pub(super) fn is_exact(&self) -> bool {
        self.harness.is_exact()
    }

    /// A new permit id.
    pub(super) fn new_permit_id(&self) -> PermitId {
        self.permits.set(self.permits.get() + 1);
        PermitId::new(self.permits.get())
    }

    /// Checks one demand by the store's short path, if it has one.
    fn ask_one(&self, rule: &Rule, cost: u64, intent: Intent, permit_id: PermitId) -> Outcome {
        let check = check(rule, "ann", cost);
        let answered = self.store.try_spend(&check.as_demand(), intent, permit_id);
        answered.map_or_else(
            || self.ask(&[check], intent, permit_id).outcomes[0],
            |(outcome, _)| outcome,
        )
    }

    fn ask(&self, demands: &[DemandBuf], intent: Intent, permit_id: PermitId) -> SceneReply {
        let borrowed: Vec<_> = demands.iter().map(DemandBuf::as_demand).collect();
        let reply = answered(self.store.spend(&borrowed, intent, permit_id));
        let outcomes: Vec<Outcome> = reply
            .outcomes()
            .iter()
            .map(|(outcome, _)| *outcome)
            .collect();
        assert_eq!(outcomes.len(), demands.len(), "one outcome per demand");
        SceneReply {
            outcomes,
            at: reply.at,
        }
    }
}

/// A store's reply, without the sources of its outcomes.
#[derive(Debug)]
pub(super) struct SceneReply {
    pub(super) outcomes: Vec<Outcome>,
    pub(super) at: Micros,
}

pub(super) fn check(rule: &Rule, key: impl ToKey, cost: u64) -> DemandBuf {
    DemandBuf::new(rule, key, cost).expect("the cases have valid keys")
}

/// The same demand, as a shadow.
pub(super) fn shadow(mut check: DemandBuf) -> DemandBuf {
    check.limit = check.limit.with_shadow(true);
    check
}

/// A quota of the algorithm whose window is longer than any test.
pub(super) fn long(kind: Kind, limit: u64) -> Quota {
    match kind {
        Kind::FixedCalendar => built(FixedWindow::aligned(limit, Calendar::Month)),
        _ => quota(kind, limit, LONG),
    }
}

/// A quota of the algorithm whose window is short enough to wait for. The shortest calendar unit is
/// a second.
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
    quota.expect("the cases have valid quotas").into()
}

/// The retry time; `None` if the outcome is allowed or never.
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
    pollster::block_on(answer).expect("the store is available")
}
