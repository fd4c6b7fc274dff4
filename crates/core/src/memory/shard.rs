//! One shard of the counters: a table of slots and a side table, and how a demand is evaluated and
//! committed.

use super::fingerprint::Fingerprint;
use super::key_cap::KeyCap;
use super::side_table::{SideState, SideTable};
use super::slot::{Kind, QuotaUsage, Slot};
use super::slot_quota::{SlotQuota, SlotUpdate};
use super::slot_table::SlotTable;
use crate::algorithm::{
    Concurrency, HitLog, Outcome, PermitEntry, PermitId, Permits, Quota, SlidingLog, Verdict,
};
use crate::demand::Demand;
use crate::time::Micros;

/// The result of [`CounterShard::evaluate`], for [`CounterShard::commit`] while the shard stays
/// locked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Evaluation {
    /// The state fits into a slot.
    Slot(SlotUpdate),
    /// The state is in the side table.
    Side(Outcome),
}

impl Evaluation {
    pub(super) const fn outcome(&self) -> Outcome {
        match self {
            Self::Slot(update) => update.outcome,
            Self::Side(outcome) => *outcome,
        }
    }

    /// Returns true when the state must be stored even if nothing is spent: the clock was set back,
    /// or the parameters of a bucket have changed.
    pub(super) const fn must_store(&self) -> bool {
        matches!(
            self,
            Self::Slot(SlotUpdate {
                must_store: true,
                ..
            })
        )
    }
}

/// One demand and everything a shard needs to decide it.
#[derive(Clone, Copy, Debug)]
pub(super) struct DemandContext<'a> {
    pub(super) demand: &'a Demand<'a>,
    pub(super) fingerprint: Fingerprint,
    pub(super) permit_id: PermitId,
    pub(super) now: Micros,
    pub(super) key_cap: &'a KeyCap,
}

/// What a key starts with that the store does not know. It is used only after the key was not
/// found.
#[derive(Clone, Copy, Debug)]
pub(super) enum InitialState {
    /// The whole quota.
    Full,
    /// A bucket that was empty at this moment and has been refilling since. So evicting a bucket
    /// that is full again changes nothing here either. Other states than buckets start full.
    EmptySince(Micros),
}

impl InitialState {
    fn slot(self, quota: &Quota, fingerprint: Fingerprint) -> Option<Slot> {
        let Self::EmptySince(moment) = self else {
            return None;
        };
        match quota {
            Quota::TokenBucket(quota) => Some(Slot::empty_bucket(fingerprint, &quota.gcra, moment)),
            Quota::LeakyBucket(quota) => Some(Slot::empty_bucket(fingerprint, &quota.gcra, moment)),
            _ => None,
        }
    }
}

/// What to do with a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PermitChange {
    Release,
    Renew,
}

/// The index that [`CounterShard::find`] returns for the counter in the hot slot.
const HOT_INDEX: usize = usize::MAX;

/// A shard keeps a copy of one counter, the hot slot, on its first cache line, which it shares with
/// the lock. A key that is checked twice in a row moves into the hot slot. While it is checked
/// again and again, no other memory is touched. The copy in the table is out of date meanwhile.
#[derive(Debug)]
#[repr(C)]
pub(super) struct CounterShard {
    hot_slot: Slot,
    /// The low bits of the fingerprint of the last key, if that was not the hot one. The field
    /// is on the next cache line, which checks of the hot key only read.
    last_low: u64,
    table: SlotTable,
    pub(super) side_table: SideTable,
    /// Changes with every eviction, to break ties differently each time.
    eviction_salt: u64,
}

impl Default for CounterShard {
    fn default() -> Self {
        Self {
            hot_slot: Slot::VACANT,
            last_low: 0,
            table: SlotTable::default(),
            side_table: SideTable::default(),
            eviction_salt: 0,
        }
    }
}

impl CounterShard {
    pub(super) fn keys(&self) -> usize {
        self.table.live()
    }

    pub(super) fn slots(&self) -> usize {
        self.table.slots()
    }

    #[inline(always)]
    pub(super) fn find(&self, fingerprint: Fingerprint) -> Option<usize> {
        if self.hot_slot.holds(fingerprint) {
            Some(HOT_INDEX)
        } else {
            self.table.find(fingerprint)
        }
    }

    /// Reads the memory where the search for a counter begins, see [`SlotTable::touch`].
    #[inline(always)]
    pub(super) fn touch(&self, fingerprint: Fingerprint) -> u64 {
        self.table.touch(fingerprint)
    }

