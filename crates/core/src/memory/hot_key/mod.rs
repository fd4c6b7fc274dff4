//! Keys that several threads use at the same time.
//!
//! Every shard has a lock, and threads that check one key wait for each other there: the cache line
//! of the lock travels between their cores with every decision. A key that repeatedly finds the
//! lock held is hot, and the shard publishes it in a [record](HotRecord) that threads read without
//! writing to shared memory. There are two cases:
//!
//! - **The key is denied.** The record contains the slot. A decision that changes nothing is
//!   computed from it, exactly as it would be under the lock.
//! - **The key is allowed.** Its units are *split*: every thread takes a stripe of them under the
//!   lock and spends them without it. The slot stays as it was, and the record counts what was set
//!   aside.
//!
//! A split is exact. It lasts while neither the order nor the times of spends matter to the state
//! ([`orderless_until`](super::slot_quota::SlotQuota::orderless_until)), and only units that fit are
//! set aside, so every request that is admitted from a stripe would have been admitted by the
//! counter. A thread whose stripe is empty takes more; if there is not enough besides the stripes,
//! all stripes are first *merged*: the units that were spent are charged to the slot, and the rest
//! is free again. So nothing is denied while a stripe has units.
//!
//! Whatever else locks the shard (peeks, refunds, resets, requests with several demands, sweeps,
//! evictions, snapshots) [cools](HotKey::cool) it first, and finds an ordinary counter.
//!
//! While a key is split, threads do not know what others have spent of their stripes. `remaining`
//! counts the stripes of others as spent, at most a sixteenth of what is left.

mod heat;
mod policy;
mod record;
mod stripes;

pub(super) use self::heat::Heat;
use self::heat::Split;
pub(super) use self::policy::SplitPolicy;
use self::record::{HotRecord, RECORD_WORDS, SplitRecord};
use self::stripes::Stripes;
#[cfg(test)]
pub(super) use self::stripes::set_thread_number;
use super::context::DemandContext;
use super::shard::CounterShard;
use super::slot_quota::{CounterHome, SlotQuota};
use crate::algorithm::{Outcome, Quota, Verdict};
use crate::key::Fingerprint;
use crate::seqlock::SeqLock;

/// The hot key of a shard, if there is one, as threads see it that do not have the lock.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct HotKey {
    record: SeqLock<RECORD_WORDS>,
    stripes: Stripes,
    /// Not 0 if every key is treated as hot, see [`SplitPolicy::EAGER`].
    is_eager: u64,
}

impl HotKey {
    pub(super) fn new(policy: &SplitPolicy) -> Self {
        Self {
            is_eager: policy.is_eager().into(),
            ..Self::default()
        }
    }

    /// True when a key of the shard is hot, or every key is.
    #[inline(always)]
    pub(super) fn is_hot(&self) -> bool {
        self.record.first() | self.is_eager != 0
    }

    /// True when this may be the hot key of the shard.
    #[inline(always)]
    pub(super) fn may_hold(&self, fingerprint: Fingerprint) -> bool {
        self.record.first() == fingerprint.low
    }

    /// Decides a demand without the lock: a denial of the hot key, or an admission from the stripe
    /// of this thread. `None` when the lock is needed; then nothing was changed.
    #[inline(never)]
    pub(super) fn try_spend<T>(
        &self,
        context: DemandContext<'_>,
        map: impl FnOnce(Outcome) -> T,
    ) -> Option<T> {
        let context = &context;
        let (words, version) = self.record.read()?;
        let record = HotRecord::from_words(words);
        if !record.slot.holds(context.fingerprint) {
            return None;
        }
        let record = (&record, version);
        match context.quota {
            Quota::SlidingWindow(quota) => self.try_spend_in(record, quota, context).map(map),
            Quota::TokenBucket(quota) => self.try_spend_in(record, quota, context).map(map),
            Quota::LeakyBucket(quota) => self.try_spend_in(record, quota, context).map(map),
            Quota::FixedWindow(quota) => self.try_spend_in(record, quota, context).map(map),
            Quota::SlidingLog(_) | Quota::Concurrency(_) => None,
        }
    }

