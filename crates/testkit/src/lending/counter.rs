//! One counter that leases units: settle, spend, grant.

use tollgate::algorithm::AMOUNT_MAX;
use tollgate::store::lease::{LeaseGrant, LeaseRequest, LeaseTerms};
use tollgate::store::remote::{BucketState, CounterState, SlidingCounts, WindowCount};
use tollgate::{LeakyMode, Micros, Outcome, PermitId, Quota, ReservationExpiry, Rule, Verdict};

use super::bucket::LendingBucket;
use super::callers::Callers;
use super::reserve::Reservations;
use crate::model::{CounterModel, FixedCounter, SlidingCounter};

/// The state of one counter in a store, which defines the store's correct replies.
#[derive(Clone, Debug)]
pub struct Lender {
    quota: Quota,
    state: State,
    /// `None` until units are leased or a turn is assigned.
    callers: Option<Callers>,
    /// The most units that the counter may owe.
    pub(super) debt_max: u64,
    pub(super) reservations: Reservations,
}

/// What a lease call is granted.
#[derive(Clone, Copy, Default)]
struct Lent {
    units: i128,
    length: i128,
    turn_after: i128,
}

#[derive(Clone, Debug)]
enum State {
    Bucket(LendingBucket),
    Fixed(FixedCounter),
    Sliding(SlidingCounter),
}

impl Lender {
    /// Creates an unused counter; `None` for an algorithm that does not support leases.
    pub fn new(quota: Quota) -> Option<Self> {
        let limit = i128::from(quota.limit());
        let rate = |(per, period): (u64, u64)| (i128::from(per), i128::from(period));

        let state = match &quota {
            Quota::TokenBucket(bucket) => {
                State::Bucket(LendingBucket::new(limit, rate(bucket.refill())))
            }
            Quota::LeakyBucket(bucket) if bucket.mode() == LeakyMode::Meter => {
                State::Bucket(LendingBucket::new(limit, rate(bucket.leak())))
            }
            Quota::FixedWindow(window) => State::Fixed(FixedCounter::new(limit, window.start())),
            Quota::SlidingWindow(window) => State::Sliding(SlidingCounter::new(
                limit,
                i128::from(window.window().get()),
            )),
            Quota::LeakyBucket(_) | Quota::SlidingLog(_) | Quota::Concurrency(_) => return None,
        };

        Some(Self {
            quota,
            state,
            callers: None,
            debt_max: AMOUNT_MAX,
            reservations: Reservations::default(),
        })
    }

    /// Creates an unused counter of a limit, with what it says about debt and reservations; `None`
    /// for an algorithm that does not support leases.
    pub fn for_rule(rule: &Rule) -> Option<Self> {
        let is_released = rule.on_reservation_expiry() == ReservationExpiry::Release;
        Some(Self {
            debt_max: rule.debt_max(rule.quota()),
            reservations: Reservations::new(is_released),
            ..Self::new(*rule.quota())?
        })
    }

    /// Settles what an instance holds, spends `cost` if it fits, and leases the units requested
    /// beyond that.
    pub fn take(&mut self, cost: u64, take: &LeaseRequest, now: Micros) -> LeaseGrant {
        let (mut after, given, _) = self.after_request(cost, take, now);
        std::mem::swap(self, &mut after);
        given
    }

    /// Does the same and compares it with the reply of a store; an error describes the difference.
    pub fn confirm(
        &mut self,
        cost: u64,
        take: &LeaseRequest,
        given: &LeaseGrant,
        outcome: &Outcome,
    ) -> Result<(), String> {
        let (after, expected, settled) = self.after_request(cost, take, given.at);
        settled.compare(outcome, cost, given.at)?;

        // The outcome shows whether the state is correct.
        let state = given.state;
        if *given != (LeaseGrant { state, ..expected }) {
            return Err(format!("expected {expected:?}, got {given:?}"));
        }

        *self = after;
        Ok(())
    }

    /// Spends `cost` if it fits; returns whether it did.
    pub fn spend(&mut self, cost: u64, now: Micros) -> bool {
        let (mut seen, is_corrected) = self.updated(now);
        let fits = seen.fits(cost, at(now));
        if fits {
            seen.add(i128::from(cost), at(now));
        }
        self.write(seen, is_corrected || (fits && cost > 0));
        fits
    }

