//! The lease entries of an instance, by counter.

use std::fmt;
use std::sync::Arc;

use super::call::{LeaseCall, LeaseOutcome};
use super::entry::LeaseEntry;
use super::pending::PendingCall;
use super::request::CallPurpose;
use super::shard::{LeaseShard, LeaseShards};
use crate::algorithm::{CounterView, Outcome};
use crate::clock::{Clock, ClockSource};
use crate::consistency::Consistency;
use crate::demand::Demand;
use crate::key::{Fingerprint, Key};
use crate::store::Source;
use crate::time::Micros;

/// The units that an instance holds of leased and eventual limits, and its cached denials. Clones
/// share everything.
#[derive(Clone)]
pub struct LeaseTable {
    inner: Arc<LeaseShards>,
}

/// What to do for a demand before any store call is made.
#[derive(Debug)]
pub enum LeaseStep {
    /// The demand is decided. If there is a call, make it in the background.
    Decided(LeaseOutcome, Option<LeaseCall>),
    /// A call is in flight for this counter. Wait for its completion, then try again. If there is
    /// no time to wait, use [`LeaseTable::spend_in_request`].
    Wait(PendingCall),
    /// Make this call; its completion returns the outcome.
    Call(LeaseCall),
    /// Let the store decide the demand as for a strict limit. If there is a call, make it in the
    /// background.
    Strict(Option<LeaseCall>),
}

impl Default for LeaseTable {
    fn default() -> Self {
        Self::with_clock_source(ClockSource::default())
    }
}

