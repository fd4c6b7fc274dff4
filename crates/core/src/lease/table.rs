//! The counters of which a process holds or knows something.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

use super::entry::{Asked, Entry, Lost, Step};
use super::flight::Flight;
use super::pace::{FORGET, KEYS_MAX, SWEEP_EVERY};
use super::trip::{Errand, Given, Take};
use crate::algorithm::Outcome;
use crate::clock::{Clock, SystemClock, Time};
use crate::decision::Source;
use crate::key::Key;
use crate::lock::{Guard, Padded};
use crate::memory::fingerprint::{Fingerprint, Fingerprinter};
use crate::store::{Check, CheckBuf, Sources, Spent};
use crate::time::Micros;

const SHARDS: usize = 64;

/// What a process holds of leased and eventual limits, and the denials it believes. Clones share everything.
#[derive(Clone)]
pub struct Leases {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Time,
    prints: Fingerprinter,
    shards: Box<[Padded<Shard>]>,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<Fingerprint, Entry, BuildHasherDefault<AsItIs>>,
    /// When to look at entries that hold something, in the order of time.
    soon: VecDeque<(Micros, Fingerprint)>,
    /// The same for those that may be forgotten.
    later: VecDeque<(Micros, Fingerprint)>,
}

/// Fingerprints are hashes already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a fingerprint is written as one number");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

impl Hash for Fingerprint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.low);
    }
}

/// What a request is told before any trip is made.
#[derive(Debug)]
pub enum Turn {
    /// The answer, and a trip to make in the background if it is time for one.
    Said(Said, Option<Trip>),
    /// Somebody's trip is under way; ask again when it has landed.
    Wait(Flight),
    /// Make this trip; it brings the answer.
    Go(Trip),
    /// Ask the store as for a strict limit, and make this trip in the background if there is one.
    Strict(Option<Trip>),
}

/// An answer that needed no trip.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// What the limit says.
    pub outcome: Outcome,
    /// From what.
    pub source: Source,
    /// The moment on the store's timeline, as far as is known here.
    pub at: Micros,
}

impl From<Said> for Spent {
    fn from(Said { outcome, source, at }: Said) -> Self {
        Self { outcomes: std::iter::once(outcome).collect(), sources: Sources::all(source), at }
    }
}

impl Default for Leases {
    fn default() -> Self {
        Self::with_time(Time::System(Arc::new(SystemClock::new())))
    }
}

