//! One shard of the counters: a table of slots and a side table, and how a demand is evaluated and
//! committed.

use super::context::DemandContext;
use super::hot_key::Heat;
use super::key_cap::{CapCharge, KeyCap};
use super::limit_usage::LimitNumber;
use super::reservations::Reservations;
use super::side_table::{SideEntry, SideState, SideTable};
use super::slot::{QuotaUsage, Slot};
use super::slot_quota::{
    CounterHome, Evaluation, SlotFormat as _, SlotQuota, bucket_slot, read_bucket,
};
use super::slot_table::SlotTable;
use crate::algorithm::remote::{CounterState, EntryTotals};
use crate::algorithm::{
    BucketState, CounterView, Gcra, HitLog, Outcome, PermitEntry, Permits, Quota, SlidingLog,
};
use crate::key::Fingerprint;
use crate::time::Micros;

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
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct CounterShard {
    hot_slot: Slot,
    /// The low bits of the fingerprint of the last key, if that was not the hot one. The field
    /// is on the next cache line, which checks of the hot key only read.
    last_low: u64,
    table: SlotTable,
    side_table: SideTable,
    /// Changes with every eviction, to break ties differently each time.
    eviction_salt: u64,
    /// What is known of the shard's hot key.
    pub(super) heat: Heat,
    /// The reservations of the shard's counters; `None` until there is one.
    pub(super) reservations: Option<Box<Reservations>>,
}

impl CounterShard {
    pub(super) fn keys(&self) -> usize {
        self.table.live()
    }

    /// The size of the table in bytes, without the side table.
    pub(super) fn table_bytes(&self) -> usize {
        self.table.bytes()
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
        if self.hot_slot.is_vacant() {
            return;
        }
        if let Some(index) = self.table.find(self.hot_slot.fingerprint()) {
            self.table.set(index, self.hot_slot);
        }
        self.hot_slot = Slot::VACANT;
    }

    /// The table, brought up to date. Only the path of a single demand works without this.
    pub(super) fn flushed_table(&mut self) -> &mut SlotTable {
        self.flush_hot_slot();
        &mut self.table
    }

    /// The counters: each slot with its limit, and with the log or the permits to which it refers.
    pub(super) fn iter(
        &mut self,
    ) -> impl Iterator<Item = (&Slot, LimitNumber, Option<&SideState>)> {
        self.flush_hot_slot();
        self.table.iter_with_limits().map(|(slot, limit)| {
            let entry = slot
                .side_index()
                .and_then(|index| self.side_table.get(index));
            (slot, limit, entry.map(|entry| &entry.state))
        })
    }

    /// A number that differs from the previous one in many bits.
    pub(super) fn next_salt(&mut self) -> u64 {
        self.eviction_salt = self.eviction_salt.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.eviction_salt
    }

    #[inline(always)]
    pub(super) fn slot(&self, index: usize) -> &Slot {
        if index == HOT_INDEX {
            &self.hot_slot
        } else {
            self.table.get(index)
        }
    }

    #[inline(always)]
    fn slot_mut(&mut self, index: usize) -> &mut Slot {
        if index == HOT_INDEX {
            &mut self.hot_slot
        } else {
            self.table.get_mut(index)
        }
    }

    #[inline(always)]
    pub(super) fn set(&mut self, index: usize, slot: Slot) {
        *self.slot_mut(index) = slot;
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
        let slot = self.slot_mut(index);
        match context.quota {
            Quota::SlidingWindow(quota) => Some(map(spend_in(slot, quota, context))),
            Quota::TokenBucket(quota) => Some(map(spend_in(slot, quota, context))),
            Quota::LeakyBucket(quota) => Some(map(spend_in(slot, quota, context))),
            Quota::FixedWindow(quota) => Some(map(spend_in(slot, quota, context))),
            Quota::SlidingLog(_) | Quota::Concurrency(_) => None,
        }
    }