    /// Compares a store's outcome for a check that is charged if it fits (`charges`), or that only
    /// peeks.
    pub fn confirm_check(
        &mut self,
        cost: u64,
        charges: bool,
        outcome: &Outcome,
        now: Micros,
    ) -> Result<(), String> {
        let (seen, is_corrected) = self.updated(now);

        if charges {
            seen.compare(outcome, cost, now)?;
            self.spend(cost, now);
        } else {
            seen.compare_verdict(outcome.verdict, cost, now)?;
            require(outcome.remaining == seen.remaining(now), "wrong remaining")?;
            self.write(seen, is_corrected);
        }

        Ok(())
    }

    /// Refunds what was spent.
    pub fn refund(&mut self, cost: u64, now: Micros) {
        let (mut seen, _) = self.updated(now);
        let units = i128::from(cost);
        match &mut seen.state {
            State::Bucket(bucket) => bucket.refund(units, at(now)),
            State::Fixed(fixed) => fixed.refund(units, at(now)),
            State::Sliding(sliding) => sliding.refund(units, at(now)),
        }
        seen.note_change(now);
        self.write(seen, true);
    }

    /// Resets the counter. Reservations that were settled stay so.
    pub fn reset(&mut self) {
        let mut reservations = std::mem::take(&mut self.reservations);
        reservations.forget_open();
        let debt_max = self.debt_max;
        let fresh = Self::new(self.quota).unwrap_or_else(|| self.clone());
        *self = Self {
            debt_max,
            reservations,
            ..fresh
        };
    }

    /// What remains plus what is leased, and its upper bound, in the same parts of a unit; `None`
    /// for a window.
    pub fn sum(&self, now: Micros) -> Option<(i128, i128)> {
        let (seen, _) = self.updated(now);
        if let State::Bucket(bucket) = &seen.state {
            Some(bucket.sum(at(now)))
        } else {
            None
        }
    }

    /// When a bucket is full again, rounded up, if nothing more is charged and no lease ends; `None`
    /// for a window.
    pub fn idle_at(&self, now: Micros) -> Option<u64> {
        let (seen, _) = self.updated(now);
        let State::Bucket(bucket) = &seen.state else {
            return None;
        };
        let (idle_at, part) = bucket.rest(at(now));
        Some(to_u64(idle_at + i128::from(part > 0)))
    }

    /// The end of the fixed window that contains this time, if it is the current one or has ended.
    pub fn open_window(&self, now: Micros) -> Option<u64> {
        let State::Fixed(fixed) = &self.state else {
            return None;
        };
        let (_, end) = fixed.seen(at(now));
        (end > 0).then(|| to_u64(end))
    }

    /// The counter after a lease request, the grant, and the counter between settling and spending.
    fn after_request(
        &self,
        cost: u64,
        take: &LeaseRequest,
        now: Micros,
    ) -> (Self, LeaseGrant, Self) {
        let (mut settled, is_corrected) = self.updated(now);
        let is_kept = settled.settle(take, at(now));
        let seen = settled.counter_state(at(now));

        let mut after = settled.clone();
        let fits = after.fits(cost, at(now));
        if fits {
            after.add(i128::from(cost), at(now));
        }
        let Lent {
            units,
            length,
            turn_after,
        } = after.grant(cost, take, fits, at(now));
        after.add(units, at(now));

        let kept = if is_kept { take.kept.into() } else { 0 };
        let leased = if take.is_lent { units } else { 0 } + kept;
        let name = after.name(leased, length, at(now));

        let mut before = self.clone();
        // Settling changes a window only by the units that are returned to it.
        let is_settled = is_kept && (take.returned > 0 || self.is_bucket());
        let is_written = is_settled || (fits && cost > 0) || units > 0 || turn_after > 0;
        before.write(after, is_corrected || is_written);

        let given = LeaseGrant {
            state: seen,
            at: now,
            units: to_u64(units),
            generation: to_u64(name),
            is_known: is_kept,
            length: Micros::new(to_u64(length)),
            turn_after: Micros::new(to_u64(turn_after)),
        };

        (before, given, settled)
    }

    /// Decides how many of the units that are left after the cost are granted, for how long, and
    /// whether the instance must wait for its turn.
    fn grant(&mut self, cost: u64, take: &LeaseRequest, fits: bool, now: i128) -> Lent {
        let left = if fits {
            self.state_remaining(now).max(0)
        } else {
            0
        };
        if !take.is_lent {
            let units = left.min(take.needed.into());
            return Lent {
                units,
                ..Lent::default()
            };
        }

        let terms = LeaseTerms::for_quota(&self.quota);
        let mut callers = self.callers.unwrap_or_default();
        callers.count(take, &terms, now);
        let (units, length) = if fits {
            callers.grant(take, &terms, left)
        } else {
            (0, at(terms.long))
        };

        let asks = cost > 0 || take.wanted > 0;
        let turn_after = if asks && units == left {
            callers.assign_turn(&terms, now)
        } else {
            0
        };

        if self.callers.is_some() || units > 0 || turn_after > 0 {
            self.callers = Some(callers);
        }
        Lent {
            units,
            length,
            turn_after,
        }
    }

