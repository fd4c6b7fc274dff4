//! A slow and simple model: every algorithm as its definition reads, on exact fractions, with its
//! whole history.
//!
//! It can serve as evidence because it shares nothing with the code under test except the quota's
//! numbers. It has no formula for times. They are *defined* here: as the first microsecond at which
//! the same check would be allowed, at which more units are left, and at which the counter cannot
//! be distinguished from a new one. A claimed time is verified by evaluating that microsecond and
//! the one before it. Each condition changes from false to true only once as time passes, so that
//! is sufficient.

mod bucket;
mod calendar;
mod fixed;
mod fraction;
mod lockout;
mod log;
mod permits;
mod sliding;
mod store;
#[cfg(test)]
mod tests;
mod view;

use tollgate::algorithm::{AMOUNT_MAX, CLOCK_SLACK, SWEEP_MAX};
use tollgate::store::{Ending, Intent, ReservationEnd, SETTLED_FOR, SettlementKind};
use tollgate::{LeakyMode, Lockout, Micros, Outcome, PermitId, Quota, Verdict};

pub use store::ModelStore;

use bucket::{BucketCounter, BucketNumbers};
pub(crate) use fixed::FixedCounter;
use lockout::LockoutModel;
use log::HitLogCounter;
use permits::PermitCounter;
pub(crate) use sliding::SlidingCounter;

/// How far the clock may go back before it counts as set back.
const SLACK: i128 = CLOCK_SLACK.get() as i128;

/// No count exceeds the largest possible limit.
const COUNT_MAX: i128 = AMOUNT_MAX as i128;

/// The operations that define an algorithm. Times and costs are integers wide enough for every sum.
pub(crate) trait CounterModel {
    /// Updates the counter to the time `now`: removes what has expired and corrects what a clock
    /// that was set back left behind. Every check and refund does this, including denied ones.
    fn update(&mut self, now: i128);
    /// Whether a check with this cost would be allowed at this time, now or later.
    fn fits(&self, cost: i128, at: i128) -> bool;
    /// Whole units left; zero if negative.
    fn remaining(&self, at: i128) -> i128;
    /// Whether the counter cannot be distinguished from a new one.
    fn is_fresh(&self, at: i128) -> bool;
    /// How long a check admitted at this time must wait in the queue.
    fn wait(&self, _at: i128) -> i128 {
        0
    }
    /// Adds a cost, which fits unless it is only counted.
    fn add(&mut self, cost: i128, now: i128, permit_id: PermitId);
    /// Refunds at most what was spent.
    fn refund(&mut self, cost: i128, now: i128);
    /// Adds a cost whether it fits or not, but no more than `debt_max` beyond the limit.
    fn count(&mut self, cost: i128, debt_max: i128, now: i128, permit_id: PermitId);
    /// The window, or the time, of the cost that was added last.
    fn charged_in(&self) -> i128;
    /// The same for a cost that was reserved. A bucket numbers its reservations instead.
    fn reserve(&mut self, _now: i128) -> i128 {
        self.charged_in()
    }
    /// Notes that the counter was changed by a settlement or a refund, which a bucket must know to
    /// bound what reservations return.
    fn note_change(&mut self, _now: i128) {}
    /// Returns units that were added in this window, unless they are no longer in the counter.
    fn give_back(&mut self, units: i128, charged_in: i128, now: i128);
}

/// An open reservation.
#[derive(Clone, Copy, Debug)]
struct OpenReservation {
    id: PermitId,
    units: i128,
    charged_in: i128,
    expires: i128,
}

/// The model of one counter.
#[derive(Clone, Debug)]
pub struct Model {
    quota: Quota,
    /// The most units that the counter may owe.
    pub debt_max: u64,
    /// When the key is locked out, if ever.
    pub lockout: Option<Lockout>,
    lock: LockoutModel,
    state: State,
    reservations: Vec<OpenReservation>,
    /// Reservations that have ended, how, and until when that is known.
    ended: Vec<(PermitId, ReservationEnd, i128)>,
}

#[derive(Clone, Debug)]
enum State {
    Fixed(FixedCounter),
    Sliding(SlidingCounter),
    HitLog(HitLogCounter),
    Bucket(BucketCounter),
    Permits(PermitCounter),
}