    /// Moves a key into the hot slot when it was the last key too. `index` is where it was found.
    #[inline(always)]
    pub(super) fn update_hot_slot(&mut self, index: Option<usize>, fingerprint: Fingerprint) {
        if index != Some(HOT_INDEX) {
            if self.last_low == fingerprint.low {
                self.replace_hot_slot(fingerprint);
            }
            self.last_low = fingerprint.low;
        } else if self.last_low != 0 {
            self.last_low = 0;
        }
    }

    #[cold]
    fn replace_hot_slot(&mut self, fingerprint: Fingerprint) {
        self.flush_hot_slot();
        self.hot_slot = self
            .table
            .find(fingerprint)
            .map_or(Slot::VACANT, |index| *self.table.get(index));
    }

    /// Writes the hot slot back to the table and vacates it.
    fn flush_hot_slot(&mut self) {
        if let Some(index) = self
            .table
            .find(self.hot_slot.fingerprint())
            .filter(|_| !self.hot_slot.is_vacant())
        {
            self.table.set(index, self.hot_slot);
        }
        self.hot_slot = Slot::VACANT;
    }

    /// The table, brought up to date. Only the path of a single demand works without this.
    pub(super) fn flushed_table(&mut self) -> &mut SlotTable {
        self.flush_hot_slot();
        &mut self.table
    }

    /// A number that differs from the previous one in many bits.
    pub(super) fn next_salt(&mut self) -> u64 {
        self.eviction_salt = self.eviction_salt.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.eviction_salt
    }

    #[inline(always)]
    fn slot(&self, index: usize) -> &Slot {
        if index == HOT_INDEX {
            &self.hot_slot
        } else {
            self.table.get(index)
        }
    }

    #[inline(always)]
    fn set(&mut self, index: usize, slot: Slot) {
        if index == HOT_INDEX {
            self.hot_slot = slot;
        } else {
            self.table.set(index, slot);
        }
    }

    /// The fast path, which evaluates and commits in one step: a known key whose state fits into a
    /// slot, to be charged. Returns `None` without any effect when the state is in the side table.
    #[inline(always)]
    pub(super) fn spend_at<T>(
        &mut self,
        index: usize,
        context: &DemandContext<'_>,
        map: impl FnOnce(Outcome) -> T,
    ) -> Option<T> {
        match context.demand.quota() {
            Quota::SlidingWindow(quota) => Some(map(self.spend_in_slot(index, quota, context))),
            Quota::TokenBucket(quota) => Some(map(self.spend_in_slot(index, quota, context))),
            Quota::LeakyBucket(quota) => Some(map(self.spend_in_slot(index, quota, context))),
            Quota::FixedWindow(quota) => Some(map(self.spend_in_slot(index, quota, context))),
            Quota::SlidingLog(_) | Quota::Concurrency(_) => None,
        }
    }

    #[inline(always)]
    fn spend_in_slot(
        &mut self,
        index: usize,
        quota: &impl SlotQuota,
        context: &DemandContext<'_>,
    ) -> Outcome {
        let cost = context.demand.cost;
        let slot = Some(self.slot(index));
        let update = quota.evaluate_slot(slot, context.fingerprint, cost, context.now);

        if (update.outcome.verdict.is_allowed() && cost > 0) || update.must_store {
            self.set(index, update.next);
        }
        update.outcome
    }

    /// Evaluates a demand. Logs and permits are pruned, which changes no outcome; nothing else is
    /// changed.
    pub(super) fn evaluate(
        &mut self,
        index: Option<usize>,
        context: &DemandContext<'_>,
        initial_state: InitialState,
    ) -> Evaluation {
        let &DemandContext {
            demand,
            fingerprint,
            now,
            ..
        } = context;
        let cost = demand.cost;

        let slot = match index {
            Some(index) => Some(*self.slot(index)),
            None => initial_state.slot(demand.quota(), fingerprint),
        };

        let update = match demand.quota() {
            Quota::SlidingWindow(quota) => {
                quota.evaluate_slot(slot.as_ref(), fingerprint, cost, now)
            }
            Quota::TokenBucket(quota) => quota.evaluate_slot(slot.as_ref(), fingerprint, cost, now),
            Quota::LeakyBucket(quota) => quota.evaluate_slot(slot.as_ref(), fingerprint, cost, now),
            Quota::FixedWindow(quota) => quota.evaluate_slot(slot.as_ref(), fingerprint, cost, now),
            Quota::SlidingLog(quota) => {
                return Evaluation::Side(self.evaluate_log(slot, quota, cost, now));
            }
            Quota::Concurrency(quota) => {
                return Evaluation::Side(self.evaluate_permits(slot, quota, cost, now));
            }
        };
        Evaluation::Slot(update)
    }