    /// Spends from the slot at `index`.
    pub(super) fn spend_in_slot(
        &mut self,
        index: usize,
        quota: &dyn SlotQuota,
        context: &DemandContext<'_>,
    ) -> Outcome {
        spend_in(self.slot_mut(index), quota, context)
    }

    /// Evaluates a demand. Logs and permits are pruned, which changes no outcome; nothing else is
    /// changed. If the demand is only counted, the slot is as it is after the charge, whether it
    /// fits or not.
    pub(super) fn evaluate(
        &mut self,
        index: Option<usize>,
        context: &DemandContext<'_>,
    ) -> Evaluation {
        let &DemandContext {
            quota, cost, now, ..
        } = context;

        let slot = index.map(|index| *self.slot(index));
        let slot = slot.as_ref();

        let outcome = match CounterHome::new(quota) {
            CounterHome::Slot(quota) => return quota.evaluate_demand(slot, context),
            CounterHome::Log(quota) => match self.side_state(slot) {
                Some(SideState::Log(log)) => quota.evaluate(log, cost, now),
                _ => quota.evaluate(&mut HitLog::default(), cost, now),
            },
            CounterHome::Permits(quota) => match self.side_state(slot) {
                Some(SideState::Permits(permits)) => quota.evaluate(permits, cost, now),
                _ => quota.evaluate(&mut Permits::default(), cost, now),
            },
        };
        Evaluation {
            outcome,
            next: Slot::VACANT,
            must_store: false,
        }
    }

    /// Adds a counter that was never used, and returns its index. It must have been charged to the
    /// cap as a [`CapCharge::SLOT`].
    pub(super) fn create(
        &mut self,
        limit: LimitNumber,
        evaluation: &Evaluation,
        context: &DemandContext<'_>,
    ) -> usize {
        if !evaluation.next.is_vacant() {
            return self.table.insert(evaluation.next, limit);
        }
        let state = SideState::new(context.quota);
        let side_index = self.side_table.insert(SideEntry::new(state, limit));
        let (until, usage) = (context.now, QuotaUsage::ALL);
        let slot = Slot::side(context.fingerprint, side_index, until, usage);
        self.table.insert(slot, limit)
    }

    /// Adds the lockout of a key that has none. It must have been charged to the cap as a
    /// [`CapCharge::SLOT`].
    pub(super) fn insert_lockout(&mut self, slot: Slot, limit: LimitNumber) {
        self.table.insert(slot, limit);
    }

    /// Stores the result of [`evaluate`](Self::evaluate) in the counter at `index`. Returns by how
    /// many keys the store now exceeds its cap, if a log or the number of permits has grown.
    pub(super) fn commit(
        &mut self,
        index: usize,
        evaluation: &Evaluation,
        context: &DemandContext<'_>,
    ) -> usize {
        if evaluation.next.is_vacant() {
            return self.commit_side(index, context);
        }
        self.set(index, evaluation.next);
        0
    }

    /// Refunds the cost of a demand to the counter at `index`.
    pub(super) fn refund(&mut self, index: usize, context: &DemandContext<'_>) {
        let slot = *self.slot(index);
        let &DemandContext { cost, now, .. } = context;

        let refunded = match CounterHome::new(context.quota) {
            CounterHome::Slot(quota) => quota.refund_slot(&slot, cost, now),
            CounterHome::Log(quota) => {
                return self.update_log(index, quota, context, |log| log.refund(cost));
            }
            CounterHome::Permits(_) => return,
        };
        self.set(index, refunded);
    }

    /// The state of the bucket at `index`.
    pub(super) fn bucket(&self, index: usize, gcra: &Gcra, now: Micros) -> BucketState {
        read_bucket(gcra, self.slot(index), now).0
    }

    /// Replaces the state of the bucket at `index`.
    pub(super) fn set_bucket(&mut self, index: usize, gcra: &Gcra, state: BucketState) {
        let slot = bucket_slot(gcra, self.slot(index).fingerprint(), state);
        self.set(index, slot);
    }