impl Model {
    /// Creates an unused counter.
    pub fn new(quota: Quota) -> Self {
        let limit = i128::from(quota.limit());
        let bucket =
            |rate, mode| State::Bucket(BucketCounter::new(BucketNumbers::new(limit, rate, mode)));

        let state = match &quota {
            Quota::FixedWindow(quota) => State::Fixed(FixedCounter::new(limit, quota.start())),
            Quota::SlidingWindow(quota) => {
                State::Sliding(SlidingCounter::new(limit, micros(quota.window())))
            }
            Quota::SlidingLog(quota) => {
                State::HitLog(HitLogCounter::new(limit, micros(quota.window())))
            }
            Quota::Concurrency(quota) => {
                State::Permits(PermitCounter::new(limit, micros(quota.permit_timeout())))
            }
            Quota::TokenBucket(quota) => bucket(quota.refill(), LeakyMode::Meter),
            Quota::LeakyBucket(quota) => bucket(quota.leak(), quota.mode()),
        };

        Self {
            quota,
            debt_max: AMOUNT_MAX,
            lockout: None,
            lock: LockoutModel::default(),
            state,
            reservations: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Changes the quota of the counter: used units stay used. A quota with another shape creates a
    /// new counter.
    pub fn set_quota(&mut self, quota: Quota) {
        if quota == self.quota {
            return;
        }

        let limit = i128::from(quota.limit());
        match (&mut self.state, &quota) {
            _ if quota.shape() != self.quota.shape() => self.state = Self::new(quota).state,
            (State::Fixed(fixed), _) => fixed.limit = limit,
            (State::Sliding(sliding), _) => sliding.limit = limit,
            (State::HitLog(log), _) => log.limit = limit,
            (State::Permits(permits), Quota::Concurrency(quota)) => {
                (permits.limit, permits.timeout) = (limit, micros(quota.permit_timeout()));
            }
            (State::Bucket(bucket), Quota::TokenBucket(quota)) => {
                bucket.numbers = BucketNumbers::new(limit, quota.refill(), LeakyMode::Meter);
            }
            (State::Bucket(bucket), Quota::LeakyBucket(quota)) => {
                bucket.numbers = BucketNumbers::new(limit, quota.leak(), quota.mode());
            }
            _ => self.state = Self::new(quota).state,
        }

        self.quota = quota;
    }

    /// The outcome that a check must have now, for a spend or a peek. Nothing is spent here.
    ///
    /// # Panics
    ///
    /// If a check within the limit is never allowed, which would be a bug in the model.
    pub fn ask(&self, cost: u64, now: Micros, intent: Intent) -> Outcome {
        let mut current = self.clone();
        current.update(now);
        if intent == Intent::Count && !current.passes(cost, now) {
            current = current.after(cost, now, intent, PermitId::NONE);
            return current.ask(cost, now, Intent::Peek);
        }
        let (units, at) = (i128::from(cost), micros(now));

        let verdict = if current.is_never(cost) {
            Verdict::Never
        } else if current.passes(cost, now) {
            Verdict::Allow {
                wait: to_micros(current.counter().wait(at)),
            }
        } else {
            Verdict::Deny {
                retry_after: to_micros(first(|wait| current.passes_at(units, at + wait))),
            }
        };

        let after = current.after(cost, now, intent, PermitId::NONE);
        Outcome {
            verdict,
            limit: self.quota.limit(),
            remaining: after.remaining(now),
            reset_after: to_micros(first(|wait| after.is_fresh(at + wait))),
            more_after: if after.knows_more(verdict, now) {
                to_micros(first(|wait| after.has_more(now, wait)))
            } else {
                Micros::ZERO
            },
            lock: self.lock.key_lock(at),
        }
    }

    /// Compares an outcome with the expected one; an error describes the difference.
    pub fn confirm(
        &self,
        outcome: &Outcome,
        cost: u64,
        now: Micros,
        intent: Intent,
    ) -> Result<(), String> {
        let (mut current, mut effective) = (self.clone(), intent);
        current.update(now);
        if intent == Intent::Count && !current.passes(cost, now) {
            current = current.after(cost, now, intent, PermitId::NONE);
            effective = Intent::Peek;
        }

        current
            .compare(outcome, cost, now, effective)
            .map_err(|difference| {
                format!(
                    "{difference}\n  expected {:?}\n  got      {outcome:?}",
                    self.ask(cost, now, intent)
                )
            })
    }

    /// Checks and spends the cost if it is allowed.
    pub fn spend(&mut self, cost: u64, now: Micros, permit_id: PermitId) -> Outcome {
        let expected = self.ask(cost, now, Intent::Spend);
        self.update(now);
        *self = self.after(cost, now, Intent::Spend, permit_id);
        expected
    }

    /// Refunds at most what was spent. Permits are returned by release instead; a refund does not
    /// affect them.
    pub fn refund(&mut self, cost: u64, now: Micros) {
        if matches!(self.state, State::Permits(_)) {
            return;
        }
        self.update(now);
        self.counter_mut().refund(i128::from(cost), micros(now));
        self.counter_mut().note_change(micros(now));
    }

    /// Forgets expired reservations, the first to expire first, and gives back what they have
    /// charged if `is_released`. One call forgets only some of them; the others still count.
    pub fn end_expired(&mut self, is_released: bool, now: Micros) {
        let at = micros(now);
        self.reservations
            .sort_by_key(|open| (open.expires, open.id.get()));
        let is_expired = |reservation: &&OpenReservation| reservation.expires <= at;
        let expired = self.reservations.iter().take_while(is_expired).count();
        let expired: Vec<_> = self.reservations.drain(..expired.min(SWEEP_MAX)).collect();
        for reservation in expired.into_iter().filter(|_| is_released) {
            self.give_back(reservation.units, reservation.charged_in, now);
        }
    }

    /// Ends a reservation, at most once, and applies its actual cost: `actual`, or what was reserved
    /// if there is none, or `late` if the reservation is not open. Returns how it was settled, and
    /// how it has ended.
    pub fn settle(
        &mut self,
        (actual, late): (Option<u64>, u64),
        ending: Ending,
        is_released: bool,
        now: Micros,
    ) -> (SettlementKind, ReservationEnd) {
        let (id, at) = (ending.reservation, micros(now));
        let is_permit = matches!(self.state, State::Permits(_));
        if is_permit {
            let kind = if self.release(id, now) {
                SettlementKind::Reserved
            } else {
                SettlementKind::Unreserved
            };
            return (kind, ending.end);
        }

        let mut ended = self.ended.iter();
        let past = ended.find(|(other, _, until)| *other == id && *until > at);
        if let Some((_, end, _)) = past.copied() {
            self.end_expired(is_released, now);
            return (SettlementKind::Repeated, end);
        }
        let until = at + micros(SETTLED_FOR);
        self.ended.retain(|(other, ..)| *other != id);
        self.ended.push((id, ending.end, until));

        let found = self.reservations.iter().position(|open| open.id == id);
        let found = found.map(|index| self.reservations.remove(index));
        self.end_expired(is_released, now);
        let (kind, charged) = match found {
            Some(open) if open.expires > at || ending.was_open => {
                let charged = actual.map_or(0, |actual| i128::from(actual) - open.units);
                self.give_back(-charged, open.charged_in, now);
                (SettlementKind::Reserved, charged)
            }
            expired => {
                if let Some(expired) = expired.filter(|_| is_released) {
                    self.give_back(expired.units, expired.charged_in, now);
                }
                (SettlementKind::Unreserved, i128::from(late))
            }
        };
        if charged > 0 {
            self.count(charged, now, id);
            self.counter_mut().note_change(at);
        }
        (kind, ending.end)
    }

    /// Adds a cost whether it fits or not.
    fn count(&mut self, cost: i128, now: Micros, id: PermitId) {
        let debt_max = i128::from(self.debt_max);
        if cost > 0 {
            self.update(now);
            self.counter_mut().count(cost, debt_max, micros(now), id);
        }
    }

    fn give_back(&mut self, units: i128, charged_in: i128, now: Micros) {
        if units > 0 {
            self.update(now);
            self.counter_mut().give_back(units, charged_in, micros(now));
        }
    }

    /// Resets the counter. Reservations that were settled stay so.
    pub fn reset(&mut self) {
        self.state = Self::new(self.quota).state;
        self.reservations.clear();
        self.lock = LockoutModel::default();
    }

    /// Releases a permit; false if it has already ended.
    pub fn release(&mut self, permit_id: PermitId, now: Micros) -> bool {
        let State::Permits(permits) = &mut self.state else {
            return false;
        };
        permits.release(permit_id, micros(now))
    }

    /// Restarts a permit's timeout; false if it has already ended.
    pub fn renew(&mut self, permit_id: PermitId, now: Micros) -> bool {
        let State::Permits(permits) = &mut self.state else {
            return false;
        };
        permits.renew(permit_id, micros(now))
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
        let is_first_fresh = is_first(outcome.reset_after, |wait| after.is_fresh(at + wait));

        require(outcome.limit == self.quota.limit(), "wrong limit")?;
        require(outcome.remaining == after.remaining(now), "wrong remaining")?;
        require(is_first_fresh, "wrong reset_after")?;
        require(outcome.lock == self.lock.key_lock(at), "wrong lock")?;

        let is_first_more = if after.knows_more(outcome.verdict, now) {
            is_first(outcome.more_after, |wait| after.has_more(now, wait))
        } else {
            outcome.more_after == Micros::ZERO
        };
        require(is_first_more, "wrong more_after")
    }

    /// Whether it is known when more units will be left than are left now. That is reported with a
    /// demand that is allowed; a denied one has its retry time.
    fn knows_more(&self, verdict: Verdict, now: Micros) -> bool {
        let is_permits = matches!(self.state, State::Permits(_));
        verdict.is_allowed() && !is_permits && self.remaining(now) < self.quota.limit()
    }

    /// Whether more units are left after `wait` than are left now.
    fn has_more(&self, now: Micros, wait: i128) -> bool {
        let left_now = i128::from(self.remaining(now));
        self.remaining_at(micros(now) + wait) > left_now
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
                "verdict is never, but the cost fits in the limit",
            ),
            _ if self.is_never(cost) => Err("verdict is not never, but the cost exceeds the limit"),
            Verdict::Allow { .. } if !self.passes(cost, now) => {
                Err("allowed, but the cost does not fit")
            }
            Verdict::Deny { .. } if self.passes(cost, now) => Err("denied, but the cost fits"),
            Verdict::Allow { wait } => {
                require(micros(wait) == self.counter().wait(at), "wrong wait")
            }
            Verdict::Deny { retry_after } => {
                let is_first_pass = is_first(retry_after, |wait| self.passes_at(units, at + wait));
                require(is_first_pass, "wrong retry_after")
            }
        }
    }