    /// The outcome of a demand that fits and is not charged: its verdict, and what is left without
    /// charging it.
    pub(super) fn evaluate_uncharged(
        &mut self,
        index: Option<usize>,
        verdict: Verdict,
        context: &DemandContext<'_>,
        initial_state: InitialState,
    ) -> Outcome {
        let free_demand = Demand {
            cost: 0,
            ..*context.demand
        };
        let context = DemandContext {
            demand: &free_demand,
            ..*context
        };

        let evaluation = self.evaluate(index, &context, initial_state);
        if evaluation.must_store() {
            self.commit(index, &evaluation, &context);
        }
        Outcome {
            verdict,
            ..evaluation.outcome()
        }
    }

    /// Stores the result of [`evaluate`](Self::evaluate). The slot of a new counter (`index` is
    /// `None`) must have been charged to the cap. Returns by how many keys the store now exceeds
    /// its cap, which happens when a log or the number of permits grows.
    pub(super) fn commit(
        &mut self,
        index: Option<usize>,
        evaluation: &Evaluation,
        context: &DemandContext<'_>,
    ) -> usize {
        match (evaluation, index) {
            (Evaluation::Slot(update), Some(index)) => self.set(index, update.next),
            (Evaluation::Slot(update), None) => self.insert(update.next),
            (Evaluation::Side(_), _) => return self.commit_side(index, context),
        }

        0
    }

    /// Refunds the cost of a demand to the counter at `index`.
    pub(super) fn refund(
        &mut self,
        index: usize,
        demand: &Demand<'_>,
        now: Micros,
        key_cap: &KeyCap,
    ) {
        let slot = *self.slot(index);
        let cost = demand.cost;
        let refunded = match demand.quota() {
            Quota::FixedWindow(quota) => quota.refund_slot(&slot, cost, now),
            Quota::SlidingWindow(quota) => quota.refund_slot(&slot, cost, now),
            Quota::TokenBucket(quota) => quota.refund_slot(&slot, cost, now),
            Quota::LeakyBucket(quota) => quota.refund_slot(&slot, cost, now),
            Quota::SlidingLog(quota) => {
                if let Some(SideState::Log(log)) = self.side_state_mut(&slot) {
                    quota.prune(log, now);
                    log.refund(cost);
                }
                self.update_side_slot(index, demand.quota(), key_cap);
                return;
            }
            Quota::Concurrency(_) => return,
        };

        self.set(index, refunded);
    }

    /// Releases or renews a permit of the counter at `index`. Returns false when the permit has
    /// expired or was released before.
    pub(super) fn change_permit(
        &mut self,
        index: usize,
        change: PermitChange,
        context: &DemandContext<'_>,
    ) -> bool {
        let Quota::Concurrency(quota) = context.demand.quota() else {
            return false;
        };
        let slot = *self.slot(index);
        let Some(SideState::Permits(permits)) = self.side_state_mut(&slot) else {
            return false;
        };

        Concurrency::prune(permits, context.now);
        let removed = permits.remove(context.permit_id);
        if let (PermitChange::Renew, Some(PermitEntry { id, cost, .. })) = (change, removed) {
            let timeout = quota.permit_timeout;
            permits.insert(PermitEntry::new(id, cost, timeout, context.now));
        }

        self.update_side_slot(index, context.demand.quota(), context.key_cap);
        removed.is_some()
    }

    /// Adds a slot whose fingerprint is not in the table. It must have been charged to the cap.
    pub(super) fn insert(&mut self, slot: Slot) {
        self.table.reserve_one();
        self.table.insert(slot);
    }

    /// Adds a counter from a snapshot. Its slot must have been charged to the cap.
    pub(super) fn restore(&mut self, slot: Slot, side: Option<SideState>, key_cap: &KeyCap) {
        let Some(state) = side else {
            return self.insert(slot);
        };

        let index = self.side_table.insert(state);
        self.insert(slot.with_side_index(index));
        if let Some(entry) = self.side_table.get_mut(index) {
            entry.update_charge(key_cap);
        }
    }