    /// Returns units that a reservation has charged in this window to the counter at `index`, which
    /// is not a bucket.
    pub(super) fn give_back(
        &mut self,
        index: usize,
        units: u64,
        charged_in: Micros,
        context: &DemandContext<'_>,
    ) {
        let (slot, now) = (*self.slot(index), context.now);
        let returned = match CounterHome::new(context.quota) {
            CounterHome::Slot(quota) => quota.give_back_slot(&slot, units, charged_in, now),
            CounterHome::Log(quota) => {
                let update = |log: &mut HitLog| log.give_back(units, charged_in);
                return self.update_log(index, quota, context, update);
            }
            CounterHome::Permits(_) => return,
        };
        self.set(index, returned);
    }

    /// The window to which the counter at `index` was just charged, for
    /// [`give_back`](Self::give_back).
    pub(super) fn charged_in(&mut self, index: usize, context: &DemandContext<'_>) -> Micros {
        let (slot, now) = (*self.slot(index), context.now);
        match CounterHome::new(context.quota) {
            CounterHome::Slot(quota) => quota.charged_in_slot(&slot, now),
            CounterHome::Permits(_) => Micros::ZERO,
            CounterHome::Log(_) => match self.side_state(Some(&slot)) {
                Some(SideState::Log(log)) => log.newest(),
                _ => Micros::ZERO,
            },
        }
    }

    /// What the counter at `index` contains, without its reservations. `None` if it belongs to
    /// another algorithm.
    pub(super) fn view(
        &mut self,
        index: Option<usize>,
        context: &DemandContext<'_>,
    ) -> Option<CounterView> {
        let &DemandContext { quota, now, .. } = context;
        let slot = index.map(|index| *self.slot(index));
        let slot = slot.as_ref();

        let (state, oldest) = match quota {
            Quota::FixedWindow(quota) => (CounterState::Fixed(quota.state(slot, now)), None),
            Quota::SlidingWindow(quota) => (CounterState::Sliding(quota.state(slot, now)), None),
            Quota::TokenBucket(quota) => (CounterState::Bucket(quota.state(slot, now)), None),
            Quota::LeakyBucket(quota) => (CounterState::Bucket(quota.state(slot, now)), None),
            Quota::SlidingLog(_) | Quota::Concurrency(_) => {
                let (sum, oldest) = match self.side_state(slot) {
                    Some(SideState::Log(log)) => (log.sum(), log.oldest()),
                    Some(SideState::Permits(permits)) => (permits.sum(), None),
                    None => (0, None),
                };
                // The other totals matter for outcomes only.
                let (until, frees) = (Micros::ZERO, Micros::ZERO);
                let totals = EntryTotals { sum, until, frees };
                (CounterState::Entries(totals), oldest)
            }
        };
        CounterView::new(quota, state, oldest, now)
    }

    /// The units of the permits of the counter at `index`.
    pub(super) fn units_in_flight(&mut self, index: usize) -> u64 {
        let slot = *self.slot(index);
        match self.side_state(Some(&slot)) {
            Some(SideState::Permits(permits)) => permits.sum(),
            _ => 0,
        }
    }

    /// Releases or renews a permit of the counter at `index`. Returns false when the permit has
    /// expired or was released before.
    pub(super) fn change_permit(
        &mut self,
        index: usize,
        change: PermitChange,
        context: &DemandContext<'_>,
    ) -> bool {
        let &DemandContext { permit_id, now, .. } = context;
        let mut removed = None;

        self.update_side(index, context, |state| {
            let (SideState::Permits(permits), Quota::Concurrency(quota)) = (state, context.quota)
            else {
                return;
            };
            permits.prune(now);
            removed = permits.remove(permit_id);
            if let (PermitChange::Renew, Some(PermitEntry { cost, .. })) = (change, removed) {
                let timeout = quota.permit_timeout;
                permits.insert(PermitEntry::new(permit_id, cost, timeout, now));
            }
        });
        removed.is_some()
    }

    /// Makes room for this number of counters from a snapshot. They come in the order of their
    /// homes: a table that grew with them would have all of them in its first part.
    pub(super) fn reserve(&mut self, keys: usize) {
        self.flushed_table().resize_for(keys);
    }

