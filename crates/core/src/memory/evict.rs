//! How a shard drops counters: expired ones, and at the cap those whose loss changes least.

use super::key_cap::KeyCap;
use super::shard::CounterShard;
use super::slot::{QuotaUsage, Slot};
use crate::algorithm::CLOCK_SLACK;
use crate::key::Fingerprint;
use crate::time::Micros;

/// Whether a shard may evict an exhausted key, one that has used up its quota. Evicting it
/// would let a client that is being limited start again with a full quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EvictionPolicy {
    /// Exhausted keys stay.
    SpareExhausted,
    /// One exhausted key may be evicted if no other key is left.
    AllowExhausted,
}

impl CounterShard {
    /// Drops expired counters, and shrinks a table that has become too large.
    pub(super) fn sweep(&mut self, now: Micros, key_cap: &KeyCap) {
        // Another thread may have read the clock slightly earlier and still wait for the lock.
        let now = now.since(CLOCK_SLACK);

        let table = self.flushed_table();
        if table.is_sparse() || table.iter().any(|slot| slot.is_expired(now)) {
            self.retain(key_cap, |slot| !slot.is_expired(now));
        }
    }

    /// Evicts the keys with the most quota left, an eighth of the shard at a time so that many
    /// insertions share the cost of the search. Returns true when something was evicted.
    ///
    /// Every evicted key has at least as much quota left as any key that stays. Among equals chance
    /// decides and not the position in the table, which would leave clusters. The key that needs
    /// the room is never evicted: a large log would make room by dropping itself.
    pub(super) fn evict(
        &mut self,
        needy: Fingerprint,
        now: Micros,
        key_cap: &KeyCap,
        policy: EvictionPolicy,
    ) -> bool {
        let salt = self.next_salt();
        let rank = |slot: &Slot| {
            let tie_break = slot.fingerprint().low.wrapping_mul(salt | 1);
            (slot.usage(now), tie_break)
        };

        let others = self
            .flushed_table()
            .iter()
            .filter(|slot| slot.fingerprint() != needy);
        let mut ranks: Vec<(QuotaUsage, u64)> = others.map(rank).collect();
        let Some(least) = ranks.iter().copied().min() else {
            return false;
        };
        if least.0 >= QuotaUsage::EXHAUSTED && policy == EvictionPolicy::SpareExhausted {
            return false;
        }

        let share = ranks.len() / 8;
        let bound = *ranks.select_nth_unstable(share).1;
        let last_evicted = if least.0 >= QuotaUsage::EXHAUSTED {
            least
        } else {
            bound.min((QuotaUsage::EXHAUSTED, 0))
        };

        self.retain(key_cap, |slot| {
            slot.fingerprint() == needy || rank(slot) > last_evicted
        });
        true
    }

    fn retain(&mut self, key_cap: &KeyCap, mut keep: impl FnMut(&Slot) -> bool) {
        let mut dropped = Vec::new();
        self.flushed_table().rebuild(|slot| {
            let is_kept = keep(slot);
            if !is_kept {
                dropped.push(**slot);
            }
            is_kept
        });

        let side_weight: usize = dropped.iter().map(|slot| self.remove_side(slot)).sum();
        key_cap.release(dropped.len() + side_weight);
    }
}
