//! The slow obvious model: every algorithm as its definition reads, on exact fractions, with its
//! history kept.
//!
//! It is evidence because it shares nothing with the code under test but the quota's numbers. It
//! has no formula for a retry time or a reset time: those are *defined* here, as the first
//! microsecond at which the same check would pass and the first at which the counter is as good as
//! new, and a claimed time is checked by looking at that microsecond and at the one before it. Both
//! questions turn from no to yes only once as time goes on, so that is enough.

mod bucket;
mod calendar;
mod fixed;
mod fraction;
mod leases;
mod log;
mod sliding;
mod store;
#[cfg(test)]
mod tests;

use tollgate::algorithm::CLOCK_SLACK;
use tollgate::store::Intent;
use tollgate::{LeakyMode, Micros, Outcome, PermitId, Quota, Verdict};

pub use store::ModelStore;

use bucket::{Bucket, Numbers};
pub(crate) use fixed::Fixed;
use leases::Leases;
use log::Log;
pub(crate) use sliding::Sliding;

/// How far the clock may go back before it counts as set back.
const SLACK: i128 = CLOCK_SLACK.get() as i128;

/// What each algorithm must say about itself. Moments and costs are whole numbers wide enough for
/// every sum.
pub(crate) trait Counter {
    /// Notices the moment: forgets what is over for good and corrects what a clock that was set
    /// back left behind. Every check and refund does this, the denied ones too.
    fn see(&mut self, now: i128);
    /// Whether this cost would pass at this moment, now or later.
    fn fits(&self, cost: i128, at: i128) -> bool;
    /// Whole units left; below nothing counts as nothing.
    fn remaining(&self, at: i128) -> i128;
    /// Whether it cannot be told from a new counter.
    fn is_fresh(&self, at: i128) -> bool;
    /// How long something admitted at this moment must wait for its turn.
    fn wait(&self, _at: i128) -> i128 {
        0
    }
    /// Spends what fits.
    fn add(&mut self, cost: i128, now: i128, lease: PermitId);
    /// Gives back at most what was spent.
    fn refund(&mut self, cost: i128, now: i128);
}

/// One counter.
#[derive(Clone, Debug)]
pub struct Model {
    quota: Quota,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Fixed(Fixed),
    Sliding(Sliding),
    Log(Log),
    Bucket(Bucket),
    Leases(Leases),
}

impl Model {
    /// A counter that nobody has used.
    pub fn new(quota: Quota) -> Self {
        let limit = i128::from(quota.limit());
        let state = match &quota {
            Quota::FixedWindow(quota) => State::Fixed(Fixed::new(limit, quota.start())),
            Quota::SlidingWindow(quota) => {
                State::Sliding(Sliding::new(limit, micros(quota.window())))
            }
            Quota::SlidingLog(quota) => State::Log(Log::new(limit, micros(quota.window()))),
            Quota::Concurrency(quota) => {
                State::Leases(Leases::new(limit, micros(quota.permit_timeout())))
            }
            Quota::TokenBucket(bucket) => State::Bucket(Bucket::new(Numbers::new(
                limit,
                bucket.refill(),
                LeakyMode::Meter,
            ))),
            Quota::LeakyBucket(bucket) => State::Bucket(Bucket::new(Numbers::new(
                limit,
                bucket.leak(),
                bucket.mode(),
            ))),
        };
        Self { quota, state }
    }

    /// Other numbers for the same counter: what is used stays used. A quota of another shape means
    /// another counter.
    pub fn set_quota(&mut self, quota: Quota) {
        if quota == self.quota {
            return;
        }
        let limit = i128::from(quota.limit());
        match (&mut self.state, &quota) {
            _ if quota.shape() != self.quota.shape() => self.state = Self::new(quota).state,
            (State::Fixed(fixed), _) => fixed.limit = limit,
            (State::Sliding(sliding), _) => sliding.limit = limit,
            (State::Log(log), _) => log.limit = limit,
            (State::Leases(leases), Quota::Concurrency(quota)) => {
                (leases.limit, leases.lease) = (limit, micros(quota.permit_timeout()));
            }
            (State::Bucket(bucket), Quota::TokenBucket(quota)) => {
                bucket.numbers = Numbers::new(limit, quota.refill(), LeakyMode::Meter);
            }
            (State::Bucket(bucket), Quota::LeakyBucket(quota)) => {
                bucket.numbers = Numbers::new(limit, quota.leak(), quota.mode());
            }
            _ => self.state = Self::new(quota).state,
        }
        self.quota = quota;
    }

    /// What a check must answer now, spent if it passes or only looked at. Nothing is spent here.
    ///
    /// # Panics
    ///
    /// If a check within the limit never passes, which would be a fault of the model.
    pub fn ask(&self, cost: u64, now: Micros, intent: Intent) -> Outcome {
        let mut seen = self.clone();
        seen.see(now);
        let (units, at) = (i128::from(cost), micros(now));
        let verdict = if seen.is_never(cost) {
            Verdict::Never
        } else if seen.passes(cost, now) {
            Verdict::Allow {
                wait: to_micros(seen.counter().wait(at)),
            }
        } else {
            Verdict::Deny {
                retry_after: to_micros(first(|wait| seen.counter().fits(units, at + wait))),
            }
        };
        let after = seen.after(cost, now, intent, PermitId::NONE);
        Outcome {
            verdict,
            limit: self.quota.limit(),
            remaining: after.remaining(now),
            reset_after: to_micros(first(|wait| after.counter().is_fresh(at + wait))),
        }
    }