    /// Adds a counter from a snapshot. Its slot must have been charged to the cap.
    pub(super) fn restore(
        &mut self,
        slot: Slot,
        limit: LimitNumber,
        side: Option<SideState>,
        key_cap: &KeyCap,
    ) {
        let Some(state) = side else {
            self.table.insert(slot, limit);
            return;
        };

        let mut entry = SideEntry::new(state, limit);
        entry.update_charge(key_cap);
        let index = self.side_table.insert(entry);
        let (until, usage) = (slot.until(), slot.usage(Micros::ZERO));
        let slot = Slot::side(slot.fingerprint(), index, until, usage);
        self.table.insert(slot, limit);
    }

    /// Removes a counter, if there is one. Frees the memory of the side table with its last entry.
    pub(super) fn remove(&mut self, fingerprint: Fingerprint, key_cap: &KeyCap) {
        let Some(index) = self.flushed_table().find(fingerprint) else {
            return;
        };

        let side_index = self.table.get(index).side_index();
        let limit = self.table.remove(index);
        let charge = side_index.map_or(CapCharge::SLOT, |side_index| {
            self.side_table.remove(side_index).charge()
        });
        key_cap.release(limit, charge);

        if self.side_table.is_empty() && side_index.is_some() {
            self.side_table = SideTable::default();
        }
    }

    /// The log or the permits to which a slot refers.
    fn side_state(&mut self, slot: Option<&Slot>) -> Option<&mut SideState> {
        let entry = self.side_table.get_mut(slot?.side_index()?)?;
        Some(&mut entry.state)
    }

    /// Adds a hit or a permit to the side table. Returns by how many keys the store now exceeds its
    /// cap.
    fn commit_side(&mut self, index: usize, context: &DemandContext<'_>) -> usize {
        let &DemandContext {
            quota,
            cost,
            permit_id,
            now,
            ..
        } = context;

        self.update_side(index, context, |state| match (state, quota) {
            (SideState::Permits(permits), Quota::Concurrency(quota)) => {
                let timeout = quota.permit_timeout;
                permits.insert(PermitEntry::new(permit_id, cost, timeout, now));
            }
            (SideState::Log(log), _) => {
                log.charge(
                    cost,
                    quota.limit(),
                    context.limit.debt_max(context.quota),
                    now,
                );
            }
            _ => {}
        })
    }

    /// Changes the log of the counter at `index`, without what has expired.
    fn update_log(
        &mut self,
        index: usize,
        quota: &SlidingLog,
        context: &DemandContext<'_>,
        update: impl FnOnce(&mut HitLog),
    ) {
        self.update_side(index, context, |state| {
            if let SideState::Log(log) = state {
                quota.prune(log, context.now);
                update(log);
            }
        });
    }

    /// Changes a state in the side table, and updates its slot and its charge. Returns by how many
    /// keys the store now exceeds its cap.
    fn update_side(
        &mut self,
        index: usize,
        context: &DemandContext<'_>,
        update: impl FnOnce(&mut SideState),
    ) -> usize {
        let Some(side_index) = self.slot(index).side_index() else {
            return 0;
        };
        let entry = &mut self.side_table[side_index];

        update(&mut entry.state);
        let excess = entry.update_charge(&context.settings.key_cap);
        let (until, usage) = entry.state.usage(context.quota);
        let slot = Slot::side(context.fingerprint, side_index, until, usage);
        self.set(index, slot);
        excess
    }
}

/// Evaluates a demand, and stores the slot that follows if it is charged.
#[inline(always)]
fn spend_in(
    slot: &mut Slot,
    quota: &(impl SlotQuota + ?Sized),
    context: &DemandContext<'_>,
) -> Outcome {
    let cost = context.cost;
    let evaluation = quota.evaluate(Some(slot), context.fingerprint, cost, context.now);

    if (evaluation.outcome.verdict.is_allowed() && cost > 0) || evaluation.must_store {
        *slot = evaluation.next;
    }
    evaluation.outcome
}