impl Leases {
    /// Nothing held, on this process's own time: only lengths are measured by it, so it need not agree with anyone's.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_time(Time::Other(clock))
    }

    fn with_time(clock: Time) -> Self {
        let shards = (0..SHARDS).map(|_| Padded::default()).collect();
        Self { inner: Arc::new(Inner { clock, prints: Fingerprinter::random(), shards }) }
    }

    /// The answer if it is known here; `None` when a trip must be made or waited for, and then nothing has happened. A trip
    /// to make in the background comes with it when it is time for one.
    #[inline]
    pub fn spend_at_once(&self, check: &Check<'_>) -> Option<(Outcome, Source, Option<Box<Trip>>)> {
        let print = self.inner.prints.of(&check.key);
        let now = self.inner.clock.now();
        let mut shard = self.shard(print);
        let entry = shard.entries.get_mut(&print).filter(|entry| entry.goes_by(check.quota))?;
        let Step::Said { outcome, source, renews } = entry.spend(check.cost, now) else { return None };
        // A trip is large and seldom: in a box, nothing of its size is moved where there is none.
        let trip = if renews { Some(self.boxed_renewal(entry, print, now)) } else { None };
        if entry.is_unwatched() {
            shard.watch(print, now);
        }
        Some((outcome, source, trip))
    }

    /// What to answer to a single check, or how to come by an answer.
    pub fn spend(&self, check: &Check<'_>) -> Turn {
        self.take_turn(check, |entry, print, now, step| match step {
            Step::Wait(flight) => Turn::Wait(flight),
            _ => Turn::Go(self.depart(entry, print, Errand::Ask, Some(check), now)),
        })
    }

    /// The same for one check among several. When the answer is not known here they are put to the store together, and this
    /// says [`Turn::Strict`], with a trip to make in the background if it is time for one.
    pub fn spend_among(&self, check: &Check<'_>) -> Turn {
        self.take_turn(check, |entry, print, now, _| {
            let wants = entry.wants_batch(check.cost, now);
            Turn::Strict(wants.then(|| self.renewal(entry, print, now)))
        })
    }

    fn take_turn(
        &self,
        check: &Check<'_>,
        unknown: impl FnOnce(&mut Entry, Fingerprint, Micros, Step) -> Turn,
    ) -> Turn {
        let print = self.inner.prints.of(&check.key);
        let now = self.inner.clock.now();
        let mut shard = self.shard(print);
        let Some(entry) = shard.entry(print, check, now) else { return Turn::Strict(None) };
        let turn = match entry.spend(check.cost, now) {
            Step::Said { outcome, source, renews } => {
                let trip = renews.then(|| self.renewal(entry, print, now));
                Turn::Said(Said { outcome, source, at: entry.store_time(now) }, trip)
            }
            step => unknown(entry, print, now, step),
        };
        shard.watch(print, now);
        turn
    }

    /// A check that was put to the store among others has been refused by this limit.
    pub fn learn_denial(&self, check: &Check<'_>, outcome: &Outcome) {
        self.with(&check.key, |entry, now| entry.learn_denial(check.cost, outcome, now));
    }

    /// Gives back what a check took here; false when it did not take it here, and then the store is to be told.
    pub fn refund(&self, check: &Check<'_>) -> bool {
        self.with(&check.key, |entry, now| entry.refund(check.cost, now)).unwrap_or(false)
    }

    /// Undoes a check that was answered here, because another check of its request was refused; false when the store is to
    /// be told.
    pub fn unspend(&self, check: &Check<'_>) -> bool {
        self.with(&check.key, |entry, now| entry.unspend(check.cost, now)).unwrap_or(false)
    }

    /// The store's answer to a look, and what is held here beside it.
    pub fn add_left(&self, check: &Check<'_>, outcome: Outcome) -> Outcome {
        self.with(&check.key, |entry, now| entry.add_left(check.cost, outcome, now)).unwrap_or(outcome)
    }

    /// Forgets a counter, and what is held of it.
    pub fn forget(&self, key: &Key<'_>) {
        let print = self.inner.prints.of(key);
        self.shard(print).entries.remove(&print);
    }

    /// The trips that are due although nobody asks, and whether there is anything left to look after.
    pub fn sweep(&self) -> (Vec<Trip>, bool) {
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

    /// The trips that give back everything and tell everything, and those under way that may bring more.
    pub fn hand_back(&self) -> (Vec<Trip>, Vec<Flight>) {
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
        let held = |shard: &Padded<Shard>| shard.lock().entries.values().map(Entry::held).sum::<u64>();
        self.inner.shards.iter().map(held).sum()
    }

    /// Counters of which anything is known.
    pub fn keys(&self) -> usize {
        self.inner.shards.iter().map(|shard| shard.lock().entries.len()).sum()
    }

    #[inline]
    fn shard(&self, print: Fingerprint) -> Guard<'_, Shard> {
        self.inner.shards[print.high as usize & (SHARDS - 1)].lock()
    }

    fn with<T>(&self, key: &Key<'_>, then: impl FnOnce(&mut Entry, Micros) -> T) -> Option<T> {
        let print = self.inner.prints.of(key);
        let now = self.inner.clock.now();
        self.shard(print).entries.get_mut(&print).map(|entry| then(entry, now))
    }

    #[cold]
    fn boxed_renewal(&self, entry: &mut Entry, print: Fingerprint, now: Micros) -> Box<Trip> {
        Box::new(self.renewal(entry, print, now))
    }

    #[cold]
    fn renewal(&self, entry: &mut Entry, print: Fingerprint, now: Micros) -> Trip {
        self.depart(entry, print, Errand::Renew, None, now)
    }

    fn depart(
        &self,
        entry: &mut Entry,
        print: Fingerprint,
        errand: Errand,
        check: Option<&Check<'_>>,
        now: Micros,
    ) -> Trip {
        let cost = check.map_or(0, |check| check.cost);
        let (take, flight) = entry.depart(errand, cost, now);
        let check = match check {
            Some(check) => check.to_buf(),
            None => entry.check().clone().with_cost(0),
        };
        let asked = Asked { take, cost, at: now };
        Trip { leases: self.clone(), print, check, asked, flight, has_landed: false }
    }
}

/// How much it holds, and nothing of whom.
impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").field("keys", &self.keys()).finish_non_exhaustive()
    }
}