impl LeaseTable {
    /// An empty table with its own clock. The clock only measures lengths of time, so it need not
    /// agree with the clock of the store or of other instances.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_clock_source(ClockSource::Custom(clock))
    }

    fn with_clock_source(clock: ClockSource) -> Self {
        Self {
            inner: Arc::new(LeaseShards::new(clock)),
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
        let decided = |_: &LeaseEntry, outcome, source, _| (outcome, source);
        let ((outcome, source), call) = self.try_spend_with(demand, decided)?;
        Some((outcome, source, call))
    }

    /// Whether [`try_spend`](Self::try_spend) would decide a demand. For a request with several, so
    /// that those which must go to the store are not measured twice.
    pub fn can_decide(&self, demand: &Demand<'_>) -> bool {
        let can_decide = |entry: &mut LeaseEntry, now| {
            entry.matches_quota(demand.quota()) && entry.can_decide(demand.cost, now)
        };
        self.with_entry(&demand.key, can_decide).unwrap_or(false)
    }

    /// Like [`try_spend`](Self::try_spend) for one demand of a request with several, which may have
    /// to be [undone](Self::undo_spend).
    pub fn try_spend_in_request(
        &self,
        demand: &Demand<'_>,
    ) -> Option<(LeaseOutcome, Option<Box<LeaseCall>>)> {
        self.try_spend_with(demand, lease_outcome)
    }

    /// Decides a demand locally, and returns what `extract` makes of the outcome.
    #[inline(always)]
    fn try_spend_with<T>(
        &self,
        demand: &Demand<'_>,
        extract: impl FnOnce(&LeaseEntry, Outcome, Source, Micros) -> T,
    ) -> Option<(T, Option<Box<LeaseCall>>)> {
        let fingerprint = self.inner.fingerprinter.fingerprint(&demand.key);
        let (now, mut shard) = self.inner.lock(fingerprint);
        let entry = shard
            .entries
            .get_mut(&fingerprint)
            .filter(|entry| entry.matches_quota(demand.quota()))?;
        let (outcome, source) = entry.spend(demand.cost, now)?;

        // A call is large and rare. In a box it does not have to be moved when there is none.
        let call = if source == Source::Lease && entry.is_renewal_due(now) {
            Some(self.boxed_renewal(entry, fingerprint, now))
        } else {
            None
        };
        let extracted = extract(entry, outcome, source, now);
        if entry.needs_sweep() {
            shard.queue_sweep(fingerprint, now);
        }
        Some((extracted, call))
    }

    /// Decides a single demand, or returns how to get it decided.
    pub fn spend(&self, demand: &Demand<'_>) -> LeaseStep {
        self.spend_or_else(demand, |entry, fingerprint, now| {
            if entry.pending.as_ref().is_some_and(PendingCall::is_overdue) {
                return LeaseStep::Strict(None);
            }
            if let Some(pending) = entry.wait_for_call(demand.cost) {
                return LeaseStep::Wait(pending);
            }
            let purpose = CallPurpose::Decide(demand);
            LeaseStep::Call(self.start_call(entry, fingerprint, purpose, now))
        })
    }

    /// Decides a demand without waiting for a lease call: one of a request with several, or one
    /// that has no time to wait.
    ///
    /// When it cannot be decided locally, the store decides the request, and this returns
    /// [`LeaseStep::Strict`], with a call to make in the background when it is time to lease a
    /// batch.
    pub fn spend_in_request(&self, demand: &Demand<'_>) -> LeaseStep {
        self.spend_or_else(demand, |entry, fingerprint, now| {
            let wants_batch = entry.wants_batch(demand.cost, now);
            LeaseStep::Strict(
                wants_batch.then(|| self.start_call(entry, fingerprint, CallPurpose::Renew, now)),
            )
        })
    }

    /// Decides a demand locally, or calls `otherwise` with its entry.
    fn spend_or_else(
        &self,
        demand: &Demand<'_>,
        otherwise: impl FnOnce(&mut LeaseEntry, Fingerprint, Micros) -> LeaseStep,
    ) -> LeaseStep {
        let fingerprint = self.inner.fingerprinter.fingerprint(&demand.key);
        let (now, mut shard) = self.inner.lock(fingerprint);
        let Some(entry) = shard.entry(fingerprint, demand, now) else {
            return LeaseStep::Strict(None);
        };

        let step = match entry.spend(demand.cost, now) {
            Some((outcome, source)) => {
                let is_renewal_due = source == Source::Lease && entry.is_renewal_due(now);
                let call = is_renewal_due
                    .then(|| self.start_call(entry, fingerprint, CallPurpose::Renew, now));
                LeaseStep::Decided(lease_outcome(entry, outcome, source, now), call)
            }
            None => otherwise(entry, fingerprint, now),
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

    /// Combines the store's outcome of a peek, and what it says of the counter, with the units held
    /// locally.
    pub fn add_local_units(
        &self,
        demand: &Demand<'_>,
        outcome: Outcome,
        counter: Option<&mut CounterView>,
    ) -> Outcome {
        let (combined, held) = self
            .with_entry(&demand.key, |entry, now| {
                let combined = entry.add_local_units(demand.cost, outcome, now);
                (combined, entry.held_units(now))
            })
            .unwrap_or((outcome, 0));

        if let Some(counter) = counter {
            // What remains more here is not used, and the other way round.
            let used = counter.used.saturating_add(outcome.remaining);
            counter.used = used.saturating_sub(combined.remaining);
            counter.held = (demand.key.consistency() == Consistency::Leased).then_some(held);
        }
        combined
    }

    /// Removes the entry of a counter and the units it holds.
    pub fn forget(&self, key: &Key<'_>) {
        let fingerprint = self.inner.fingerprinter.fingerprint(key);
        let (_, mut shard) = self.inner.lock(fingerprint);
        shard.entries.remove(&fingerprint);
    }

    /// Removes unneeded entries. Returns the calls that are due without a request,
    /// and whether the table still has entries.
    pub fn sweep(&self) -> (Vec<LeaseCall>, bool) {
        let now = self.inner.clock.now();
        let (mut calls, mut has_entries) = (Vec::new(), false);
        for shard in &self.inner.shards {
            let mut shard = shard.lock();
            shard.sweep(now, |entry, fingerprint| {
                if entry.is_return_due(now) {
                    calls.push(self.start_call(entry, fingerprint, CallPurpose::Return, now));
                } else {
                    entry.forget_ended_lease(now);
                }
            });
            has_entries |= !shard.entries.is_empty();
        }

        (calls, has_entries)
    }

    /// The calls that return or report all units, and the calls in flight that may still bring
    /// units.
    pub fn return_leases(&self) -> (Vec<LeaseCall>, Vec<PendingCall>) {
        let now = self.inner.clock.now();
        let (mut calls, mut pending_calls) = (Vec::new(), Vec::new());
        for shard in &self.inner.shards {
            for (fingerprint, entry) in &mut shard.lock().entries {
                if let Some(pending) = &entry.pending {
                    pending_calls.push(pending.clone());
                } else if entry.outstanding() > 0 {
                    calls.push(self.start_call(entry, *fingerprint, CallPurpose::Return, now));
                }
            }
        }

        (calls, pending_calls)
    }

    /// Units held of all keys: leased in advance, or spent locally and not yet reported.
    pub fn units(&self) -> u64 {
        let held = |entries: &LeaseShard| {
            entries
                .entries
                .values()
                .map(LeaseEntry::outstanding)
                .sum::<u64>()
        };
        let shards = self.inner.shards.iter();
        shards.map(|shard| held(&shard.lock())).sum()
    }

    /// The number of counters with an entry.
    pub fn keys(&self) -> usize {
        let shards = self.inner.shards.iter();
        shards.map(|shard| shard.lock().entries.len()).sum()
    }

    fn with_entry<T>(
        &self,
        key: &Key<'_>,
        update: impl FnOnce(&mut LeaseEntry, Micros) -> T,
    ) -> Option<T> {
        let fingerprint = self.inner.fingerprinter.fingerprint(key);
        let (now, mut shard) = self.inner.lock(fingerprint);
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
        Box::new(self.start_call(entry, fingerprint, CallPurpose::Renew, now))
    }

    fn start_call(
        &self,
        entry: &mut LeaseEntry,
        fingerprint: Fingerprint,
        purpose: CallPurpose<'_>,
        now: Micros,
    ) -> LeaseCall {
        LeaseCall::start(&self.inner, fingerprint, entry, purpose, now)
    }
}

/// The outcome of a demand that an entry has decided, with what undoing it needs.
fn lease_outcome(
    entry: &LeaseEntry,
    outcome: Outcome,
    source: Source,
    now: Micros,
) -> LeaseOutcome {
    LeaseOutcome {
        outcome,
        source,
        at: entry.store_time(now),
        generation: entry.generation(),
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
