//! Charges that need not fit, for buckets that follow the counters of another store.

use super::slot_quota::{Evaluation, bucket_slot, read_bucket};
use super::store::MemoryStore;
use crate::algorithm::{BucketState, Gcra};
use crate::demand::Demand;
use crate::time::Micros;

impl MemoryStore {
    /// Charges a demand whether it fits or not. The bucket then owes what did not fit, up to what it
    /// holds. Demands on logs, windows and permits are not charged.
    pub(crate) fn charge(&self, demand: &Demand<'_>) {
        self.update_bucket(demand, |gcra, state, now| {
            gcra.charge(state, demand.cost, gcra.capacity, now)
        });
    }

    /// Takes units of a demand's bucket until at most `remaining` are left.
    pub(crate) fn drain(&self, demand: &Demand<'_>, remaining: u64) {
        self.update_bucket(demand, |gcra, state, now| gcra.drain(state, remaining, now));
    }

    /// Replaces the state of a demand's bucket by what `update` makes of it.
    fn update_bucket(
        &self,
        demand: &Demand<'_>,
        update: impl FnOnce(&Gcra, BucketState, Micros) -> BucketState,
    ) {
        let Some(gcra) = demand.quota().bucket() else {
            return;
        };
        let (counters, now) = (self.counters(), self.now());
        counters.sweep_if_due(now);

        let fingerprint = counters.fingerprinter.fingerprint(&demand.key);
        let context = counters.peek_context(demand, fingerprint, now).with_cost(0);
        let mut shard = counters.lock(fingerprint);
        let index = shard.find(fingerprint);
        let evaluation = shard.evaluate(index, &context);

        let (state, _) = read_bucket(gcra, &evaluation.next, now);
        let next = bucket_slot(gcra, fingerprint, update(gcra, state, now));
        counters.commit(&mut shard, &Evaluation { next, ..evaluation }, &context);
    }
}
