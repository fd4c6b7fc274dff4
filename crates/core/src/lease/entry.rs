//! What a process knows and holds of one counter.
//!
//! Pure: time is an argument, and trips are only described. The units that may be spent here are
//! `left`. Leased ones have been charged at the store when they were taken. Eventual ones are told
//! to it afterwards, and at most a quantum of them may be untold.

mod upkeep;

use super::call::{CallFailure, CallPurpose, CallRequest, LeaseGrant, LeaseRequest};
use super::pace::{self, LIFE, Pace};
use super::pending::PendingCall;
use crate::algorithm::{Outcome, Quota, Verdict};
use crate::consistency::Consistency;
use crate::decision::Source;
use crate::store::{Demand, DemandBuf};
use crate::time::Micros;

/// What an entry says to a request.
#[derive(Debug)]
pub(super) enum Step {
    /// The answer. `renews` when it is time to take the next batch.
    Decided {
        outcome: Outcome,
        source: Source,
        renews: bool,
    },
    /// Somebody's trip is under way and will tell.
    Wait(PendingCall),
    /// The store must be asked.
    Go,
}

#[derive(Debug)]
pub(super) struct Entry {
    /// Units that may be spent here, before ...
    left: u64,
    /// ... this moment.
    ends: Micros,
    /// At so many or fewer the next batch is taken.
    low: u64,
    /// When a unit was last spent.
    used: Micros,
    pace: Pace,
    /// As its check says, and nearer.
    is_eventual: bool,
    quota: Quota,
    /// Units left in the store when it last answered.
    remaining: u64,
    /// When the budget is full again.
    full_at: Micros,
    /// So many units more than `left` are not to be had ...
    short: u64,
    /// ... before this moment, as far as is believed, ...
    until: Micros,
    /// ... and before this one as the store said.
    retry_at: Micros,
    /// Leased: what the store counts as out for us. Eventual: what it has not been told.
    held: u64,
    /// While a trip is under way: leased, what it keeps; eventual, what it tells.
    spoken_for: u64,
    /// The name under which the store counts it; 0 when that is not known.
    generation: u64,
    /// When the window ends in which that was taken.
    edge: Micros,
    /// The store's time when it last answered, and ours.
    told_at: Micros,
    heard: Micros,
    /// The trip under way.
    flight: Option<PendingCall>,
    /// Whose counter it is; its cost means nothing.
    check: Box<DemandBuf>,
    /// It is in the queue of those that hold something, ...
    pub(super) is_watched: bool,
    /// ... in that of those that may be forgotten.
    pub(super) is_filed: bool,
}

impl Entry {
    pub(super) fn new(check: &Demand<'_>, now: Micros) -> Self {
        let mut entry = Self {
            left: 0,
            ends: Micros::ZERO,
            low: 0,
            used: now,
            pace: Pace::default(),
            is_eventual: check.key.consistency() == Consistency::Eventual,
            quota: *check.quota,
            remaining: check.quota.limit(),
            full_at: Micros::ZERO,
            short: 0,
            until: Micros::ZERO,
            retry_at: Micros::ZERO,
            held: 0,
            spoken_for: 0,
            generation: 0,
            edge: Micros::MAX,
            told_at: now,
            heard: now,
            flight: None,
            check: Box::new(check.to_buf()),
            is_watched: false,
            is_filed: false,
        };
        if entry.is_eventual {
            // Nobody waits for the first answer: what is admitted until then is within the quantum.
            (entry.left, entry.ends) = (entry.quantum(), Micros::MAX);
        }
        entry
    }

    /// The same counter by other numbers. What was taken by the old ones ends by itself; what the
    /// store was not told counts on, or every change would let a quantum through.
    pub(super) fn replaces(&mut self, old: &Self) {
        if self.is_eventual && old.is_eventual {
            self.held = old.held;
            self.left = self.quantum().saturating_sub(self.held);
        }
    }

    /// True when these are the numbers by which it was made.
    #[inline]
    pub(super) fn goes_by(&self, quota: &Quota) -> bool {
        self.quota == *quota
    }

    pub(super) const fn is_in_flight(&self) -> bool {
        self.flight.is_some()
    }

    pub(super) const fn flight(&self) -> Option<&PendingCall> {
        self.flight.as_ref()
    }

    pub(super) fn flies(&self, flight: &PendingCall) -> bool {
        self.flight.as_ref().is_some_and(|own| own.is(flight))
    }

    #[inline]
    pub(super) fn spend(&mut self, cost: u64, now: Micros) -> Step {
        if cost <= self.left && now < self.ends {
            self.left -= cost;
            self.used = now;
            self.pace.count(cost, now);
            if self.is_eventual {
                self.held += cost;
            }
            let renews = self.left <= self.low && self.flight.is_none() && now >= self.until;
            return Step::Decided {
                outcome: self.allowed(now),
                source: Source::Lease,
                renews,
            };
        }
        if let Some(outcome) = self.denied(cost, now) {
            self.pace.count(cost, now);
            self.used = now;
            return Step::Decided {
                outcome,
                source: Source::DenyCache,
                renews: false,
            };
        }
        self.flight.clone().map_or(Step::Go, Step::Wait)
    }