    /// Takes back units that an instance returns. Returns whether its lease was known.
    fn settle(&mut self, take: &LeaseRequest, now: i128) -> bool {
        let &LeaseRequest {
            generation,
            held,
            returned,
            ..
        } = take;
        let [generation, held, back] = [generation, held, returned].map(i128::from);

        match &mut self.state {
            State::Bucket(bucket) => generation > 0 && bucket.settle(generation, held, back, now),
            State::Fixed(fixed) => {
                let is_kept = generation > 0 && generation == fixed.name(now);
                fixed.refund(if is_kept { back } else { 0 }, now);
                is_kept
            }
            State::Sliding(sliding) => {
                let is_kept = generation > 0 && generation == sliding.name(now);
                sliding.give_back(if is_kept { back } else { 0 }, now);
                is_kept
            }
        }
    }

    /// The generation of the leased units; 0 if a bucket has leased none.
    fn name(&mut self, leased: i128, length: i128, now: i128) -> i128 {
        match &mut self.state {
            State::Bucket(_) if leased == 0 => 0,
            State::Bucket(bucket) => bucket.lend(leased, length, now),
            State::Fixed(fixed) => fixed.name(now),
            State::Sliding(sliding) => sliding.name(now),
        }
    }

    /// The counter updated to this time, and whether the update must be stored.
    pub(super) fn updated(&self, now: Micros) -> (Self, bool) {
        let mut seen = self.clone();
        let is_corrected = seen.correct(now);
        let is_released = seen.release_expired(now);
        seen.end_leases(now);
        if is_released {
            seen.note_change(now);
        }
        (seen, is_corrected || is_released)
    }

    /// Lets leases end. That comes after units are returned to a bucket: what was leased must not
    /// be freed by the return of something else.
    pub(super) fn end_leases(&mut self, now: Micros) {
        if let State::Bucket(bucket) = &mut self.state {
            bucket.end_leases(at(now));
        }
    }

    /// Corrects the counter if the clock was set back. Returns whether it was.
    pub(super) fn correct(&mut self, now: Micros) -> bool {
        match &mut self.state {
            State::Bucket(bucket) => bucket.correct(at(now)),
            State::Fixed(fixed) => {
                let is_corrected = fixed.is_set_back(at(now));
                fixed.update(at(now));
                is_corrected
            }
            State::Sliding(sliding) => {
                let is_corrected = sliding.is_set_back(at(now));
                sliding.update(at(now));
                is_corrected
            }
        }
    }

    pub(super) fn write(&mut self, after: Self, is_written: bool) {
        if is_written {
            *self = after;
        }
    }

    fn is_bucket(&self) -> bool {
        matches!(self.state, State::Bucket(_))
    }

    pub(super) fn fits(&self, cost: u64, at: i128) -> bool {
        let units = i128::from(cost);
        cost == 0
            || match &self.state {
                State::Bucket(bucket) => bucket.fits(units, at),
                State::Fixed(fixed) => fixed.fits(units, at),
                State::Sliding(sliding) => sliding.fits(units, at),
            }
    }

    fn add(&mut self, units: i128, now: i128) {
        match &mut self.state {
            _ if units == 0 => {}
            State::Bucket(bucket) => bucket.add(units, now),
            State::Fixed(fixed) => fixed.add(units, now, PermitId::NONE),
            State::Sliding(sliding) => sliding.add(units, now, PermitId::NONE),
        }
    }

    /// Adds units whether they fit or not, but no more than the counter may owe.
    pub(super) fn add_counted(&mut self, units: i128, now: i128) {
        let (debt_max, id) = (i128::from(self.debt_max), PermitId::NONE);
        match &mut self.state {
            _ if units == 0 => {}
            State::Bucket(bucket) => bucket.count(units, debt_max, now),
            State::Fixed(fixed) => fixed.count(units, debt_max, now, id),
            State::Sliding(sliding) => sliding.count(units, debt_max, now, id),
        }
    }

    /// Tells a bucket that reservations or a refund have changed it.
    pub(super) fn note_change(&mut self, now: Micros) {
        if let State::Bucket(bucket) = &mut self.state {
            bucket.note_change(at(now));
        }
    }

    /// The window of the units that were added last and are reserved; the number of the reservation
    /// for a bucket.
    pub(super) fn charged_in(&mut self, now: Micros) -> i128 {
        match &mut self.state {
            State::Bucket(bucket) => bucket.reserve(at(now)),
            State::Fixed(fixed) => fixed.charged_in(),
            State::Sliding(sliding) => sliding.charged_in(),
        }
    }

