//! Replays a trace on a store and on the model, and stops at the first difference.

use std::fmt;

use tollgate::store::{Intent, Settlement, SettlementKind, SpendReply, StoreFuture};
use tollgate::{
    Clock, Demand, DemandBuf, Limit, ManualClock, Micros, Outcome, PermitId, Rule, Source, Store,
    Verdict,
};

use super::trace::{Act, Ask, Cost, Counter, Length, Move, Trace};
use crate::model::ModelStore;

/// No trace goes beyond this time, 2100-01-01: a century later is still within the range of every
/// store.
const LATEST: Micros = Micros::from_secs(4_102_444_800);
/// The longest time that a reservation is open in a trace.
const TTL_MAX: Micros = Micros::from_secs(3_600);
/// No trace goes back before this time, a second after the epoch.
const EARLIEST: Micros = Micros::from_secs(1);

/// Replays a trace on a store with this clock and unused counters. Returns how many operations
/// agreed, or the whole history up to the first that did not.
pub fn run_trace(store: &dyn Store, clock: &ManualClock, trace: &Trace) -> Result<u64, String> {
    let rules = rules_of(trace);
    let mut replay = Replay::new(store, clock, &rules);
    clock.set(trace.start);

    let steps = trace.steps.iter().try_for_each(|step| {
        replay.go(step.time);
        replay.act(&step.act)
    });

    steps
        .and_then(|()| replay.inspect_all())
        .map_err(|difference| format!("{replay}{difference}"))?;

    Ok(replay.entries.len() as u64)
}

struct Replay<'a> {
    store: &'a dyn Store,
    clock: &'a ManualClock,
    model: ModelStore,
    /// The rules of each counter, one per quota.
    rules: &'a [Vec<Rule>],
    /// What remained in each counter at its last outcome.
    left: Vec<u64>,
    retry_after: Micros,
    reset_after: Micros,
    /// Permits that were requested, each with its demand.
    permits: Vec<(DemandBuf, PermitId)>,
    /// Reservations that were requested, each with its demands.
    reservations: Vec<(Vec<DemandBuf>, PermitId)>,
    entries: Vec<TraceEntry>,
}

/// An operation with its outcomes, for the history of a failure.
struct TraceEntry {
    at: Micros,
    what: &'static str,
    demands: Vec<DemandBuf>,
    outcomes: Vec<Outcome>,
}

impl<'a> Replay<'a> {
    fn new(store: &'a dyn Store, clock: &'a ManualClock, rules: &'a [Vec<Rule>]) -> Self {
        Self {
            store,
            clock,
            model: ModelStore::default(),
            rules,
            left: rules.iter().map(|rules| rules[0].quota().limit()).collect(),
            retry_after: Micros::ZERO,
            reset_after: Micros::ZERO,
            permits: Vec::new(),
            reservations: Vec::new(),
            entries: Vec::new(),
        }
    }

    fn go(&self, time: Move) {
        let now = self.clock.now();
        let then = match time {
            Move::Stay => now,
            Move::Forward(length) => now.after(self.length(length)),
            Move::Back(length) => now.since(self.length(length)),
        };
        self.clock.set(then.clamp(EARLIEST, LATEST));
    }

    fn length(&self, length: Length) -> Micros {
        match length {
            Length::Micros(micros) => Micros::new(micros),
            Length::Retry { less } => self.retry_after.since(Micros::new(less)),
            Length::Reset { less } => self.reset_after.since(Micros::new(less)),
            Length::OfWindow {
                counter,
                thousandths,
                more,
            } => {
                let window = self.rules[counter % self.rules.len()][0]
                    .quota()
                    .window()
                    .unwrap_or(Micros::from_secs(1));
                Micros::new(window.get() / 1_000 * thousandths + more)
            }
        }
    }

