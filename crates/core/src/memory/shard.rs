//! One shard: a table of slots, the states beside it, and how a check is evaluated and committed.

use super::budget::Budget;
use super::fingerprint::Fingerprint;
use super::in_slot::{InSlot, Step};
use super::sides::{Side, SideState, Sides};
use super::slot::{Kind, Slot, Usage};
use super::table::Table;
use crate::algorithm::{
    Concurrency, HitLog, Outcome, PermitEntry, PermitId, Permits, Quota, SlidingLog, Verdict,
};
use crate::store::Demand;
use crate::time::Micros;

/// Found by [`Shard::look`], used by [`Shard::commit`] while the shard stays locked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Looked {
    /// The state fits into a slot.
    Plain(Step),
    /// It is kept beside the table.
    Beside(Outcome),
}

impl Looked {
    pub(super) const fn outcome(&self) -> Outcome {
        match self {
            Self::Plain(step) => step.outcome,
            Self::Beside(outcome) => *outcome,
        }
    }

    /// True when the state must be kept although nothing is spent: the clock was set back.
    pub(super) const fn must_keep(&self) -> bool {
        matches!(self, Self::Plain(Step { moved: true, .. }))
    }
}

/// One check on its way into a shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spend<'a> {
    pub(super) check: &'a Demand<'a>,
    pub(super) print: Fingerprint,
    pub(super) lease: PermitId,
    pub(super) now: Micros,
    pub(super) budget: &'a Budget,
}

/// What a key has of which the store knows nothing. It is asked for only once the key was not
/// found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Newcomers {
    /// All of its budget.
    Full,
    /// What has come into its bucket since this moment, when that was empty. So forgetting a bucket
    /// that is full again changes nothing here either. Other states than buckets start full.
    EmptySince(Micros),
}

impl Newcomers {
    fn slot(self, quota: &Quota, print: Fingerprint) -> Option<Slot> {
        let Self::EmptySince(moment) = self else {
            return None;
        };
        match quota {
            Quota::TokenBucket(quota) => Some(Slot::empty_bucket(print, &quota.gcra, moment)),
            Quota::LeakyBucket(quota) => Some(Slot::empty_bucket(print, &quota.gcra, moment)),
            _ => None,
        }
    }
}

/// What to do with a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseChange {
    Release,
    Renew,
}

/// Where [`Shard::find`] says a counter is when it has the seat.
const SEAT: usize = usize::MAX;

/// A shard's first cache line, which the lock shares, holds a copy of one counter: a key that comes
/// twice in a row takes the seat, and while it keeps coming, nothing else is touched. The table's
/// copy is out of date meanwhile.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Shard {
    seat: Slot,
    /// Part of the fingerprint of the key that came last, if it did not have the seat. It is on the
    /// next cache line, which a key that has the seat only reads.
    last: u64,
    table: Table,
    pub(super) sides: Sides,
    /// How often this shard has had to make room, scrambled.
    turn: u64,
}

impl Default for Shard {
    fn default() -> Self {
        Self {
            seat: Slot::VACANT,
            last: 0,
            table: Table::default(),
            sides: Sides::default(),
            turn: 0,
        }
    }
}

impl Shard {
    pub(super) fn keys(&self) -> usize {
        self.table.live()
    }

    pub(super) fn slots(&self) -> usize {
        self.table.slots()
    }

    #[inline(always)]
    pub(super) fn find(&self, print: Fingerprint) -> Option<usize> {
        if self.seat.holds(print) {
            Some(SEAT)
        } else {
            self.table.find(print)
        }
    }

    /// Reads the memory where a counter is looked for first, and tells part of what stands there.
    #[inline(always)]
    pub(super) fn touch(&self, print: Fingerprint) -> u64 {
        self.table.touch(print)
    }

