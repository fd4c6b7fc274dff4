//! One shard of the counters, and what a thread that has locked it can do.

use std::collections::HashMap;

use ahash::RandomState;
use parking_lot::{Mutex, MutexGuard};

use super::context::DemandContext;
use super::key_cap::{CapCharge, KeyCap};
use super::large::{LargeEntry, LargeState};
use super::limit_usage::LimitNumber;
use super::reservations::Reservations;
use super::sequence::{Hold, Sequence};
use super::slot::{QuotaUsage, SlotEntry, SlotState};
use super::small::{Evaluation, UnitReturn, read_bucket, small_quota};
use super::table::Table;
use crate::algorithm::{BucketState, CLOCK_SLACK, Gcra, HitLog, PermitEntry, Permits, Quota};
use crate::key::Fingerprint;
use crate::time::Micros;

/// How many counters more than the cap of the store a table has room for.
const SLOTS_SPARE: usize = 4_096;

/// A shard: slots that any thread may read, and what only one thread at a time may use. It is on
/// cache lines of its own, so that neighbours do not share a line (no false sharing).
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Shard {
    pub(super) sequence: Sequence,
    pub(super) table: Table,
    locked: Mutex<LockedPart>,
}

/// The part of a shard behind its mutex.
#[derive(Debug, Default)]
struct LockedPart {
    large: HashMap<Fingerprint, LargeEntry, RandomState>,
    /// The reservations of the shard's counters; `None` until there is one.
    reservations: Option<Box<Reservations>>,
    /// Changes with every eviction, to break ties differently each time.
    eviction_salt: u64,
}

/// A locked shard. Other threads can still change the states in its slots, until this one first
/// uses a slot.
#[derive(Debug)]
pub(super) struct LockedShard<'a> {
    hold: Option<Hold<'a>>,
    shard: &'a Shard,
    locked: MutexGuard<'a, LockedPart>,
}

/// The change of a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PermitChange {
    Release,
    Renew,
}

impl Shard {
    /// An empty shard of a store for this many counters.
    pub(super) fn new(keys_max: usize) -> Self {
        // Threads that insert at the same moment may exceed the cap, and a table is never full.
        let slots_max = keys_max.saturating_add(SLOTS_SPARE).saturating_mul(2);
        Self {
            sequence: Sequence::new(),
            table: Table::new(slots_max),
            locked: Mutex::default(),
        }
    }

    pub(super) fn lock(&self) -> LockedShard<'_> {
        LockedShard {
            hold: None,
            shard: self,
            locked: self.locked.lock(),
        }
    }

    /// Locks the shard without waiting; `None` while another thread has locked it.
    pub(super) fn try_lock(&self) -> Option<LockedShard<'_>> {
        Some(LockedShard {
            hold: None,
            shard: self,
            locked: self.locked.try_lock()?,
        })
    }
}

