//! Plays a trace on a store and on the model, and stops where they differ.

use std::fmt;

use tollgate::store::{DemandBuf, Intent, SpendReply, StoreFuture};
use tollgate::{
    Clock, Demand, Limit, ManualClock, Micros, Outcome, PermitId, Rule, Store, Verdict,
};

use super::trace::{Act, Ask, Cost, Counter, Length, Move, Trace};
use crate::model::ModelStore;

/// No trace goes on after this moment, 2100-01-01: a century later every store can still tell the
/// time.
const LATEST: Micros = Micros::from_secs(4_102_444_800);
/// No trace goes back to before this moment, a second after the epoch.
const EARLIEST: Micros = Micros::from_secs(1);

/// Plays a trace on a store whose clock this is and whose counters are unused. Returns how many
/// operations agreed, or the whole story up to the first that did not.
pub fn run_trace(store: &dyn Store, clock: &ManualClock, trace: &Trace) -> Result<u64, String> {
    let rules = rules_of(trace);
    let mut replay = Replay::new(store, clock, &rules);
    clock.set(trace.start);
    let steps = trace.steps.iter().try_for_each(|step| {
        replay.go(step.time);
        replay.act(&step.act)
    });
    steps
        .and_then(|()| replay.look_at_all())
        .map_err(|difference| format!("{replay}{difference}"))?;
    Ok(replay.told.len() as u64)
}

struct Replay<'a> {
    store: &'a dyn Store,
    clock: &'a ManualClock,
    model: ModelStore,
    /// The rules of each counter, one per quota.
    rules: &'a [Vec<Rule>],
    /// What was left in each counter when it last answered.
    left: Vec<u64>,
    retry_after: Micros,
    reset_after: Micros,
    /// Leases asked for, with the check that did.
    leases: Vec<(DemandBuf, PermitId)>,
    told: Vec<Told>,
}