    /// Gives a key that came last time too the seat, unless it was found there.
    #[inline(always)]
    pub(super) fn offer_seat(&mut self, at: Option<usize>, print: Fingerprint) {
        if at != Some(SEAT) {
            if self.last == print.low {
                self.change_seat(print);
            }
            self.last = print.low;
        } else if self.last != 0 {
            self.last = 0;
        }
    }

    #[cold]
    fn change_seat(&mut self, print: Fingerprint) {
        self.clear_seat();
        self.seat = self
            .table
            .find(print)
            .map_or(Slot::VACANT, |index| *self.table.get(index));
    }

    /// Brings the table up to date.
    fn clear_seat(&mut self) {
        if let Some(index) = self
            .table
            .find(self.seat.print())
            .filter(|_| !self.seat.is_vacant())
        {
            self.table.set(index, self.seat);
        }
        self.seat = Slot::VACANT;
    }

    /// The table, up to date, for everything but the way of a single check.
    pub(super) fn table(&mut self) -> &mut Table {
        self.clear_seat();
        &mut self.table
    }

    /// A number that differs from turn to turn in all its bits.
    pub(super) fn next_turn(&mut self) -> u64 {
        self.turn = self.turn.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.turn
    }

    #[inline(always)]
    fn slot(&self, at: usize) -> &Slot {
        if at == SEAT {
            &self.seat
        } else {
            self.table.get(at)
        }
    }

    #[inline(always)]
    fn set(&mut self, at: usize, slot: Slot) {
        if at == SEAT {
            self.seat = slot;
        } else {
            self.table.set(at, slot);
        }
    }

    /// The usual check from start to end: a known key, a state that fits into a slot, to be
    /// charged. `None` when it is not the usual check, and then nothing has happened.
    #[inline(always)]
    pub(super) fn spend_at<T>(
        &mut self,
        at: usize,
        spend: &Spend<'_>,
        part: impl FnOnce(Outcome) -> T,
    ) -> Option<T> {
        match spend.check.quota {
            Quota::SlidingWindow(quota) => Some(part(self.spend_in_slot(at, quota, spend))),
            Quota::TokenBucket(quota) => Some(part(self.spend_in_slot(at, quota, spend))),
            Quota::LeakyBucket(quota) => Some(part(self.spend_in_slot(at, quota, spend))),
            Quota::FixedWindow(quota) => Some(part(self.spend_in_slot(at, quota, spend))),
            Quota::SlidingLog(_) | Quota::Concurrency(_) => None,
        }
    }

    #[inline(always)]
    fn spend_in_slot(&mut self, at: usize, quota: &impl InSlot, spend: &Spend<'_>) -> Outcome {
        let step = quota.step(
            Some(self.slot(at)),
            spend.print,
            spend.check.cost,
            spend.now,
        );
        if (step.outcome.verdict.is_allowed() && spend.check.cost > 0) || step.moved {
            self.set(at, step.next);
        }
        step.outcome
    }

    /// What the check's limit says, changing no answer.
    pub(super) fn look(
        &mut self,
        at: Option<usize>,
        spend: &Spend<'_>,
        newcomers: Newcomers,
    ) -> Looked {
        let &Spend {
            check, print, now, ..
        } = spend;
        let slot = match at {
            Some(index) => Some(*self.slot(index)),
            None => newcomers.slot(check.quota, print),
        };
        let cost = check.cost;
        match check.quota {
            Quota::SlidingWindow(quota) => {
                Looked::Plain(quota.step(slot.as_ref(), print, cost, now))
            }
            Quota::TokenBucket(quota) => Looked::Plain(quota.step(slot.as_ref(), print, cost, now)),
            Quota::LeakyBucket(quota) => Looked::Plain(quota.step(slot.as_ref(), print, cost, now)),
            Quota::FixedWindow(quota) => Looked::Plain(quota.step(slot.as_ref(), print, cost, now)),
            Quota::SlidingLog(quota) => Looked::Beside(self.look_log(slot, quota, cost, now)),
            Quota::Concurrency(quota) => Looked::Beside(self.look_leases(slot, quota, cost, now)),
        }
    }

