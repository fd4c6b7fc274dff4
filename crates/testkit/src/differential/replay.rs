//! Replays a trace on a store and on the model, and stops at the first difference.

use std::fmt;
use std::mem;

use tollgate::store::{Ending, Intent, ReservationEnd};
use tollgate::{
    Clock, DemandBuf, Limit, Lockout, ManualClock, Micros, Outcome, PermitId, Rule, Store,
    StoreError, Verdict,
};

use super::operation::{Action, Operation, OperationReply, PendingReply};
use super::trace::{Act, Ask, Cost, Counter, Length, Move, Trace};
use crate::model::ModelStore;

/// No trace goes beyond this time, 2100-01-01: a century later is still within the range of every
/// store.
const LATEST: Micros = Micros::from_secs(4_102_444_800);
/// The longest time that a reservation is open in a trace.
const TTL_MAX: Micros = Micros::from_secs(3_600);
/// No trace goes back before this time, a second after the epoch.
const EARLIEST: Micros = Micros::from_secs(1);

/// Waits for a reply.
type BlockOn<'a> = &'a dyn Fn(PendingReply<'_>) -> Result<OperationReply, StoreError>;

/// Replays a trace on a store with this clock and unused counters. Returns how many operations
/// agreed, or the whole history up to the first that did not.
pub fn run_trace(store: &dyn Store, clock: &ManualClock, trace: &Trace) -> Result<u64, String> {
    let rules = rules_of(trace);
    let block_on = |reply: PendingReply<'_>| pollster::block_on(reply);
    let replay = Replay::new(store, clock, &rules, &block_on);

    let steps = |replay: &mut Replay<'_>| {
        trace.steps.iter().try_for_each(|step| {
            replay.go(step.time);
            replay.start(&step.act);
            replay.finish()
        })
    };
    replay.run(trace.start, steps)
}

/// Replays a trace like [`run_trace`]. Operations between which no time passes are all started
/// before `block_on` waits for the first reply, so that a store may do them in one call; it must do
/// them in their order.
pub fn run_trace_in_batches(
    store: &dyn Store,
    clock: &ManualClock,
    trace: &Trace,
    block_on: &dyn Fn(PendingReply<'_>) -> Result<OperationReply, StoreError>,
) -> Result<u64, String> {
    let rules = rules_of(trace);
    let replay = Replay::new(store, clock, &rules, block_on);

    let steps = |replay: &mut Replay<'_>| {
        for step in &trace.steps {
            if !matches!(step.time, Move::Stay) {
                replay.finish()?;
                replay.go(step.time);
            }
            replay.start(&step.act);
        }
        replay.finish()
    };
    replay.run(trace.start, steps)
}