/// What was done and answered, for the story of a failure.
struct Told {
    at: Micros,
    what: &'static str,
    checks: Vec<DemandBuf>,
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
            leases: Vec::new(),
            told: Vec::new(),
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
            Act::Spend(asks) => self.spend("spend", self.checks(asks), Intent::Spend),
            Act::Peek(asks) => self.spend("peek", self.checks(asks), Intent::Peek),
            Act::SpendOne(ask) => self.try_spend("spend one", self.check(*ask), Intent::Spend),
            Act::PeekOne(ask) => self.try_spend("peek one", self.check(*ask), Intent::Peek),
            Act::Refund(asks) => {
                let checks = self.checks(asks);
                answer(self.store.refund(&borrowed(&checks)))?;
                self.model.refund(&borrowed(&checks), self.clock.now());
                self.tell("refund", checks, Vec::new());
                Ok(())
            }
            Act::Reset(counter) => {
                let check = self.check(Ask {
                    counter: *counter,
                    quota: 0,
                    cost: Cost::Units(0),
                    shadow: false,
                });
                answer(self.store.reset(&check.as_demand().key))?;
                self.model.reset(&check.as_demand().key);
                self.tell("reset", vec![check], Vec::new());
                Ok(())
            }
            Act::Release(ago) => self.change_lease("release", *ago),
            Act::Renew(ago) => self.change_lease("renew", *ago),
        }
    }

    fn spend(
        &mut self,
        what: &'static str,
        checks: Vec<DemandBuf>,
        intent: Intent,
    ) -> Result<(), String> {
        let lease = self.new_lease();
        let spent = answer(self.store.spend(&borrowed(&checks), intent, lease))?;
        self.compare(what, checks, intent, lease, &spent)
    }

    fn try_spend(
        &mut self,
        what: &'static str,
        check: DemandBuf,
        intent: Intent,
    ) -> Result<(), String> {
        let lease = self.new_lease();
        let Some((outcome, _)) = self.store.try_spend(&check.as_demand(), intent, lease) else {
            return self.spend(what, vec![check], intent);
        };
        let spent = SpendReply::by_store(std::iter::once(outcome).collect(), self.clock.now());
        self.compare(what, vec![check], intent, lease, &spent)
    }

    fn compare(
        &mut self,
        what: &'static str,
        checks: Vec<DemandBuf>,
        intent: Intent,
        lease: PermitId,
        spent: &SpendReply,
    ) -> Result<(), String> {
        let compared = self.model.confirm(&borrowed(&checks), intent, lease, spent);
        for (check, outcome) in checks.iter().zip(&spent.outcomes) {
            self.remember(check, outcome);
        }
        self.leases
            .extend(checks.first().map(|check| (check.clone(), lease)));
        self.tell(what, checks, spent.outcomes.to_vec());
        compared
    }

    fn new_lease(&self) -> PermitId {
        PermitId::new(self.told.len() as u128 + 1)
    }

    fn remember(&mut self, check: &DemandBuf, outcome: &Outcome) {
        if let Some(index) = self.rules.iter().position(|rules| is_of(rules, check)) {
            self.left[index] = outcome.remaining;
        }
        self.reset_after = outcome.reset_after;
        if let Verdict::Deny { retry_after } = outcome.verdict {
            self.retry_after = retry_after;
        }
    }

    fn change_lease(&mut self, what: &'static str, ago: usize) -> Result<(), String> {
        let Some((check, lease)) = self.leases.iter().rev().cycle().nth(ago).cloned() else {
            return Ok(());
        };
        let now = self.clock.now();
        let asked = check.as_demand();
        let (got, expected) = if what == "renew" {
            (
                answer(self.store.renew(&asked, lease))?,
                self.model.renew(&asked, lease, now),
            )
        } else {
            (
                answer(self.store.release(&asked, lease))?,
                self.model.release(&asked, lease, now),
            )
        };
        self.tell(what, vec![check], Vec::new());
        if got == expected {
            Ok(())
        } else {
            Err(format!("the lease: expected {expected}, got {got}"))
        }
    }

    /// A last look at every counter, so that a change in the last steps is compared too.
    fn look_at_all(&mut self) -> Result<(), String> {
        (0..self.rules.len()).try_for_each(|counter| {
            let check = self.check(Ask {
                counter,
                quota: 0,
                cost: Cost::Units(1),
                shadow: false,
            });
            self.spend("peek", vec![check], Intent::Peek)
        })
    }

    /// The checks of a request, each counter once.
    fn checks(&self, asks: &[Ask]) -> Vec<DemandBuf> {
        let mut checks: Vec<DemandBuf> = Vec::with_capacity(asks.len());
        for check in asks.iter().map(|ask| self.check(*ask)) {
            if checks
                .iter()
                .all(|other| other.as_demand().key != check.as_demand().key)
            {
                checks.push(check);
            }
        }
        checks
    }

    fn check(&self, ask: Ask) -> DemandBuf {
        let counter = ask.counter % self.rules.len();
        let rule = &self.rules[counter][ask.quota % self.rules[counter].len()];
        let limit = rule.quota().limit();
        let cost = match ask.cost {
            Cost::Units(units) => units,
            Cost::OfLimit(thousandths) => limit.saturating_mul(thousandths) / 1_000,
            Cost::LimitAnd(more) => limit + more,
            Cost::LeftAnd(more) => self.left[counter] + more,
        };
        let mut check = rule.demand("someone", cost).expect("the key is right");
        check.shadow = ask.shadow;
        check
    }

    fn tell(&mut self, what: &'static str, checks: Vec<DemandBuf>, outcomes: Vec<Outcome>) {
        self.told.push(Told {
            at: self.clock.now(),
            what,
            checks,
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
            .map(|quota| Limit::new(format!("counter-{index}"), *quota));
        limits
            .map(|limit| limit.rule().expect("the name and the quota are right"))
            .collect()
    };
    trace.counters.iter().enumerate().map(rules).collect()
}

fn borrowed(checks: &[DemandBuf]) -> Vec<Demand<'_>> {
    checks.iter().map(DemandBuf::as_demand).collect()
}

fn is_of(rules: &[Rule], check: &DemandBuf) -> bool {
    rules[0]
        .demand("someone", 0)
        .is_ok_and(|own| own.as_demand().key == check.as_demand().key)
}

fn answer<T: Unpin>(answer: StoreFuture<'_, T>) -> Result<T, String> {
    pollster::block_on(answer).map_err(|error| format!("the store gave no answer: {error}"))
}

/// The story so far, one line per operation.
impl fmt::Display for Replay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "the store and the model differ at the end of this story:"
        )?;
        for told in &self.told {
            writeln!(f, "{:?} {}", told.at, told.what)?;
            for (index, check) in told.checks.iter().enumerate() {
                let counter = self
                    .rules
                    .iter()
                    .position(|rules| is_of(rules, check))
                    .unwrap_or_default();
                let shadow = if check.shadow { " as a shadow" } else { "" };
                write!(
                    f,
                    "  counter {counter}, cost {}{shadow}, {:?}",
                    check.cost, check.quota
                )?;
                match told.outcomes.get(index) {
                    Some(outcome) => writeln!(f, "\n    -> {outcome:?}")?,
                    None => writeln!(f)?,
                }
            }
        }
        Ok(())
    }
}