    /// Compares an answer with what it must be, or says how they differ.
    pub fn confirm(
        &self,
        outcome: &Outcome,
        cost: u64,
        now: Micros,
        intent: Intent,
    ) -> Result<(), String> {
        let mut seen = self.clone();
        seen.see(now);
        seen.compare(outcome, cost, now, intent)
            .map_err(|difference| {
                format!(
                    "{difference}\n  expected {:?}\n  got      {outcome:?}",
                    self.ask(cost, now, intent)
                )
            })
    }

    /// A check that is spent when it passes.
    pub fn spend(&mut self, cost: u64, now: Micros, lease: PermitId) -> Outcome {
        let expected = self.ask(cost, now, Intent::Spend);
        self.see(now);
        *self = self.after(cost, now, Intent::Spend, lease);
        expected
    }

    /// Gives back at most what was spent. What is held comes back through release instead, and no
    /// refund touches it.
    pub fn refund(&mut self, cost: u64, now: Micros) {
        if matches!(self.state, State::Leases(_)) {
            return;
        }
        self.see(now);
        self.counter_mut().refund(i128::from(cost), micros(now));
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        *self = Self::new(self.quota);
    }

    /// Ends a lease; false when it has already ended.
    pub fn release(&mut self, lease: PermitId, now: Micros) -> bool {
        let State::Leases(leases) = &mut self.state else {
            return false;
        };
        leases.release(lease, micros(now))
    }

    /// Starts a lease's time again; false when it has already ended.
    pub fn renew(&mut self, lease: PermitId, now: Micros) -> bool {
        let State::Leases(leases) = &mut self.state else {
            return false;
        };
        leases.renew(lease, micros(now))
    }

    fn compare(
        &self,
        outcome: &Outcome,
        cost: u64,
        now: Micros,
        intent: Intent,
    ) -> Result<(), &'static str> {
        let at = micros(now);
        self.compare_verdict(outcome.verdict, cost, now)?;
        let after = self.after(cost, now, intent, PermitId::NONE);
        let is_first_fresh = is_first(outcome.reset_after, |wait| {
            after.counter().is_fresh(at + wait)
        });
        require(outcome.limit == self.quota.limit(), "another limit")?;
        require(
            outcome.remaining == after.remaining(now),
            "another remaining",
        )?;
        require(is_first_fresh, "another reset_after")
    }

    fn compare_verdict(
        &self,
        verdict: Verdict,
        cost: u64,
        now: Micros,
    ) -> Result<(), &'static str> {
        let (units, at) = (i128::from(cost), micros(now));
        match verdict {
            Verdict::Never => require(
                self.is_never(cost),
                "never, although it fits into the limit",
            ),
            _ if self.is_never(cost) => Err("not never, although it does not fit into the limit"),
            Verdict::Allow { .. } if !self.passes(cost, now) => {
                Err("allowed, although it does not fit")
            }
            Verdict::Deny { .. } if self.passes(cost, now) => Err("denied, although it fits"),
            Verdict::Allow { wait } => {
                require(micros(wait) == self.counter().wait(at), "another wait")
            }
            Verdict::Deny { retry_after } => {
                let is_first_pass =
                    is_first(retry_after, |wait| self.counter().fits(units, at + wait));
                require(is_first_pass, "another retry_after")
            }
        }
    }

    fn see(&mut self, now: Micros) {
        self.counter_mut().see(micros(now));
    }

    fn is_never(&self, cost: u64) -> bool {
        cost > self.quota.limit()
    }

    fn passes(&self, cost: u64, now: Micros) -> bool {
        cost == 0 || self.counter().fits(i128::from(cost), micros(now))
    }

    fn remaining(&self, now: Micros) -> u64 {
        u64::try_from(self.counter().remaining(micros(now)).max(0))
            .expect("a limit is at most 2^53")
    }

    /// The counter after a check.
    fn after(&self, cost: u64, now: Micros, intent: Intent, lease: PermitId) -> Self {
        let mut after = self.clone();
        if intent == Intent::Spend && cost > 0 && self.passes(cost, now) {
            after
                .counter_mut()
                .add(i128::from(cost), micros(now), lease);
        }
        after
    }

    fn counter(&self) -> &dyn Counter {
        match &self.state {
            State::Fixed(counter) => counter,
            State::Sliding(counter) => counter,
            State::Log(counter) => counter,
            State::Bucket(counter) => counter,
            State::Leases(counter) => counter,
        }
    }

    fn counter_mut(&mut self) -> &mut dyn Counter {
        match &mut self.state {
            State::Fixed(counter) => counter,
            State::Sliding(counter) => counter,
            State::Log(counter) => counter,
            State::Bucket(counter) => counter,
            State::Leases(counter) => counter,
        }
    }
}

impl Numbers {
    fn new(capacity: i128, (per, period): (u64, u64), mode: LeakyMode) -> Self {
        let is_queue = mode == LeakyMode::Queue;
        Self {
            capacity,
            per: i128::from(per),
            period: i128::from(period),
            is_queue,
        }
    }
}

fn require(holds: bool, otherwise: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(otherwise) }
}

fn micros(moment: Micros) -> i128 {
    i128::from(moment.get())
}

fn to_micros(length: i128) -> Micros {
    Micros::new(
        u64::try_from(length)
            .expect("lengths of time are not negative and at most some hundred years"),
    )
}

/// True when `length` is the first at which the answer is yes.
fn is_first(length: Micros, holds: impl Fn(i128) -> bool) -> bool {
    let length = micros(length);
    holds(length) && (length == 0 || !holds(length - 1))
}

/// The first length of time at which the answer is yes, found by halving.
fn first(holds: impl Fn(i128) -> bool) -> i128 {
    let mut yes = 1;
    while !holds(yes) {
        yes *= 2;
        assert!(yes < 1 << 62, "every wait ends");
    }
    let mut no = -1;
    while yes - no > 1 {
        let middle = no.midpoint(yes);
        if holds(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    yes
}