impl<'a> LockedShard<'a> {
    /// The slots, for this thread alone from now on.
    pub(super) fn table(&mut self) -> &'a Table {
        let sequence = &self.shard.sequence;
        self.hold.get_or_insert_with(|| sequence.hold());
        &self.shard.table
    }

    /// The number of counters.
    pub(super) fn keys(&self) -> usize {
        self.shard.table.live() + self.locked.large.len()
    }

    /// The reservations of the shard's counters; `None` if there are none.
    pub(super) fn reservations(&mut self) -> &mut Option<Box<Reservations>> {
        &mut self.locked.reservations
    }

    pub(super) fn large(&mut self, fingerprint: Fingerprint) -> Option<&mut LargeEntry> {
        self.locked.large.get_mut(&fingerprint)
    }

    /// The counters of a limit, each with how much of its quota is used at `now`. Other threads may
    /// be changing the states in the slots.
    pub(super) fn usages(
        &self,
        limit: LimitNumber,
        now: Micros,
    ) -> impl Iterator<Item = (Fingerprint, QuotaUsage)> {
        let slots = self.shard.table.iter();
        let slots = slots.filter(move |entry| entry.limit == limit);
        let slots = slots.map(move |entry| (entry.fingerprint, entry.state.usage(now)));
        let large = self.large_entries();
        let large = large.filter(move |(_, entry)| entry.limit == limit);
        slots.chain(large.map(move |(fingerprint, entry)| (*fingerprint, entry.usage(now))))
    }

    /// The counters whose state is not in a slot.
    pub(super) fn large_entries(&self) -> impl Iterator<Item = (&Fingerprint, &LargeEntry)> {
        self.locked.large.iter()
    }

    pub(super) fn insert_large(&mut self, fingerprint: Fingerprint, entry: LargeEntry) {
        self.locked.large.insert(fingerprint, entry);
    }

    pub(super) fn small(&mut self, fingerprint: Fingerprint) -> Option<SlotState> {
        Some(self.table().find(fingerprint)?.state())
    }

    pub(super) fn set_small(&mut self, fingerprint: Fingerprint, state: SlotState) {
        if let Some(slot) = self.table().find(fingerprint) {
            slot.set_state(state);
        }
    }

    /// True when the counter of a demand exists.
    pub(super) fn contains(&mut self, context: &DemandContext<'_>) -> bool {
        match small_quota(context.quota) {
            Some(_) => self.table().find(context.fingerprint).is_some(),
            None => self.large(context.fingerprint).is_some(),
        }
    }

    /// True when any counter has this fingerprint.
    pub(super) fn contains_key(&mut self, fingerprint: Fingerprint) -> bool {
        self.large(fingerprint).is_some() || self.table().find(fingerprint).is_some()
    }

    /// A number that differs from the previous one in many bits.
    pub(super) fn next_salt(&mut self) -> u64 {
        let salt = &mut self.locked.eviction_salt;
        *salt = salt.wrapping_add(0x9e37_79b9_7f4a_7c15);
        *salt
    }

    /// Evaluates a demand. Logs and permits are pruned, which changes no outcome; nothing else is
    /// changed.
    pub(super) fn evaluate(&mut self, context: &DemandContext<'_>) -> Evaluation {
        let &DemandContext {
            fingerprint,
            quota,
            cost,
            now,
            ..
        } = context;
        if let Some(quota) = small_quota(quota) {
            return quota.evaluate(self.small(fingerprint).as_ref(), context);
        }

        let state = self.large(fingerprint).map(|entry| &mut entry.state);
        let outcome = match (quota, state) {
            (Quota::SlidingLog(quota), Some(LargeState::Log(log))) => {
                quota.evaluate(log, cost, now)
            }
            (Quota::SlidingLog(quota), _) => quota.evaluate(&mut HitLog::default(), cost, now),
            (Quota::Concurrency(quota), Some(LargeState::Permits(permits))) => {
                quota.evaluate(permits, cost, now)
            }
            (Quota::Concurrency(quota), _) => quota.evaluate(&mut Permits::default(), cost, now),
            _ => unreachable!("all other quotas are small"),
        };
        Evaluation {
            outcome,
            next: None,
            must_store: false,
        }
    }

    /// Stores the result of [`evaluate`](Self::evaluate), and adds the counter if there is none; it
    /// must then have been charged to the cap. Returns by how many keys the store now exceeds its
    /// cap, if a log or the number of permits has grown.
    pub(super) fn commit(
        &mut self,
        evaluation: &Evaluation,
        limit: LimitNumber,
        context: &DemandContext<'_>,
        key_cap: &KeyCap,
    ) -> usize {
        let fingerprint = context.fingerprint;
        if let Some(state) = evaluation.next {
            let entry = SlotEntry {
                fingerprint,
                limit,
                state,
            };
            self.table().put(entry);
            return 0;
        }

        let entry = self.locked.large.entry(fingerprint).or_insert_with(|| {
            let state = LargeState::new(context.quota);
            LargeEntry::new(state, limit)
        });
        entry.charge(context);
        entry.update(context.quota, key_cap)
    }

    /// Returns units to the counter of a demand, if it exists.
    pub(super) fn return_units(
        &mut self,
        returned: UnitReturn,
        context: &DemandContext<'_>,
        key_cap: &KeyCap,
    ) {
        let &DemandContext {
            fingerprint, now, ..
        } = context;
        if let Some(quota) = small_quota(context.quota) {
            if let Some(state) = self.small(fingerprint) {
                self.set_small(fingerprint, quota.after_return(&state, returned, now));
            }
        } else if let Quota::SlidingLog(quota) = context.quota
            && let Some(entry) = self.large(fingerprint)
            && let LargeState::Log(log) = &mut entry.state
        {
            quota.prune(log, now);
            match returned {
                UnitReturn::Refund(cost) => log.refund(cost),
                UnitReturn::GiveBack { units, charged_in } => log.give_back(units, charged_in),
            }
            entry.update(context.quota, key_cap);
        }
    }

    /// The state of a demand's bucket, if it exists.
    pub(super) fn bucket(
        &mut self,
        gcra: &Gcra,
        context: &DemandContext<'_>,
    ) -> Option<BucketState> {
        let state = self.small(context.fingerprint)?;
        Some(read_bucket(gcra, &state, context.now).0)
    }

    /// The window to which a counter was just charged, for [`UnitReturn::GiveBack`]; `None` if
    /// it does not exist.
    pub(super) fn charged_in(&mut self, context: &DemandContext<'_>) -> Option<Micros> {
        if let Some(quota) = small_quota(context.quota) {
            let state = self.small(context.fingerprint)?;
            return Some(quota.window_of_charge(&state, context.now));
        }
        match &self.large(context.fingerprint)?.state {
            LargeState::Log(log) => Some(log.newest()),
            _ => None,
        }
    }

    /// The units of the permits of a counter.
    pub(super) fn units_in_flight(&mut self, fingerprint: Fingerprint) -> u64 {
        match self.large(fingerprint).map(|entry| &entry.state) {
            Some(LargeState::Permits(permits)) => permits.sum(),
            _ => 0,
        }
    }

    /// Releases or renews a permit. Returns false when the permit has expired or was released
    /// before.
    pub(super) fn change_permit(
        &mut self,
        change: PermitChange,
        context: &DemandContext<'_>,
        key_cap: &KeyCap,
    ) -> bool {
        let &DemandContext { permit_id, now, .. } = context;
        let Quota::Concurrency(quota) = context.quota else {
            return false;
        };
        let Some(entry) = self.large(context.fingerprint) else {
            return false;
        };
        let LargeState::Permits(permits) = &mut entry.state else {
            return false;
        };

        permits.prune(now);
        let removed = permits.remove(permit_id);
        if let (PermitChange::Renew, Some(PermitEntry { cost, .. })) = (change, removed) {
            permits.insert(PermitEntry::new(permit_id, cost, quota.permit_timeout, now));
        }
        entry.update(context.quota, key_cap);
        removed.is_some()
    }

    /// Removes a counter, if there is one.
    pub(super) fn remove(&mut self, fingerprint: Fingerprint, key_cap: &KeyCap) {
        if let Some(entry) = self.locked.large.remove(&fingerprint) {
            key_cap.release(entry.limit, entry.cap_charge);
        } else if let Some(limit) = self.table().remove(fingerprint) {
            key_cap.release(limit, CapCharge::KEY);
        }
    }

    /// Drops expired counters, and the memory of logs and permits that are gone.
    pub(super) fn sweep(&mut self, now: Micros, key_cap: &KeyCap) {
        // Another thread may have read the clock slightly earlier and not decided yet.
        let now = now.since(CLOCK_SLACK);

        let slots = self.shard.table.iter();
        let slots = slots.filter(|entry| entry.state.is_expired(now));
        let slots: Vec<Fingerprint> = slots.map(|entry| entry.fingerprint).collect();
        for fingerprint in slots {
            // It may have been used since.
            if self
                .small(fingerprint)
                .is_some_and(|state| state.is_expired(now))
            {
                self.remove(fingerprint, key_cap);
            }
        }

        let large = self.large_entries().filter(|(_, entry)| entry.until < now);
        let large: Vec<Fingerprint> = large.map(|(fingerprint, _)| *fingerprint).collect();
        for fingerprint in large {
            self.remove(fingerprint, key_cap);
        }

        let large = &mut self.locked.large;
        if large.len() * 4 < large.capacity() {
            large.shrink_to_fit();
        }
    }
}