    fn update(&mut self, now: Micros) {
        self.counter_mut().update(micros(now));
    }

    /// Updates the lockout for a request. Refunds and settlements do not look at it.
    fn update_lockout(&mut self, now: Micros) {
        if let Some(lockout) = self.lockout {
            self.lock.begin();
            self.lock.update(&lockout, micros(now));
        }
    }

    /// Counts a denial by the limit itself, unless the key is locked.
    fn count_denial(&mut self, cost: u64, now: Micros) {
        let at = micros(now);
        let is_denied = cost > 0 && !self.counter().fits(i128::from(cost), at);
        if let Some(lockout) = self
            .lockout
            .filter(|_| is_denied && !self.lock.is_locked(at))
        {
            self.lock.count_denial(&lockout, at);
        }
    }

    fn is_never(&self, cost: u64) -> bool {
        cost > self.quota.limit()
    }

    fn passes(&self, cost: u64, now: Micros) -> bool {
        cost == 0 || self.passes_at(i128::from(cost), micros(now))
    }

    fn passes_at(&self, units: i128, at: i128) -> bool {
        self.counter().fits(units, at) && !self.lock.is_locked(at)
    }

    fn is_fresh(&self, at: i128) -> bool {
        self.counter().is_fresh(at) && !self.lock.is_locked(at)
    }