    /// Removes a counter, if there is one.
    pub(super) fn remove(&mut self, fingerprint: Fingerprint, key_cap: &KeyCap) {
        let Some(index) = self.flushed_table().find(fingerprint) else {
            return;
        };
        let slot = *self.table.get(index);
        self.table.remove(index);
        key_cap.release(1 + self.remove_side(&slot));
    }

    /// The log or the permits to which a slot refers.
    fn side_state_mut(&mut self, slot: &Slot) -> Option<&mut SideState> {
        let entry = self.side_table.get_mut(slot.side_index())?;
        Some(&mut entry.state)
    }

    fn evaluate_log(
        &mut self,
        slot: Option<Slot>,
        quota: &SlidingLog,
        cost: u64,
        now: Micros,
    ) -> Outcome {
        match slot.and_then(|slot| self.side_state_mut(&slot)) {
            Some(SideState::Log(log)) => {
                quota.prune(log, now);
                quota.evaluate(log, cost, now)
            }
            _ => quota.evaluate(&HitLog::default(), cost, now),
        }
    }

    fn evaluate_permits(
        &mut self,
        slot: Option<Slot>,
        quota: &Concurrency,
        cost: u64,
        now: Micros,
    ) -> Outcome {
        match slot.and_then(|slot| self.side_state_mut(&slot)) {
            Some(SideState::Permits(permits)) => {
                Concurrency::prune(permits, now);
                quota.evaluate(permits, cost, now)
            }
            _ => quota.evaluate(&Permits::default(), cost, now),
        }
    }

    /// Adds a hit or a permit to the side table. Returns by how many keys the store now exceeds its
    /// cap.
    fn commit_side(&mut self, index: Option<usize>, context: &DemandContext<'_>) -> usize {
        let &DemandContext {
            demand,
            fingerprint,
            permit_id,
            now,
            key_cap,
        } = context;

        let index = index.unwrap_or_else(|| {
            let state = match demand.quota() {
                Quota::Concurrency(_) => SideState::Permits(Permits::default()),
                _ => SideState::Log(HitLog::default()),
            };
            let side_index = self.side_table.insert(state);
            self.insert(Slot::side(fingerprint, side_index, now, QuotaUsage::ALL));
            let index = self.table.find(fingerprint);
            index.expect("the slot has just been added")
        });

        let slot = *self.slot(index);
        match (self.side_state_mut(&slot), demand.quota()) {
            (Some(SideState::Permits(permits)), Quota::Concurrency(quota)) => {
                let timeout = quota.permit_timeout;
                permits.insert(PermitEntry::new(permit_id, demand.cost, timeout, now));
            }
            (Some(SideState::Log(log)), _) => log.push(demand.cost, now),
            _ => {}
        }

        self.update_side_slot(index, demand.quota(), key_cap)
    }

    /// Updates the slot and the charge after a state in the side table has changed. Returns
    /// by how many keys the store now exceeds its cap.
    fn update_side_slot(&mut self, index: usize, quota: &Quota, key_cap: &KeyCap) -> usize {
        let slot = *self.slot(index);
        let side_index = slot.side_index();
        let Some(entry) = self.side_table.get_mut(side_index) else {
            return 0;
        };

        let (until, usage) = match (&entry.state, quota) {
            (SideState::Log(log), Quota::SlidingLog(quota)) => {
                let usage = QuotaUsage::from_ratio(log.sum(), quota.limit);
                (quota.empty_at(log), usage)
            }
            // Permits in flight are evicted last, however few there are: unlike a budget, they do
            // not recover by themselves.
            (SideState::Permits(permits), _) if permits.sum() > 0 => {
                (permits.empty_at(), QuotaUsage::ALL)
            }
            (SideState::Permits(permits), _) => (permits.empty_at(), QuotaUsage(0)),
            _ => return 0,
        };

        let excess = entry.update_charge(key_cap);
        self.set(
            index,
            Slot::side(slot.fingerprint(), side_index, until, usage),
        );
        excess
    }

    /// Removes the log or the permits of a slot, if it has any, and returns what they had charged
    /// to the cap.
    pub(super) fn remove_side(&mut self, slot: &Slot) -> usize {
        if slot.kind() == Kind::Side {
            self.side_table.remove(slot.side_index())
        } else {
            0
        }
    }
}