    /// Returns units that were added in this window, unless they are no longer in the counter.
    pub(super) fn give_back(&mut self, units: i128, charged_in: i128, now: i128) {
        match &mut self.state {
            State::Bucket(bucket) => bucket.give_back(units, charged_in, now),
            State::Fixed(fixed) => fixed.give_back(units, charged_in, now),
            State::Sliding(sliding) => {
                CounterModel::give_back(sliding, units, charged_in, now);
            }
        }
    }

    fn state_remaining(&self, at: i128) -> i128 {
        match &self.state {
            State::Bucket(bucket) => bucket.remaining(at),
            State::Fixed(fixed) => fixed.remaining(at),
            State::Sliding(sliding) => sliding.remaining(at),
        }
    }

    fn remaining(&self, now: Micros) -> u64 {
        to_u64(self.state_remaining(at(now)).max(0))
    }

    fn is_fresh(&self, at: i128) -> bool {
        match &self.state {
            State::Bucket(bucket) => bucket.is_fresh(at),
            State::Fixed(fixed) => fixed.is_fresh(at),
            State::Sliding(sliding) => sliding.is_fresh(at),
        }
    }

    fn counter_state(&self, now: i128) -> CounterState {
        let micros = |moment| Micros::new(to_u64(moment));

        match &self.state {
            State::Bucket(bucket) => {
                let (at, part) = bucket.rest(now);
                CounterState::Bucket(BucketState {
                    at: micros(at),
                    part: to_u64(part),
                    is_in_debt: bucket.is_in_debt(now),
                })
            }
            State::Fixed(fixed) => {
                let (count, ends) = fixed.seen(now);
                CounterState::Fixed(WindowCount {
                    count: to_u64(count),
                    ends: micros(ends),
                })
            }
            State::Sliding(sliding) => {
                let ((current, previous), start) = (sliding.counts(now), sliding.name(now));
                CounterState::Sliding(SlidingCounts {
                    current: to_u64(current),
                    previous: to_u64(previous),
                    start: micros(start),
                })
            }
        }
    }

    /// Compares a store's outcome for a check that is charged if it fits. Times ignore leased
    /// units, because it is unknown when they return.
    pub(super) fn compare(&self, outcome: &Outcome, cost: u64, now: Micros) -> Result<(), String> {
        self.compare_verdict(outcome.verdict, cost, now)?;

        let mut after = self.clone();
        if self.fits(cost, at(now)) {
            after.add(i128::from(cost), at(now));
        }

        let is_first_fresh = is_first(outcome.reset_after, |wait| after.is_fresh(at(now) + wait));
        require(outcome.limit == self.quota.limit(), "wrong limit")?;
        require(outcome.remaining == after.remaining(now), "wrong remaining").map_err(|error| {
            format!(
                "{error}: expected {}, got {outcome:?}",
                after.remaining(now)
            )
        })?;
        require(is_first_fresh, "wrong reset_after")?;

        let left = after.remaining(now);
        let has_more = |wait| after.state_remaining(at(now) + wait) > i128::from(left);
        let is_first_more = if outcome.verdict.is_allowed() && left < self.quota.limit() {
            is_first(outcome.more_after, has_more)
        } else {
            outcome.more_after == Micros::ZERO
        };
        require(is_first_more, "wrong more_after")
    }

    fn compare_verdict(&self, verdict: Verdict, cost: u64, now: Micros) -> Result<(), String> {
        let fits = self.fits(cost, at(now));

        match verdict {
            Verdict::Never => require(
                cost > self.quota.limit(),
                "verdict is never, but the cost fits in the limit",
            ),
            Verdict::Allow { .. } => require(fits, "allowed, but the cost does not fit"),
            Verdict::Deny { retry_after } => {
                require(!fits, "denied, but the cost fits")?;

                let is_first_pass = is_first(retry_after, |wait| self.fits(cost, at(now) + wait));
                require(is_first_pass, "wrong retry_after")
            }
        }
    }
}

fn require(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(otherwise.to_owned())
    }
}

/// Whether `length` is the first duration after which the condition holds.
fn is_first(length: Micros, holds: impl Fn(i128) -> bool) -> bool {
    let length = at(length);
    holds(length) && (length == 0 || !holds(length - 1))
}

pub(super) fn at(moment: Micros) -> i128 {
    i128::from(moment.get())
}

fn to_u64(number: i128) -> u64 {
    u64::try_from(number).expect("amounts and times are not negative and below 2^64")
}