    /// The outcome of a check that would pass and is not charged: its verdict, and what is left
    /// without it.
    pub(super) fn uncharged(
        &mut self,
        at: Option<usize>,
        verdict: Verdict,
        spend: &Spend<'_>,
        newcomers: Newcomers,
    ) -> Outcome {
        let look = Demand {
            cost: 0,
            ..*spend.check
        };
        let spend = Spend {
            check: &look,
            ..*spend
        };
        let looked = self.look(at, &spend, newcomers);
        if looked.must_keep() {
            self.commit(at, &looked, &spend);
        }
        Outcome {
            verdict,
            ..looked.outcome()
        }
    }

    /// Keeps what [`look`](Self::look) found. A counter that is new (`at` is `None`) must have been
    /// given its room. Returns by how much the store is now over its cap, as it can be when a log
    /// grows.
    pub(super) fn commit(
        &mut self,
        at: Option<usize>,
        looked: &Looked,
        spend: &Spend<'_>,
    ) -> usize {
        match (looked, at) {
            (Looked::Plain(step), Some(index)) => self.set(index, step.next),
            (Looked::Plain(step), None) => self.add(step.next),
            (Looked::Beside(_), _) => return self.commit_side(at, spend),
        }
        0
    }

    /// Gives the check's cost back to the counter at `index`.
    pub(super) fn refund(
        &mut self,
        index: usize,
        check: &Demand<'_>,
        now: Micros,
        budget: &Budget,
    ) {
        let slot = *self.slot(index);
        let cost = check.cost;
        let refunded = match check.quota {
            Quota::FixedWindow(quota) => quota.refunded(&slot, cost, now),
            Quota::SlidingWindow(quota) => quota.refunded(&slot, cost, now),
            Quota::TokenBucket(quota) => quota.refunded(&slot, cost, now),
            Quota::LeakyBucket(quota) => quota.refunded(&slot, cost, now),
            Quota::SlidingLog(quota) => {
                if let Some(Side {
                    state: SideState::Log(log),
                    ..
                }) = self.sides.get_mut(slot.as_side())
                {
                    quota.prune(log, now);
                    log.refund(cost);
                }
                self.update_side(index, check.quota, budget);
                return;
            }
            Quota::Concurrency(_) => return,
        };
        self.set(index, refunded);
    }

    /// Ends a lease of the counter at `index`, or starts its time again. False when it has already
    /// ended.
    pub(super) fn change_lease(
        &mut self,
        index: usize,
        change: LeaseChange,
        spend: &Spend<'_>,
    ) -> bool {
        let Quota::Concurrency(quota) = spend.check.quota else {
            return false;
        };
        let side = self.slot(index).as_side();
        let side = self.sides.get_mut(side);
        let Some(Side {
            state: SideState::Permits(leases),
            ..
        }) = side
        else {
            return false;
        };
        Concurrency::prune(leases, spend.now);
        let held = leases.remove(spend.lease);
        if let (LeaseChange::Renew, Some(held)) = (change, held) {
            leases.insert(PermitEntry::new(
                held.id,
                held.cost,
                quota.permit_timeout,
                spend.now,
            ));
        }
        self.update_side(index, spend.check.quota, spend.budget);
        held.is_some()
    }

    /// Adds a slot that is not there yet and has been given its room.
    pub(super) fn add(&mut self, slot: Slot) {
        self.table.reserve_one();
        self.table.insert(slot);
    }

    /// Adds a counter from a snapshot, which has been given the room for its slot.
    pub(super) fn bring_back(&mut self, slot: Slot, side: Option<SideState>, budget: &Budget) {
        let Some(state) = side else {
            return self.add(slot);
        };
        let index = self.sides.insert(state);
        self.add(slot.moved_to(index));
        if let Some(side) = self.sides.get_mut(index) {
            side.recharge(budget);
        }
    }