    #[inline(always)]
    fn try_spend_in(
        &self,
        (record, version): (&HotRecord, u64),
        quota: &impl SlotQuota,
        context: &DemandContext<'_>,
    ) -> Option<Outcome> {
        let &DemandContext {
            fingerprint,
            cost,
            now,
            ..
        } = context;
        let (slot, split) = (Some(&record.slot), &record.split);

        if split.is_none() {
            let evaluation = quota.evaluate(slot, fingerprint, cost, now);
            let is_charged = evaluation.outcome.verdict.is_allowed() && cost > 0;
            return (!is_charged && !evaluation.must_store).then_some(evaluation.outcome);
        }
        if cost == 0 || !split.covers(quota.numbers(), now) {
            return None;
        }

        let left = self.stripes.own()?.spend(split.number, cost)?;
        // What other stripes hold counts as spent, and what this one holds as left, unless it was
        // refilled after the record was read.
        let spent = if self.record.is_at(version) {
            split.units.saturating_sub(left)
        } else {
            split.units.saturating_add(cost)
        };
        Some(Outcome {
            verdict: Verdict::ALLOW,
            ..quota.evaluate(slot, fingerprint, spent, now).outcome
        })
    }

    /// Decides a demand on the counter at `index` under the shard's lock, which was contended or
    /// belongs to a shard with a hot key. `None` if the state of the counter is in the side table.
    pub(super) fn spend(
        &self,
        shard: &mut CounterShard,
        index: usize,
        context: &DemandContext<'_>,
        is_contended: bool,
    ) -> Option<Outcome> {
        let mut turn = Turn {
            hot_key: self,
            shard,
            index,
            context,
            is_contended: is_contended || self.is_eager != 0,
        };
        match CounterHome::new(context.quota) {
            CounterHome::Slot(quota) => Some(turn.spend(quota)),
            _ => None,
        }
    }

    /// Makes the hot key an ordinary one: merges its stripes and publishes it no longer. It must be
    /// contended as often as before to become hot again.
    #[cold]
    pub(super) fn cool(&self, shard: &mut CounterShard) {
        self.merge(shard);
        self.publish(HotRecord::NONE);
        shard.heat.contentions = 0;
    }

    /// Charges what was spent from stripes to the slot of the key, and ends the split.
    fn merge(&self, shard: &mut CounterShard) {
        let Some(split) = shard.heat.split.take() else {
            return;
        };
        let Split { quota, record, .. } = *split;
        // A thread that has read the record may still spend from its stripe, until it is taken.
        self.publish(HotRecord::NONE);

        let left = self.stripes.take_all(record.split.number);
        let spent = record.split.units.saturating_sub(left);
        let (fingerprint, now) = (record.slot.fingerprint(), record.split.since);
        if let Some(index) = shard.find(fingerprint).filter(|_| spent > 0)
            && let CounterHome::Slot(quota) = CounterHome::new(&quota)
        {
            let evaluation = quota.evaluate(Some(&record.slot), fingerprint, spent, now);
            shard.set(index, evaluation.next);
        }
    }

    fn publish(&self, record: HotRecord) {
        self.record.write(record.to_words());
    }
}

/// A demand that is decided under the lock of its shard.
struct Turn<'a> {
    hot_key: &'a HotKey,
    shard: &'a mut CounterShard,
    /// Where the counter of the demand is.
    index: usize,
    context: &'a DemandContext<'a>,
    is_contended: bool,
}