    fn act(&mut self, act: &Act) -> Result<(), String> {
        match act {
            Act::Spend(asks) => self.spend("spend", self.demands(asks), Intent::Spend),
            Act::Peek(asks) => self.spend("peek", self.demands(asks), Intent::Peek),
            Act::Inspect(asks) => self.spend("inspect", self.demands(asks), Intent::Inspect),
            Act::SpendOne(ask) => self.try_spend("spend one", self.demand(*ask), Intent::Spend),
            Act::PeekOne(ask) => self.try_spend("peek one", self.demand(*ask), Intent::Peek),
            Act::Count(asks) => self.spend("count", self.demands(asks), Intent::Count),
            Act::Reserve(asks, ttl) => {
                let ttl = self.length(*ttl).clamp(Micros::new(1), TTL_MAX);
                let demands = self.demands(asks);
                self.reservations
                    .push((demands.clone(), self.new_permit_id()));
                self.spend("reserve", demands, Intent::Reserve { ttl })
            }
            Act::Settle(ago, cost) => self.settle(*ago, *cost),
            Act::Refund(asks) => {
                let demands = self.demands(asks);
                answer(self.store.refund(&borrowed(&demands)))?;
                self.model.refund(&borrowed(&demands), self.clock.now());
                self.record("refund", demands, Vec::new());
                Ok(())
            }
            Act::Reset(counter) => {
                let demand = self.demand(Ask {
                    counter: *counter,
                    quota: 0,
                    cost: Cost::Units(0),
                    shadow: false,
                });
                answer(self.store.reset(&demand.as_demand().key))?;
                self.model.reset(&demand.as_demand().key);
                self.record("reset", vec![demand], Vec::new());
                Ok(())
            }
            Act::Release(ago) => self.change_permit("release", *ago),
            Act::Renew(ago) => self.change_permit("renew", *ago),
        }
    }

    fn spend(
        &mut self,
        what: &'static str,
        demands: Vec<DemandBuf>,
        intent: Intent,
    ) -> Result<(), String> {
        let permit_id = self.new_permit_id();
        let spent = answer(self.store.spend(&borrowed(&demands), intent, permit_id))?;
        self.compare(what, demands, intent, permit_id, &spent)
    }

    fn try_spend(
        &mut self,
        what: &'static str,
        demand: DemandBuf,
        intent: Intent,
    ) -> Result<(), String> {
        let permit_id = self.new_permit_id();

        let Some((outcome, _)) = self.store.try_spend(&demand.as_demand(), intent, permit_id)
        else {
            return self.spend(what, vec![demand], intent);
        };

        let spent = SpendReply::new([outcome], Source::Store, self.clock.now());
        self.compare(what, vec![demand], intent, permit_id, &spent)
    }

    fn compare(
        &mut self,
        what: &'static str,
        demands: Vec<DemandBuf>,
        intent: Intent,
        permit_id: PermitId,
        spent: &SpendReply,
    ) -> Result<(), String> {
        let compared = self
            .model
            .confirm(&borrowed(&demands), intent, permit_id, spent);

        for (demand, (outcome, _)) in demands.iter().zip(spent.outcomes()) {
            self.remember(demand, outcome);
        }
        self.permits
            .extend(demands.first().map(|demand| (demand.clone(), permit_id)));

        self.record(
            what,
            demands,
            spent
                .outcomes()
                .iter()
                .map(|(outcome, _)| *outcome)
                .collect(),
        );
        compared
    }

    fn settle(&mut self, ago: usize, cost: Cost) -> Result<(), String> {
        let mut reservations = self.reservations.iter().rev().cycle();
        let Some((demands, id)) = reservations.nth(ago).cloned() else {
            return Ok(());
        };
        let now = self.clock.now();
        let settlement = |demand| Settlement {
            demand,
            actual: self.cost(cost, demand.quota().limit(), 0),
        };
        let settlements: Vec<Settlement<'_>> = demands
            .iter()
            .map(DemandBuf::as_demand)
            .map(settlement)
            .collect();
        let got = answer(self.store.settle(&settlements, id))?;
        let settled = settlements.iter();
        let expected: Vec<SettlementKind> = settled
            .map(|settlement| self.model.settle_reservation(settlement, id, now))
            .collect();

        self.record("settle", demands, Vec::new());
        if got == expected {
            Ok(())
        } else {
            Err(format!("settlement: expected {expected:?}, got {got:?}"))
        }
    }

    fn new_permit_id(&self) -> PermitId {
        PermitId::new(self.entries.len() as u128 + 1)
    }

    fn remember(&mut self, demand: &DemandBuf, outcome: &Outcome) {
        if let Some(index) = self.rules.iter().position(|rules| is_of(rules, demand)) {
            self.left[index] = outcome.remaining;
        }
        self.reset_after = outcome.reset_after;
        if let Verdict::Deny { retry_after } = outcome.verdict {
            self.retry_after = retry_after;
        }
    }