    fn remaining_at(&self, at: i128) -> i128 {
        if self.lock.is_locked(at) {
            0
        } else {
            self.counter().remaining(at)
        }
    }

    fn remaining(&self, now: Micros) -> u64 {
        u64::try_from(self.remaining_at(micros(now)).max(0)).expect("a limit is at most 2^53")
    }

    /// The counter after a check.
    fn after(&self, cost: u64, now: Micros, intent: Intent, permit_id: PermitId) -> Self {
        let (units, at) = (i128::from(cost), micros(now));
        let mut after = self.clone();
        if intent == Intent::Count {
            after.count(units, now, permit_id);
        } else if intent.is_charge() && cost > 0 && self.passes(cost, now) {
            after.counter_mut().add(units, at, permit_id);
            if let (Intent::Reserve { ttl }, false) =
                (intent, matches!(after.state, State::Permits(_)))
            {
                let charged_in = after.counter_mut().reserve(at);
                after.reservations.push(OpenReservation {
                    id: permit_id,
                    units,
                    charged_in,
                    expires: at + micros(ttl),
                });
            }
        }
        after
    }

    fn counter(&self) -> &dyn CounterModel {
        match &self.state {
            State::Fixed(counter) => counter,
            State::Sliding(counter) => counter,
            State::HitLog(counter) => counter,
            State::Bucket(counter) => counter,
            State::Permits(counter) => counter,
        }
    }

    fn counter_mut(&mut self) -> &mut dyn CounterModel {
        match &mut self.state {
            State::Fixed(counter) => counter,
            State::Sliding(counter) => counter,
            State::HitLog(counter) => counter,
            State::Bucket(counter) => counter,
            State::Permits(counter) => counter,
        }
    }
}

impl BucketNumbers {
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
        u64::try_from(length).expect("durations are not negative and at most a few hundred years"),
    )
}

/// Whether `length` is the first duration after which the condition holds.
fn is_first(length: Micros, holds: impl Fn(i128) -> bool) -> bool {
    let length = micros(length);
    holds(length) && (length == 0 || !holds(length - 1))
}

/// The first duration after which the condition holds, found by bisection.
fn first(holds: impl Fn(i128) -> bool) -> i128 {
    let mut yes = 1;
    while !holds(yes) {
        yes *= 2;
        assert!(yes < 1 << 62, "every wait is finite");
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