impl Turn<'_> {
    /// Decides the demand: together with a refill of this thread's stripe, or by the slot.
    fn spend(&mut self, quota: &dyn SlotQuota) -> Outcome {
        let fingerprint = self.context.fingerprint;
        let split = self.shard.heat.split.as_deref();
        let is_split = split.is_some_and(|split| split.record.slot.holds(fingerprint));
        if is_split {
            if let Some(outcome) = self.refill_stripe(quota) {
                return outcome;
            }
            self.hot_key.merge(self.shard);
        }

        let outcome = self.shard.spend_in_slot(self.index, quota, self.context);
        if is_split || self.is_hot() {
            self.publish(quota, &outcome);
        }
        outcome
    }

    /// True when the key is hot, or becomes hot by this turn. A shard has one hot key at a time.
    fn is_hot(&mut self) -> bool {
        let low = self.context.fingerprint.low;
        let hot_low = self.hot_key.record.first();
        // A key whose low bits are 0 cannot be told from none.
        if hot_low != 0 || low == 0 {
            return hot_low == low && self.shard.heat.split.is_none();
        }

        let contentions_min = self.context.settings.split_policy.contentions_min;
        self.is_contended && self.shard.heat.count_contention(low) >= contentions_min
    }

    /// Publishes a hot key after a decision: split if enough is left, for its denials if nothing is
    /// left, or not at all.
    fn publish(&mut self, quota: &dyn SlotQuota, outcome: &Outcome) {
        if outcome.verdict.is_allowed() && self.split(quota, outcome.remaining).is_some() {
            return;
        }

        let is_next_denied = outcome.remaining < self.context.cost.max(1);
        let record = if is_next_denied {
            HotRecord {
                slot: *self.shard.slot(self.index),
                split: SplitRecord::NONE,
            }
        } else {
            HotRecord::NONE
        };
        self.hot_key.publish(record);
    }

    /// Splits the key if that is possible, and fills the stripe of this thread.
    fn split(&mut self, quota: &dyn SlotQuota, remaining: u64) -> Option<()> {
        let (policy, now) = (&self.context.settings.split_policy, self.context.now);
        let slot = *self.shard.slot(self.index);
        let until = quota.orderless_until(&slot)?;
        let stripe_units = policy.units(remaining)?;
        if until < now.after(policy.length_min) {
            return None;
        }

        let heat = &mut self.shard.heat;
        heat.splits += 1;
        let record = HotRecord {
            slot,
            split: SplitRecord {
                number: heat.splits,
                units: stripe_units,
                since: now,
                until,
                quota: quota.numbers(),
            },
        };
        heat.split = Some(Box::new(Split {
            quota: *self.context.quota,
            record,
            stripe_units,
        }));

        self.hot_key.publish(record);
        let stripe = self.hot_key.stripes.own_of(policy.stripes);
        stripe.fill(record.split.number, stripe_units);
        Some(())
    }

    /// Charges the demand together with units for the stripe of this thread. `None` if the key must
    /// be merged first: too little is left, or the split is over.
    fn refill_stripe(&mut self, quota: &dyn SlotQuota) -> Option<Outcome> {
        let &DemandContext {
            fingerprint,
            cost,
            now,
            settings,
            ..
        } = self.context;
        let split = self.shard.heat.split.as_deref_mut()?;
        let (slot, record) = (Some(&split.record.slot), &mut split.record.split);
        if cost == 0 || !record.covers(quota.numbers(), now) {
            return None;
        }

        let policy = &settings.split_policy;
        let stripe = self.hot_key.stripes.own_of(policy.stripes);
        let left = stripe.take(record.number);
        let spent = record.units.saturating_sub(left).saturating_add(cost);
        let units = spent.saturating_add(split.stripe_units);
        let Outcome {
            verdict, remaining, ..
        } = quota.evaluate(slot, fingerprint, units, now).outcome;
        if !verdict.is_allowed() || !policy.has_reserve(remaining, split.stripe_units) {
            stripe.fill(record.number, left);
            return None;
        }

        let outcome = quota.evaluate(slot, fingerprint, spent, now).outcome;
        (record.units, record.since) = (units, now);
        self.hot_key.publish(split.record);
        stripe.fill(split.record.split.number, split.stripe_units);
        Some(outcome)
    }
}
