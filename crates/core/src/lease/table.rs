//! The counters of which a process holds or knows something.

use std::fmt;
use std::sync::Arc;

use super::call::{CallPurpose, CallRequest, LeaseCall};
use super::entry::{Entry, Step};
use super::pending::PendingCall;
use super::shard::Shard;
use crate::algorithm::Outcome;
use crate::clock::{Clock, SystemClock, Time};
use crate::decision::Source;
use crate::key::Key;
use crate::lock::{Guard, Padded};
use crate::memory::fingerprint::{Fingerprint, Fingerprinter};
use crate::store::{Demand, OutcomeSources, SpendReply};
use crate::time::Micros;

pub(super) const SHARDS: usize = 64;

/// What a process holds of leased and eventual limits, and the denials it believes. Clones share
/// everything.
#[derive(Clone)]
pub struct LeaseTable {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Time,
    fingerprinter: Fingerprinter,
    shards: Box<[Padded<Shard>]>,
}

/// What a request is told before any trip is made.
#[derive(Debug)]
pub enum LeaseStep {
    /// The answer, and a trip to make in the background if it is time for one.
    Decided(LeaseOutcome, Option<LeaseCall>),
    /// Somebody's trip is under way; ask again when it has landed.
    Wait(PendingCall),
    /// Make this trip; it brings the answer.
    Call(LeaseCall),
    /// Ask the store as for a strict limit, and make this trip in the background if there is one.
    Strict(Option<LeaseCall>),
}

/// An answer that needed no trip.
#[derive(Clone, Copy, Debug)]
pub struct LeaseOutcome {
    /// What the limit says.
    pub outcome: Outcome,
    /// From what.
    pub source: Source,
    /// The moment on the store's timeline, as far as is known here.
    pub at: Micros,
    /// The name of the lease that it came from.
    pub(super) generation: u64,
}

impl From<LeaseOutcome> for SpendReply {
    fn from(
        LeaseOutcome {
            outcome,
            source,
            at,
            ..
        }: LeaseOutcome,
    ) -> Self {
        Self {
            outcomes: std::iter::once(outcome).collect(),
            sources: OutcomeSources::all(source),
            at,
        }
    }
}

impl Default for LeaseTable {
    fn default() -> Self {
        Self::with_time(Time::System(Arc::new(SystemClock::new())))
    }
}