impl Shard {
    /// The entry of this counter, a new one if there is room for it.
    fn entry(&mut self, print: Fingerprint, check: &Check<'_>, now: Micros) -> Option<&mut Entry> {
        let mut entry = match self.entries.get(&print) {
            Some(entry) if entry.goes_by(check.quota) => return self.entries.get_mut(&print),
            // Its trip is about other numbers.
            Some(entry) if entry.is_in_flight() => return None,
            None if self.entries.len() >= KEYS_MAX / SHARDS => return None,
            _ => Entry::new(check, now),
        };
        if let Some(old) = self.entries.get(&print) {
            entry.replaces(old);
            (entry.is_filed, entry.is_watched) = (old.is_filed, old.is_watched);
        }
        self.entries.insert(print, entry);
        self.file(print, now);
        self.entries.get_mut(&print)
    }

    /// Has an entry looked at when it may be forgotten, unless it is in that queue already.
    fn file(&mut self, print: Fingerprint, now: Micros) {
        if let Some(entry) = self.entries.get_mut(&print).filter(|entry| !entry.is_filed) {
            entry.is_filed = true;
            self.later.push_back((now.after(FORGET), print));
        }
    }

    /// Has an entry that holds something looked after, unless it is already.
    #[inline]
    fn watch(&mut self, print: Fingerprint, now: Micros) {
        if let Some(entry) = self.entries.get_mut(&print).filter(|entry| entry.is_unwatched()) {
            entry.is_watched = true;
            self.soon.push_back((now.after(SWEEP_EVERY), print));
        }
    }

    /// Looks at the entries whose time has come, and forgets those that say nothing.
    fn due(&mut self, now: Micros, mut look: impl FnMut(&mut Entry, Fingerprint)) {
        while let Some(print) = next(&mut self.soon, now) {
            let Some(entry) = self.entries.get_mut(&print) else { continue };
            entry.is_watched = false;
            look(entry, print);
            self.watch(print, now);
            self.file(print, now);
        }
        while let Some(print) = next(&mut self.later, now) {
            let Some(entry) = self.entries.get_mut(&print) else { continue };
            entry.is_filed = false;
            if entry.is_worthless(now) {
                self.entries.remove(&print);
            } else {
                self.file(print, now);
            }
        }
        if self.entries.is_empty() {
            *self = Self::default();
        }
    }
}

/// The first of a queue, once its time has come.
fn next(queue: &mut VecDeque<(Micros, Fingerprint)>, now: Micros) -> Option<Fingerprint> {
    queue.pop_front_if(|(at, _)| *at <= now).map(|(_, print)| print)
}

/// A trip to the store about one counter. Whoever makes it says how it ended; if nobody does, it counts as lost.
pub struct Trip {
    leases: Leases,
    print: Fingerprint,
    check: CheckBuf,
    asked: Asked,
    flight: Flight,
    has_landed: bool,
}

impl Trip {
    /// The check to put to the store.
    pub fn check(&self) -> Check<'_> {
        self.check.as_check()
    }

    /// What to ask for beside it.
    pub const fn take(&self) -> &Take {
        &self.asked.take
    }

    /// The store has answered. Gives the answer to the request that asked; `None` when what the store said is of another
    /// algorithm.
    pub fn arrive(mut self, given: &Given) -> Option<Said> {
        let asked = self.asked;
        let said = self.land(|entry, now| {
            let outcome = entry.arrive(&asked, given, now)?;
            Some(Said { outcome, source: Source::Store, at: given.at })
        });
        // Forgotten meanwhile: the answer stands, and what was given is not spent.
        said.unwrap_or_else(|| {
            let outcome = self.check.quota.outcome(given.seen, asked.cost, given.at)?;
            Some(Said { outcome, source: Source::Store, at: given.at })
        })
    }

    /// No answer came.
    pub fn lose(mut self, lost: Lost) {
        self.give_up(lost);
    }

    fn give_up(&mut self, lost: Lost) {
        let take = self.asked.take;
        self.land(|entry, _| entry.lose(&take, lost));
    }

    /// Changes the entry, if it is still the one that sent this, and wakes those who wait.
    fn land<T>(&mut self, then: impl FnOnce(&mut Entry, Micros) -> T) -> Option<T> {
        self.has_landed = true;
        let now = self.leases.inner.clock.now();
        let landed = {
            let mut shard = self.leases.shard(self.print);
            let entry = shard.entries.get_mut(&self.print).filter(|entry| entry.flies(&self.flight));
            let landed = entry.map(|entry| then(entry, now));
            shard.watch(self.print, now);
            landed
        };
        self.flight.land();
        landed
    }
}

impl Drop for Trip {
    fn drop(&mut self) {
        if !self.has_landed {
            self.give_up(Lost::Unknown);
        }
    }
}

/// Without the key, which names a person.
impl fmt::Debug for Trip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trip").field("asked", &self.asked).finish_non_exhaustive()
    }
}