    /// Forgets a counter, if it is there.
    pub(super) fn remove(&mut self, print: Fingerprint, budget: &Budget) {
        let Some(index) = self.table().find(print) else {
            return;
        };
        let slot = *self.table.get(index);
        self.table.remove(index);
        budget.give_back(1 + self.drop_side(&slot));
    }

    fn look_log(
        &mut self,
        slot: Option<Slot>,
        quota: &SlidingLog,
        cost: u64,
        now: Micros,
    ) -> Outcome {
        match slot.and_then(|slot| self.sides.get_mut(slot.as_side())) {
            Some(Side {
                state: SideState::Log(log),
                ..
            }) => {
                quota.prune(log, now);
                quota.evaluate(log, cost, now)
            }
            _ => quota.evaluate(&HitLog::default(), cost, now),
        }
    }

    fn look_leases(
        &mut self,
        slot: Option<Slot>,
        quota: &Concurrency,
        cost: u64,
        now: Micros,
    ) -> Outcome {
        match slot.and_then(|slot| self.sides.get_mut(slot.as_side())) {
            Some(Side {
                state: SideState::Permits(leases),
                ..
            }) => {
                Concurrency::prune(leases, now);
                quota.evaluate(leases, cost, now)
            }
            _ => quota.evaluate(&Permits::default(), cost, now),
        }
    }

    /// Stamps a hit, or adds a holder, in the state beside the table.
    fn commit_side(&mut self, at: Option<usize>, spend: &Spend<'_>) -> usize {
        let &Spend {
            check,
            print,
            lease,
            now,
            budget,
        } = spend;
        let index = at.unwrap_or_else(|| {
            let state = match check.quota {
                Quota::Concurrency(_) => SideState::Permits(Permits::default()),
                _ => SideState::Log(HitLog::default()),
            };
            let side = self.sides.insert(state);
            self.add(Slot::side(print, side, now, Usage::ALL));
            self.table.find(print).expect("it has just been added")
        });
        let side = self.slot(index).as_side();
        match (self.sides.get_mut(side), check.quota) {
            (
                Some(Side {
                    state: SideState::Permits(leases),
                    ..
                }),
                Quota::Concurrency(quota),
            ) => {
                leases.insert(PermitEntry::new(
                    lease,
                    check.cost,
                    quota.permit_timeout,
                    now,
                ));
            }
            (
                Some(Side {
                    state: SideState::Log(log),
                    ..
                }),
                _,
            ) => log.push(check.cost, now),
            _ => {}
        }
        self.update_side(index, check.quota, budget)
    }

    /// Squares the slot and the budget with the state beside the table after it has changed.
    fn update_side(&mut self, index: usize, quota: &Quota, budget: &Budget) -> usize {
        let slot = *self.slot(index);
        let Some(side) = self.sides.get_mut(slot.as_side()) else {
            return 0;
        };
        let (until, usage) = match (&side.state, quota) {
            (SideState::Log(log), Quota::SlidingLog(quota)) => {
                (quota.empty_at(log), Usage::of(log.sum(), quota.limit))
            }
            // Places in flight are forgotten last, however few: nobody waits for them to come back
            // by themselves.
            (SideState::Permits(leases), _) if leases.sum() > 0 => (leases.empty_at(), Usage::ALL),
            (SideState::Permits(leases), _) => (leases.empty_at(), Usage(0)),
            _ => return 0,
        };
        let over = side.recharge(budget);
        self.set(
            index,
            Slot::side(slot.print(), slot.as_side(), until, usage),
        );
        over
    }

    pub(super) fn drop_side(&mut self, slot: &Slot) -> usize {
        if slot.kind() == Kind::Side {
            self.sides.remove(slot.as_side())
        } else {
            0
        }
    }
}