impl LeaseTable {
    /// Nothing held, on this process's own time: only lengths are measured by it, so it need not
    /// agree with anyone's.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_time(Time::Other(clock))
    }

    fn with_time(clock: Time) -> Self {
        let shards = (0..SHARDS).map(|_| Padded::default()).collect();
        Self {
            inner: Arc::new(Inner {
                clock,
                fingerprinter: Fingerprinter::with_random_seeds(),
                shards,
            }),
        }
    }

    /// The answer if it is known here; `None` when a trip must be made or waited for, and then
    /// nothing has happened. A trip to make in the background comes with it when it is time for
    /// one.
    #[inline]
    pub fn try_spend(
        &self,
        check: &Demand<'_>,
    ) -> Option<(Outcome, Source, Option<Box<LeaseCall>>)> {
        let print = self.inner.fingerprinter.fingerprint(&check.key);
        let now = self.inner.clock.now();
        let mut shard = self.shard(print);
        let entry = shard
            .entries
            .get_mut(&print)
            .filter(|entry| entry.goes_by(check.quota))?;
        let Step::Decided {
            outcome,
            source,
            renews,
        } = entry.spend(check.cost, now)
        else {
            return None;
        };
        // A trip is large and seldom: in a box, nothing of its size is moved where there is none.
        let trip = if renews {
            Some(self.boxed_renewal(entry, print, now))
        } else {
            None
        };
        if entry.is_unwatched() {
            shard.watch(print, now);
        }
        Some((outcome, source, trip))
    }

    /// What to answer to a single check, or how to come by an answer.
    pub fn spend(&self, check: &Demand<'_>) -> LeaseStep {
        self.take_turn(check, |entry, print, now, step| match step {
            Step::Wait(flight) => LeaseStep::Wait(flight),
            _ => LeaseStep::Call(self.depart(entry, print, CallPurpose::Decide, Some(check), now)),
        })
    }

    /// The same for one check among several. When the answer is not known here they are put to the
    /// store together, and this says [`LeaseStep::Strict`], with a trip to make in the background if it
    /// is time for one.
    pub fn spend_jointly(&self, check: &Demand<'_>) -> LeaseStep {
        self.take_turn(check, |entry, print, now, _| {
            let wants = entry.wants_batch(check.cost, now);
            LeaseStep::Strict(wants.then(|| self.renewal(entry, print, now)))
        })
    }

    fn take_turn(
        &self,
        check: &Demand<'_>,
        unknown: impl FnOnce(&mut Entry, Fingerprint, Micros, Step) -> LeaseStep,
    ) -> LeaseStep {
        let print = self.inner.fingerprinter.fingerprint(&check.key);
        let now = self.inner.clock.now();
        let mut shard = self.shard(print);
        let Some(entry) = shard.entry(print, check, now) else {
            return LeaseStep::Strict(None);
        };
        let turn = match entry.spend(check.cost, now) {
            Step::Decided {
                outcome,
                source,
                renews,
            } => {
                let trip = renews.then(|| self.renewal(entry, print, now));
                LeaseStep::Decided(said(entry, outcome, source, now), trip)
            }
            step => unknown(entry, print, now, step),
        };
        shard.watch(print, now);
        turn
    }

    /// A check that was put to the store among others has been refused by this limit.
    pub fn learn_denial(&self, check: &Demand<'_>, outcome: &Outcome) {
        self.with(&check.key, |entry, now| {
            entry.learn_denial(check.cost, outcome, now)
        });
    }

    /// Gives back what a check took here; false when it did not take it here, and then the store is
    /// to be told.
    pub fn refund(&self, check: &Demand<'_>) -> bool {
        self.with(&check.key, |entry, now| entry.refund(check.cost, now))
            .unwrap_or(false)
    }

    /// Undoes a check that was answered here, because another check of its request was refused;
    /// false when the store is to be told.
    pub fn undo_spend(&self, check: &Demand<'_>, said: &LeaseOutcome) -> bool {
        let undo = |entry: &mut Entry, now| entry.undo_spend(check.cost, said.generation, now);
        self.with(&check.key, undo).unwrap_or(false)
    }

    /// The store's answer to a look, and what is held here beside it.
    pub fn add_held(&self, check: &Demand<'_>, outcome: Outcome) -> Outcome {
        self.with(&check.key, |entry, now| {
            entry.add_held(check.cost, outcome, now)
        })
        .unwrap_or(outcome)
    }

    /// Forgets a counter, and what is held of it.
    pub fn forget(&self, key: &Key<'_>) {
        let print = self.inner.fingerprinter.fingerprint(key);
        self.shard(print).entries.remove(&print);
    }

    /// The trips that are due although nobody asks, and whether there is anything left to look
    /// after.
    pub fn sweep(&self) -> (Vec<LeaseCall>, bool) {
        let now = self.inner.clock.now();
        let (mut trips, mut is_empty) = (Vec::new(), true);
        for shard in &self.inner.shards {
            let mut shard = shard.lock();
            shard.due(now, |entry, print| {
                if let Some(errand) = entry.due(now) {
                    trips.push(self.depart(entry, print, errand, None, now));
                }
            });
            is_empty &= shard.entries.is_empty();
        }
        (trips, !is_empty)
    }

    /// The trips that give back everything and tell everything, and those under way that may bring
    /// more.
    pub fn return_leases(&self) -> (Vec<LeaseCall>, Vec<PendingCall>) {
        let now = self.inner.clock.now();
        let (mut trips, mut flights) = (Vec::new(), Vec::new());
        for shard in &self.inner.shards {
            for (print, entry) in &mut shard.lock().entries {
                flights.extend(entry.flight().cloned());
                if let Some(errand) = entry.leaves() {
                    trips.push(self.depart(entry, *print, errand, None, now));
                }
            }
        }
        (trips, flights)
    }

    /// Units held of all keys: taken in advance, or counted and not told.
    pub fn units(&self) -> u64 {
        let held =
            |shard: &Padded<Shard>| shard.lock().entries.values().map(Entry::held).sum::<u64>();
        self.inner.shards.iter().map(held).sum()
    }

    /// Counters of which anything is known.
    pub fn keys(&self) -> usize {
        self.inner
            .shards
            .iter()
            .map(|shard| shard.lock().entries.len())
            .sum()
    }

    #[inline]
    fn shard(&self, print: Fingerprint) -> Guard<'_, Shard> {
        self.inner.shards[print.high as usize & (SHARDS - 1)].lock()
    }

    /// Changes the entry that sent a trip, if it is still there, and has it looked after.
    pub(super) fn settle<T>(
        &self,
        print: Fingerprint,
        flight: &PendingCall,
        then: impl FnOnce(&mut Entry, Micros) -> T,
    ) -> Option<T> {
        let now = self.inner.clock.now();
        let mut shard = self.shard(print);
        let entry = shard
            .entries
            .get_mut(&print)
            .filter(|entry| entry.flies(flight));
        let settled = entry.map(|entry| then(entry, now));
        shard.watch(print, now);
        settled
    }

    fn with<T>(&self, key: &Key<'_>, then: impl FnOnce(&mut Entry, Micros) -> T) -> Option<T> {
        let print = self.inner.fingerprinter.fingerprint(key);
        let now = self.inner.clock.now();
        self.shard(print)
            .entries
            .get_mut(&print)
            .map(|entry| then(entry, now))
    }

    #[cold]
    fn boxed_renewal(&self, entry: &mut Entry, print: Fingerprint, now: Micros) -> Box<LeaseCall> {
        Box::new(self.renewal(entry, print, now))
    }

    #[cold]
    fn renewal(&self, entry: &mut Entry, print: Fingerprint, now: Micros) -> LeaseCall {
        self.depart(entry, print, CallPurpose::Renew, None, now)
    }

    fn depart(
        &self,
        entry: &mut Entry,
        print: Fingerprint,
        errand: CallPurpose,
        check: Option<&Demand<'_>>,
        now: Micros,
    ) -> LeaseCall {
        let cost = check.map_or(0, |check| check.cost);
        let (take, flight) = entry.depart(errand, cost, now);
        let check = match check {
            Some(check) => check.to_buf(),
            None => entry.check().clone().with_cost(0),
        };
        let asked = CallRequest {
            take,
            cost,
            at: now,
        };
        LeaseCall::new(self.clone(), print, check, asked, flight)
    }
}

fn said(entry: &Entry, outcome: Outcome, source: Source, now: Micros) -> LeaseOutcome {
    LeaseOutcome {
        outcome,
        source,
        at: entry.store_time(now),
        generation: entry.generation(),
    }
}

/// How much it holds, and nothing of whom.
impl fmt::Debug for LeaseTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseTable")
            .field("keys", &self.keys())
            .finish_non_exhaustive()
    }
}