    /// What is left, for a request that is not charged: here and, as the store said, there.
    pub(super) fn add_held(&self, cost: u64, outcome: Outcome, now: Micros) -> Outcome {
        let left = self.live(now);
        let remaining = if self.is_eventual {
            outcome.remaining.saturating_sub(self.held)
        } else {
            outcome.remaining.saturating_add(left).min(outcome.limit)
        };
        let fits = cost <= left && cost <= outcome.limit;
        Outcome {
            verdict: if fits {
                Verdict::ALLOW
            } else {
                outcome.verdict
            },
            remaining,
            ..outcome
        }
    }

    /// Units given back by a request that took them here; false when they were not taken here, or
    /// are on their way.
    pub(super) fn refund(&mut self, cost: u64, now: Micros) -> bool {
        self.until = Micros::ZERO;
        self.take_back(cost, now)
    }

    /// The same for a request that was answered here and then refused, when `generation` was the
    /// name of the lease, and without a reason to think that more is to be had than before. What
    /// was taken of a window that is over is gone with it.
    pub(super) fn undo_spend(&mut self, cost: u64, generation: u64, now: Micros) -> bool {
        let is_window = self.quota.window_end(generation).is_some();
        if is_window && !self.is_eventual && self.generation != generation && self.generation != 0 {
            return true;
        }
        self.take_back(cost, now)
    }

    fn take_back(&mut self, cost: u64, now: Micros) -> bool {
        if now >= self.ends {
            return false;
        }
        // What a trip under way speaks for is settled.
        let spent = match (self.is_eventual, self.flight.is_some()) {
            (true, true) => self.held.saturating_sub(self.spoken_for),
            (true, false) => self.held,
            (false, true) => self.spoken_for.saturating_sub(self.left),
            (false, false) => self.held.saturating_sub(self.left),
        };
        let is_ours = cost <= spent;
        if is_ours {
            self.left += cost;
            self.held -= if self.is_eventual { cost } else { 0 };
        }
        is_ours
    }

    /// A request that was decided by the store together with others was refused by this limit.
    pub(super) fn learn_denial(&mut self, cost: u64, outcome: &Outcome, now: Micros) {
        if let Verdict::Deny { retry_after } = outcome.verdict {
            self.hear(outcome, now);
            self.believe(cost, retry_after, now);
        }
    }

    /// Counts a request that the store decides together with others; true when it is time to take a
    /// batch.
    pub(super) fn wants_batch(&mut self, cost: u64, now: Micros) -> bool {
        self.pace.count(cost, now);
        self.used = now;
        self.flight.is_none() && !self.is_eventual && now >= self.until && self.batch(cost, now) > 0
    }

    /// What to ask the store, and the trip that others may wait for from now on.
    pub(super) fn depart(
        &mut self,
        errand: CallPurpose,
        cost: u64,
        now: Micros,
    ) -> (LeaseRequest, PendingCall) {
        self.pace.count(cost, now);
        let flight = PendingCall::default();
        self.flight = Some(flight.clone());
        if self.is_eventual {
            self.spoken_for = self.held;
            return (
                LeaseRequest {
                    most: self.held,
                    ..LeaseRequest::default()
                },
                flight,
            );
        }
        let most = if errand == CallPurpose::Return {
            0
        } else {
            self.batch(cost, now)
        };
        let keep = if errand == CallPurpose::Renew {
            self.left
        } else {
            0
        };
        let back = self.left - keep;
        self.spoken_for = if self.generation == 0 { 0 } else { keep };
        let (generation, held) = (
            self.generation,
            if self.generation == 0 { 0 } else { self.held },
        );
        if generation == 0 {
            // Nobody knows under which name the store counts these, so they cannot go on into the
            // next lease.
            self.left = 0;
            return (
                LeaseRequest {
                    most,
                    is_lent: true,
                    ..LeaseRequest::default()
                },
                flight,
            );
        }
        self.left = keep;
        (
            LeaseRequest {
                most,
                is_lent: true,
                generation,
                held,
                keep,
                back,
            },
            flight,
        )
    }

    /// The store has answered. Says what to answer to the request that asked.
    pub(super) fn arrive(
        &mut self,
        asked: &CallRequest,
        given: &LeaseGrant,
        now: Micros,
    ) -> Option<Outcome> {
        self.flight = None;
        let (after, outcome) = self.quota.spend(given.seen, asked.cost, given.at)?;
        let passed = outcome.verdict.is_allowed();
        let (after, charged) = self.quota.spend(after, given.units, given.at)?;
        (self.told_at, self.heard) = (given.at, now);
        self.until = Micros::ZERO;
        self.hear(&charged, now);
        if self.is_eventual {
            self.held = self.held.saturating_sub(given.units);
            let room = self.quantum().saturating_sub(self.held);
            self.left = if passed {
                room.min(charged.remaining)
            } else {
                0
            };
            self.low = self.left / 4;
        } else {
            self.keep(asked, given);
        }
        if let Verdict::Deny { retry_after } = outcome.verdict {
            self.believe(asked.cost, retry_after, now);
            let retry_after = self.retry_at.max(self.until).since(now);
            return Some(Outcome {
                verdict: Verdict::Deny { retry_after },
                ..outcome
            });
        }
        if charged.remaining == 0 && passed && !matches!(self.quota, Quota::SlidingLog(_)) {
            // The store is dry. Asking it for more is of no use until something has gathered.
            let next = self.quota.outcome(after, 1, given.at)?;
            if let Verdict::Deny { retry_after } = next.verdict {
                self.believe(1, retry_after, now);
            }
        }
        Some(if passed {
            Outcome {
                verdict: outcome.verdict,
                ..self.allowed(now)
            }
        } else {
            outcome
        })
    }