struct Replay<'a> {
    store: &'a dyn Store,
    clock: &'a ManualClock,
    block_on: BlockOn<'a>,
    model: ModelStore,
    /// The rules of each counter, one per quota.
    rules: &'a [Vec<Rule>],
    /// What remained in each counter at its last outcome.
    left: Vec<u64>,
    retry_after: Micros,
    reset_after: Micros,
    /// The number of operations so far.
    started: u128,
    /// Operations whose replies have not been read.
    pending: Vec<(Operation, PendingReply<'a>)>,
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
    fn new(
        store: &'a dyn Store,
        clock: &'a ManualClock,
        rules: &'a [Vec<Rule>],
        block_on: BlockOn<'a>,
    ) -> Self {
        Self {
            store,
            clock,
            block_on,
            model: ModelStore::default(),
            rules,
            left: rules.iter().map(|rules| rules[0].quota().limit()).collect(),
            retry_after: Micros::ZERO,
            reset_after: Micros::ZERO,
            started: 0,
            pending: Vec::new(),
            permits: Vec::new(),
            reservations: Vec::new(),
            entries: Vec::new(),
        }
    }

    fn run(
        mut self,
        start: Micros,
        steps: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<u64, String> {
        self.clock.set(start);
        steps(&mut self)
            .and_then(|()| self.inspect_all())
            .map_err(|difference| format!("{self}{difference}"))?;
        Ok(self.entries.len() as u64)
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
            Length::Denials { counter, less } => {
                let lockout = self.rules[counter % self.rules.len()][0].lockout();
                let within = lockout.map_or(Micros::ZERO, Lockout::within);
                within.since(Micros::new(less))
            }
            Length::Quiet { counter, less } => {
                let lockout = self.rules[counter % self.rules.len()][0].lockout();
                let quiet = lockout.map_or(Micros::ZERO, Lockout::quiet_time);
                quiet.since(Micros::new(less))
            }
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

    /// Starts an operation at the store.
    fn start(&mut self, act: &Act) {
        self.started += 1;
        let id = PermitId::new(self.started);

        let operation = match act {
            Act::Spend(asks) => self.spend("spend", asks, Intent::Spend, id),
            Act::Peek(asks) => self.spend("peek", asks, Intent::Peek, id),
            Act::Inspect(asks) => self.spend("inspect", asks, Intent::Inspect, id),
            Act::Count(asks) => self.spend("count", asks, Intent::Count, id),
            Act::SpendOne(ask) => self.spend_one("spend one", *ask, Intent::Spend, id),
            Act::PeekOne(ask) => self.spend_one("peek one", *ask, Intent::Peek, id),
            Act::Reserve(asks, ttl) => {
                let ttl = self.length(*ttl).clamp(Micros::new(1), TTL_MAX);
                let operation = self.spend("reserve", asks, Intent::Reserve { ttl }, id);
                self.reservations.push((operation.demands.clone(), id));
                operation
            }
            Act::Refund(asks) => Operation {
                what: "refund",
                demands: self.demands(asks),
                action: Action::Refund,
            },
            Act::Reset(counter) => Operation {
                what: "reset",
                demands: vec![self.demand_of(*counter, 0)],
                action: Action::Reset,
            },
            _ => match self.follow_up(act) {
                Some(operation) => operation,
                None => return,
            },
        };

        let reply = operation.start(self.store, self.clock.now());
        self.pending.push((operation, reply));
    }

    fn spend(
        &mut self,
        what: &'static str,
        asks: &[Ask],
        intent: Intent,
        id: PermitId,
    ) -> Operation {
        let demands = self.demands(asks);
        let first = demands.first().cloned();
        self.permits.extend(first.map(|demand| (demand, id)));
        Operation {
            what,
            demands,
            action: Action::Spend(intent, id),
        }
    }

    fn spend_one(
        &mut self,
        what: &'static str,
        ask: Ask,
        intent: Intent,
        id: PermitId,
    ) -> Operation {
        let action = Action::SpendOne(intent, id);
        Operation {
            action,
            ..self.spend(what, &[ask], intent, id)
        }
    }

    /// An operation on an earlier reservation or permit, if there is one.
    fn follow_up(&self, act: &Act) -> Option<Operation> {
        if let Act::Settle(ago, _) | Act::Cancel(ago) = act {
            let mut recent = self.reservations.iter().rev().cycle();
            let (demands, id) = recent.nth(*ago).cloned()?;
            let (what, end, actuals) = if let Act::Settle(_, actual) = act {
                // Every other demand costs what was reserved.
                let actual = |(index, demand): (usize, &DemandBuf)| {
                    let actual = units(*actual, demand.quota().limit(), 0);
                    (index % 2 == 0).then_some(actual)
                };
                let actuals = demands.iter().enumerate().map(actual).collect();
                ("settle", ReservationEnd::Settled, actuals)
            } else {
                let nothing = vec![Some(0); demands.len()];
                ("cancel", ReservationEnd::Cancelled, nothing)
            };
            return Some(Operation {
                what,
                demands,
                action: Action::Settle(actuals, Ending::new(id, end)),
            });
        }

        let (what, ago, is_renewal) = match act {
            Act::Renew(ago) => ("renew", ago, true),
            Act::Release(ago) => ("release", ago, false),
            _ => return None,
        };
        let (demand, id) = self.permits.iter().rev().cycle().nth(*ago).cloned()?;
        Some(Operation {
            what,
            demands: vec![demand],
            action: if is_renewal {
                Action::Renew(id)
            } else {
                Action::Release(id)
            },
        })
    }

    /// Reads the replies to all operations that were started, and compares them.
    fn finish(&mut self) -> Result<(), String> {
        for (operation, reply) in mem::take(&mut self.pending) {
            let reply = (self.block_on)(reply).map_err(|error| format!("store error: {error}"))?;
            let now = self.clock.now();
            let compared = operation.confirm(&mut self.model, &reply, now);

            let outcomes = reply.outcomes();
            for (demand, outcome) in operation.demands.iter().zip(&outcomes) {
                self.remember(demand, outcome);
            }
            self.entries.push(TraceEntry {
                at: now,
                what: operation.what,
                demands: operation.demands,
                outcomes,
            });
            compared?;
        }
        Ok(())
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

    /// Inspects every counter at the end, so that a change in the last steps is compared too.
    fn inspect_all(&mut self) -> Result<(), String> {
        for counter in 0..self.rules.len() {
            self.start(&Act::Inspect(vec![one_unit(counter)]));
        }
        self.finish()
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

        let cost = units(ask.cost, limit, self.left[counter]);

        let rule = rule.with_shadow(ask.shadow);
        DemandBuf::new(&rule, "someone", cost).expect("the key is valid")
    }

    /// A demand of a counter with its first quota.
    fn demand_of(&self, counter: usize, cost: u64) -> DemandBuf {
        self.demand(one_unit(counter)).with_cost(cost)
    }
}

/// A demand of one unit.
fn one_unit(counter: usize) -> Ask {
    Ask {
        counter,
        quota: 0,
        cost: Cost::Units(1),
        shadow: false,
    }
}

fn units(cost: Cost, limit: u64, left: u64) -> u64 {
    match cost {
        Cost::Units(units) => units,
        Cost::OfLimit(thousandths) => limit.saturating_mul(thousandths) / 1_000,
        Cost::LimitAnd(more) => limit + more,
        Cost::LeftAnd(more) => left + more,
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
            .map(|limit| limit.on_reservation_expiry(counter.on_reservation_expiry))
            .map(|limit| match counter.lockout {
                Some(lockout) => limit.lockout(lockout),
                None => limit,
            });
        limits
            .map(|limit| limit.validate().expect("the name and the quota are valid"))
            .collect()
    };

    trace.counters.iter().enumerate().map(rules).collect()
}

fn is_of(rules: &[Rule], demand: &DemandBuf) -> bool {
    DemandBuf::new(&rules[0], "someone", 0)
        .is_ok_and(|own| own.as_demand().key == demand.as_demand().key)
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
