//! The lease entries of an instance, by counter.

use std::fmt;
use std::sync::Arc;

use super::call::{CallPurpose, CallRequest, LeaseCall};
use super::entry::{EntryStep, LeaseEntry};
use super::pending::PendingCall;
use super::shard::LeaseShard;
use crate::algorithm::Outcome;
use crate::clock::{Clock, ClockSource, SystemClock};
use crate::demand::Demand;
use crate::key::Key;
use crate::lock::{PaddedGuard, PaddedMutex};
use crate::memory::fingerprint::{Fingerprint, Fingerprinter};
use crate::store::Source;
use crate::store::SpendReply;
use crate::time::Micros;

/// The number of shards, a power of two.
pub(super) const SHARDS: usize = 64;

/// The units that an instance holds of leased and eventual limits, and its cached denials. Clones
/// share everything.
#[derive(Clone)]
pub struct LeaseTable {
    inner: Arc<Inner>,
}

struct Inner {
    clock: ClockSource,
    fingerprinter: Fingerprinter,
    shards: Box<[PaddedMutex<LeaseShard>]>,
}

/// What to do for a demand before any store call is made.
#[derive(Debug)]
pub enum LeaseStep {
    /// The demand is decided. If there is a call, make it in the background.
    Decided(LeaseOutcome, Option<LeaseCall>),
    /// A call is in flight for this counter. Wait for its completion, then try again.
    Wait(PendingCall),
    /// Make this call; its completion returns the outcome.
    Call(LeaseCall),
    /// Let the store decide the demand as for a strict limit. If there is a call, make it in the
    /// background.
    Strict(Option<LeaseCall>),
}

/// The outcome of a demand for a leased or eventual limit.
#[derive(Clone, Copy, Debug)]
pub struct LeaseOutcome {
    /// The outcome of the limit.
    pub outcome: Outcome,
    /// Where the outcome came from: a lease, the deny cache or the store.
    pub source: Source,
    /// The moment of the decision on the store's timeline, extrapolated if no store call was
    /// made.
    pub at: Micros,
    /// The generation of the lease from which the units came.
    pub(super) generation: u64,
}

impl From<LeaseOutcome> for SpendReply {
    fn from(decided: LeaseOutcome) -> Self {
        Self::from_sources([(decided.outcome, decided.source)], decided.at)
    }
}

impl Default for LeaseTable {
    fn default() -> Self {
        Self::with_clock_source(ClockSource::System(Arc::new(SystemClock::new())))
    }
}