    /// No answer came.
    pub(super) fn lose(&mut self, take: &LeaseRequest, lost: CallFailure) {
        self.flight = None;
        if self.is_eventual {
            // It may have been told, and is told again: that counts too much, never too little.
            return;
        }
        match lost {
            CallFailure::NotSent if take.generation != 0 => {
                self.left = self.left.saturating_add(take.back);
                self.generation = take.generation;
            }
            // The store may count what is left here under its old name or a new one. It is spent
            // until it ends.
            CallFailure::NotSent | CallFailure::Unknown => (self.generation, self.held) = (0, 0),
        }
        self.low = 0;
    }

    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn check(&self) -> &DemandBuf {
        &self.check
    }

    /// The moment on the store's timeline, as far as is known here.
    pub(super) fn store_time(&self, now: Micros) -> Micros {
        self.told_at.after(now.since(self.heard))
    }

    fn live(&self, now: Micros) -> u64 {
        if now < self.ends { self.left } else { 0 }
    }

    fn quantum(&self) -> u64 {
        pace::quantum(self.quota.limit(), self.check.replicas().get()).min(self.quota.limit())
    }

    fn batch(&self, cost: u64, now: Micros) -> u64 {
        // Hits of a log are stamped one by one.
        if matches!(self.quota, Quota::SlidingLog(_)) {
            return 0;
        }
        let left = if now < self.edge {
            self.edge.since(now)
        } else {
            Micros::MAX
        };
        self.pace.batch(self.quota.limit(), cost, left)
    }

    /// What was kept and what was given, as one lease.
    fn keep(&mut self, asked: &CallRequest, given: &LeaseGrant) {
        let kept = if given.is_kept { asked.take.keep } else { 0 };
        self.left = if given.is_kept { self.left } else { 0 }.saturating_add(given.units);
        self.held = kept.saturating_add(given.units);
        self.generation = if self.held > 0 { given.generation } else { 0 };
        let life = match self.quota.window_end(given.generation) {
            // A clock may run a tenth too slow here too.
            Some(edge) => {
                let window = edge.since(given.at);
                self.edge = asked.at.after(window);
                LIFE.min(Micros::new(window.get() - window.get().div_ceil(10)))
            }
            None => LIFE,
        };
        self.ends = asked.at.after(life);
        self.low = self.left / 4;
    }

    fn hear(&mut self, outcome: &Outcome, now: Micros) {
        self.remaining = outcome.remaining;
        self.full_at = now.after(outcome.reset_after);
    }

    /// So many units are not to be had for this long.
    fn believe(&mut self, short: u64, retry: Micros, now: Micros) {
        let retry = pace::retry(&self.quota, short, retry);
        self.short = short;
        self.retry_at = now.after(retry);
        self.until = now.after(pace::hold(&self.quota, retry));
    }

    #[inline]
    fn allowed(&self, now: Micros) -> Outcome {
        let limit = self.quota.limit();
        let remaining = if self.is_eventual {
            self.remaining.saturating_sub(self.held)
        } else {
            self.remaining.saturating_add(self.left).min(limit)
        };
        Outcome {
            verdict: Verdict::ALLOW,
            limit,
            remaining,
            reset_after: self.full_at.since(now),
        }
    }

    /// When so many units more are to be had than were asked of the store.
    #[cold]
    fn retry_for(&self, more: u64) -> Micros {
        match self.quota.refill_time(more) {
            Some(longer) => self.retry_at.after(longer),
            // Windows do not tell when more is to be had; when all of it is, it is.
            None => self.full_at.max(self.retry_at),
        }
    }

    /// The denial that is known to hold.
    #[inline]
    fn denied(&self, cost: u64, now: Micros) -> Option<Outcome> {
        if cost > self.quota.limit() {
            return Some(Outcome {
                verdict: Verdict::Never,
                ..self.allowed(now)
            });
        }
        let enough = self.live(now).saturating_add(self.short);
        if now >= self.until || cost < enough {
            return None;
        }
        let retry_at = match cost - enough {
            0 => self.retry_at,
            more => self.retry_for(more),
        };
        let retry_after = retry_at.max(self.until).since(now);
        Some(Outcome {
            verdict: Verdict::Deny { retry_after },
            ..self.allowed(now)
        })
    }
}