    fn change_permit(&mut self, what: &'static str, ago: usize) -> Result<(), String> {
        let Some((demand, permit_id)) = self.permits.iter().rev().cycle().nth(ago).cloned() else {
            return Ok(());
        };
        let now = self.clock.now();
        let borrowed_demand = demand.as_demand();
        let (got, expected) = if what == "renew" {
            (
                answer(self.store.renew(&borrowed_demand, permit_id))?,
                self.model.renew(&borrowed_demand, permit_id, now),
            )
        } else {
            (
                answer(self.store.release(&borrowed_demand, permit_id))?,
                self.model.release(&borrowed_demand, permit_id, now),
            )
        };

        self.record(what, vec![demand], Vec::new());

        if got == expected {
            Ok(())
        } else {
            Err(format!("permit: expected {expected}, got {got}"))
        }
    }

    /// Inspects every counter at the end, so that a change in the last steps is compared too.
    fn inspect_all(&mut self) -> Result<(), String> {
        (0..self.rules.len()).try_for_each(|counter| {
            let demand = self.demand(Ask {
                counter,
                quota: 0,
                cost: Cost::Units(1),
                shadow: false,
            });
            self.spend("inspect", vec![demand], Intent::Inspect)
        })
    }

    /// The demands of a request, with each counter at most once.
    fn demands(&self, asks: &[Ask]) -> Vec<DemandBuf> {
        let mut demands: Vec<DemandBuf> = Vec::with_capacity(asks.len());

        for demand in asks.iter().map(|ask| self.demand(*ask)) {
            if demands
                .iter()
                .all(|other| other.as_demand().key != demand.as_demand().key)
            {
                demands.push(demand);
            }
        }

        demands
    }

    fn demand(&self, ask: Ask) -> DemandBuf {
        let counter = ask.counter % self.rules.len();
        let rule = &self.rules[counter][ask.quota % self.rules[counter].len()];
        let limit = rule.quota().limit();

        let cost = self.cost(ask.cost, limit, self.left[counter]);

        let rule = rule.with_shadow(ask.shadow);
        DemandBuf::new(&rule, "someone", cost).expect("the key is valid")
    }

    fn cost(&self, cost: Cost, limit: u64, left: u64) -> u64 {
        match cost {
            Cost::Units(units) => units,
            Cost::OfLimit(thousandths) => limit.saturating_mul(thousandths) / 1_000,
            Cost::LimitAnd(more) => limit + more,
            Cost::LeftAnd(more) => left + more,
        }
    }

    fn record(&mut self, what: &'static str, demands: Vec<DemandBuf>, outcomes: Vec<Outcome>) {
        self.entries.push(TraceEntry {
            at: self.clock.now(),
            what,
            demands,
            outcomes,
        });
    }
}

/// The rules of every counter, one per quota. Their names keep the counters apart.
fn rules_of(trace: &Trace) -> Vec<Vec<Rule>> {
    let rules = |(index, counter): (usize, &Counter)| {
        let limits = counter
            .quotas
            .iter()
            .map(|quota| Limit::new(format!("counter-{index}"), *quota))
            .map(|limit| limit.debt_max(counter.debt_max))
            .map(|limit| limit.on_reservation_expiry(counter.on_reservation_expiry));
        limits
            .map(|limit| limit.validate().expect("the name and the quota are valid"))
            .collect()
    };

    trace.counters.iter().enumerate().map(rules).collect()
}

fn borrowed(demands: &[DemandBuf]) -> Vec<Demand<'_>> {
    demands.iter().map(DemandBuf::as_demand).collect()
}

fn is_of(rules: &[Rule], demand: &DemandBuf) -> bool {
    DemandBuf::new(&rules[0], "someone", 0)
        .is_ok_and(|own| own.as_demand().key == demand.as_demand().key)
}

fn answer<T: Unpin>(answer: StoreFuture<'_, T>) -> Result<T, String> {
    pollster::block_on(answer).map_err(|error| format!("store error: {error:?}"))
}

/// The history so far, one line per operation.
impl fmt::Display for Replay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "the store and the model differ at the end of this trace:"
        )?;

        for entry in &self.entries {
            writeln!(f, "{:?} {}", entry.at, entry.what)?;
            for (index, demand) in entry.demands.iter().enumerate() {
                let counter = self
                    .rules
                    .iter()
                    .position(|rules| is_of(rules, demand))
                    .unwrap_or_default();

                let shadow = if demand.limit.is_shadow() {
                    " as a shadow"
                } else {
                    ""
                };
                write!(
                    f,
                    "  counter {counter}, cost {}{shadow}, {:?}",
                    demand.cost,
                    demand.quota()
                )?;

                match entry.outcomes.get(index) {
                    Some(outcome) => writeln!(f, "\n    -> {outcome:?}")?,
                    None => writeln!(f)?,
                }
            }
        }

        Ok(())
    }
}