impl LeaseTable {
    /// An empty table with its own clock. The clock only measures lengths of time, so it need not
    /// agree with the clock of the store or of other instances.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_clock_source(ClockSource::Custom(clock))
    }

    fn with_clock_source(clock: ClockSource) -> Self {
        let shards = (0..SHARDS).map(|_| PaddedMutex::default()).collect();
        Self {
            inner: Arc::new(Inner {
                clock,
                fingerprinter: Fingerprinter::with_random_seeds(),
                shards,
            }),
        }
    }

    /// Decides a demand if that is possible locally. Returns `None` without any effect when a store
    /// call must be made or waited for. The outcome comes with a call to make in the background
    /// when it is time to renew the lease.
    #[inline]
    pub fn try_spend(
        &self,
        demand: &Demand<'_>,
    ) -> Option<(Outcome, Source, Option<Box<LeaseCall>>)> {
        let fingerprint = self.inner.fingerprinter.fingerprint(&demand.key);
        let now = self.inner.clock.now();
        let mut shard = self.shard(fingerprint);
        let entry = shard
            .entries
            .get_mut(&fingerprint)
            .filter(|entry| entry.matches_quota(demand.quota()))?;

        let EntryStep::Decided {
            outcome,
            source,
            is_renewal_due,
        } = entry.spend(demand.cost, now)
        else {
            return None;
        };

        // A call is large and rare. In a box it does not have to be moved when there is none.
        let call = if is_renewal_due {
            Some(self.boxed_renewal(entry, fingerprint, now))
        } else {
            None
        };
        if entry.needs_sweep() {
            shard.queue_sweep(fingerprint, now);
        }
        Some((outcome, source, call))
    }

    /// Decides a single demand, or returns how to get it decided.
    pub fn spend(&self, demand: &Demand<'_>) -> LeaseStep {
        self.spend_or_else(demand, |entry, fingerprint, now, step| {
            if let EntryStep::Wait(pending) = step {
                return LeaseStep::Wait(pending);
            }
            let purpose = CallPurpose::Decide;
            LeaseStep::Call(self.start_call(entry, fingerprint, purpose, Some(demand), now))
        })
    }

    /// Decides one demand of a request with several.
    ///
    /// When it cannot be decided locally, the store decides all of them together, and this returns
    /// [`LeaseStep::Strict`], with a call to make in the background when it is time to lease a
    /// batch.
    pub fn spend_in_request(&self, demand: &Demand<'_>) -> LeaseStep {
        self.spend_or_else(demand, |entry, fingerprint, now, _| {
            let wants_batch = entry.wants_batch(demand.cost, now);
            LeaseStep::Strict(wants_batch.then(|| self.renewal(entry, fingerprint, now)))
        })
    }

    /// Decides a demand locally, or calls `otherwise` with its entry.
    fn spend_or_else(
        &self,
        demand: &Demand<'_>,
        otherwise: impl FnOnce(&mut LeaseEntry, Fingerprint, Micros, EntryStep) -> LeaseStep,
    ) -> LeaseStep {
        let fingerprint = self.inner.fingerprinter.fingerprint(&demand.key);
        let now = self.inner.clock.now();
        let mut shard = self.shard(fingerprint);
        let Some(entry) = shard.entry(fingerprint, demand, now) else {
            return LeaseStep::Strict(None);
        };

        let step = match entry.spend(demand.cost, now) {
            EntryStep::Decided {
                outcome,
                source,
                is_renewal_due,
            } => {
                let call = is_renewal_due.then(|| self.renewal(entry, fingerprint, now));
                let decided = LeaseOutcome {
                    outcome,
                    source,
                    at: entry.store_time(now),
                    generation: entry.generation(),
                };
                LeaseStep::Decided(decided, call)
            }
            step => otherwise(entry, fingerprint, now, step),
        };

        shard.queue_sweep(fingerprint, now);
        step
    }

    /// Caches a denial by the store of one demand of a request with several.
    pub fn cache_denial(&self, demand: &Demand<'_>, outcome: &Outcome) {
        self.with_entry(&demand.key, |entry, now| {
            entry.cache_denial(demand.cost, outcome, now);
        });
    }

    /// Refunds units that a demand spent locally. Returns false when it did not spend them locally;
    /// the store must then refund them.
    pub fn refund(&self, demand: &Demand<'_>) -> bool {
        self.with_entry(&demand.key, |entry, now| entry.refund(demand.cost, now))
            .unwrap_or(false)
    }

    /// Undoes a demand that was decided locally, because another demand of its request was denied.
    /// Returns false when the store must refund the units.
    pub fn undo_spend(&self, demand: &Demand<'_>, decided: &LeaseOutcome) -> bool {
        let undo =
            |entry: &mut LeaseEntry, now| entry.undo_spend(demand.cost, decided.generation, now);
        self.with_entry(&demand.key, undo).unwrap_or(false)
    }

    /// Combines the store's outcome of a peek with the units held locally.
    pub fn add_local_units(&self, demand: &Demand<'_>, outcome: Outcome) -> Outcome {
        self.with_entry(&demand.key, |entry, now| {
            entry.add_local_units(demand.cost, outcome, now)
        })
        .unwrap_or(outcome)
    }

    /// Removes the entry of a counter and the units it holds.
    pub fn forget(&self, key: &Key<'_>) {
        let fingerprint = self.inner.fingerprinter.fingerprint(key);
        self.shard(fingerprint).entries.remove(&fingerprint);
    }

    /// Removes unneeded entries. Returns the calls that are due without a request,
    /// and whether the table still has entries.
    pub fn sweep(&self) -> (Vec<LeaseCall>, bool) {
        let now = self.inner.clock.now();
        let (mut calls, mut is_empty) = (Vec::new(), true);
        for shard in &self.inner.shards {
            let mut shard = shard.lock();
            shard.sweep(now, |entry, fingerprint| {
                if let Some(purpose) = entry.due_call(now) {
                    calls.push(self.start_call(entry, fingerprint, purpose, None, now));
                }
            });
            is_empty &= shard.entries.is_empty();
        }

        (calls, !is_empty)
    }

    /// The calls that return or report all units, and the calls in flight that may still bring
    /// units.
    pub fn return_leases(&self) -> (Vec<LeaseCall>, Vec<PendingCall>) {
        let now = self.inner.clock.now();
        let (mut calls, mut pending_calls) = (Vec::new(), Vec::new());
        for shard in &self.inner.shards {
            for (fingerprint, entry) in &mut shard.lock().entries {
                pending_calls.extend(entry.pending_call().cloned());
                if let Some(purpose) = entry.final_call() {
                    calls.push(self.start_call(entry, *fingerprint, purpose, None, now));
                }
            }
        }

        (calls, pending_calls)
    }

    /// Units held of all keys: leased in advance, or spent locally and not yet reported.
    pub fn units(&self) -> u64 {
        let units = |shard: &PaddedMutex<LeaseShard>| {
            let shard = shard.lock();
            shard
                .entries
                .values()
                .map(LeaseEntry::outstanding)
                .sum::<u64>()
        };
        self.inner.shards.iter().map(units).sum()
    }

    /// The number of counters with an entry.
    pub fn keys(&self) -> usize {
        self.inner
            .shards
            .iter()
            .map(|shard| shard.lock().entries.len())
            .sum()
    }

    #[inline]
    fn shard(&self, fingerprint: Fingerprint) -> PaddedGuard<'_, LeaseShard> {
        self.inner.shards[fingerprint.high as usize & (SHARDS - 1)].lock()
    }

    /// Updates the entry that started a call, if it still exists, and adds it to the sweep queue if
    /// it holds units.
    pub(super) fn finish_call<T>(
        &self,
        fingerprint: Fingerprint,
        call: &PendingCall,
        update: impl FnOnce(&mut LeaseEntry, Micros) -> T,
    ) -> Option<T> {
        let now = self.inner.clock.now();
        let mut shard = self.shard(fingerprint);
        let entry = shard
            .entries
            .get_mut(&fingerprint)
            .filter(|entry| entry.is_pending_call(call));

        let result = entry.map(|entry| update(entry, now));
        shard.queue_sweep(fingerprint, now);
        result
    }

    fn with_entry<T>(
        &self,
        key: &Key<'_>,
        update: impl FnOnce(&mut LeaseEntry, Micros) -> T,
    ) -> Option<T> {
        let fingerprint = self.inner.fingerprinter.fingerprint(key);
        let now = self.inner.clock.now();
        let mut shard = self.shard(fingerprint);
        let entry = shard.entries.get_mut(&fingerprint);
        entry.map(|entry| update(entry, now))
    }

    #[cold]
    fn boxed_renewal(
        &self,
        entry: &mut LeaseEntry,
        fingerprint: Fingerprint,
        now: Micros,
    ) -> Box<LeaseCall> {
        Box::new(self.renewal(entry, fingerprint, now))
    }

    #[cold]
    fn renewal(&self, entry: &mut LeaseEntry, fingerprint: Fingerprint, now: Micros) -> LeaseCall {
        self.start_call(entry, fingerprint, CallPurpose::Renew, None, now)
    }

    /// Starts a call for `demand`, or a call that spends nothing if there is none.
    fn start_call(
        &self,
        entry: &mut LeaseEntry,
        fingerprint: Fingerprint,
        purpose: CallPurpose,
        demand: Option<&Demand<'_>>,
        now: Micros,
    ) -> LeaseCall {
        let cost = demand.map_or(0, |demand| demand.cost);
        let (lease, pending) = entry.start_call(purpose, cost, now);

        let demand = match demand {
            Some(demand) => demand.to_buf(),
            None => entry.demand().clone().with_cost(0),
        };
        let request = CallRequest {
            lease,
            cost,
            sent_at: now,
        };
        LeaseCall::new(self.clone(), fingerprint, demand, request, pending)
    }
}

/// Shows the number of keys only, not the keys.
impl fmt::Debug for LeaseTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseTable")
            .field("keys", &self.keys())
            .finish_non_exhaustive()
    }
}
