//! How a shard drops counters: expired ones, and at the cap those whose loss changes least.

use super::key_cap::KeyCap;
use super::limit_usage::LimitIndex;
use super::shard::CounterShard;
use super::slot::QuotaUsage;
use crate::algorithm::CLOCK_SLACK;
use crate::key::Fingerprint;
use crate::time::Micros;

/// The counters of one limit in one shard that can be evicted.
#[derive(Debug)]
pub(super) struct EvictionCandidates {
    limit: LimitIndex,
    /// The usage of each candidate with a random part below it, and its fingerprint.
    ranks: Vec<(u64, Fingerprint)>,
    /// The lowest rank.
    lowest: u64,
}

/// How many bits of a rank are random.
const TIE_BITS: u32 = 32;
/// The lowest rank of an exhausted key, one that has used up its quota. Evicting it lets a client
/// that is being limited start again with a full quota.
const EXHAUSTED: u64 = (QuotaUsage::EXHAUSTED.0 as u64) << TIE_BITS;

impl EvictionCandidates {
    /// True when there is nothing to evict.
    pub(super) fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// True when there is a key to evict that is not exhausted.
    pub(super) const fn has_unexhausted(&self) -> bool {
        self.lowest < EXHAUSTED
    }

    /// The fingerprints of at most `count` keys: those with the most quota left. Exhausted keys are
    /// among them only when there are no others.
    fn into_victims(mut self, count: usize) -> impl Iterator<Item = Fingerprint> {
        let bound = if self.has_unexhausted() {
            EXHAUSTED
        } else {
            u64::MAX
        };
        if count < self.ranks.len() {
            self.ranks.select_nth_unstable_by_key(count, |rank| rank.0);
            self.ranks.truncate(count);
        }

        let victims = self.ranks.into_iter().filter(move |rank| rank.0 < bound);
        victims.map(|(_, fingerprint)| fingerprint)
    }
}

impl CounterShard {
    /// Drops expired counters, and shrinks a table that has become too large.
    pub(super) fn sweep(&mut self, now: Micros, key_cap: &KeyCap) {
        // Another thread may have read the clock slightly earlier and still wait for the lock.
        let now = now.since(CLOCK_SLACK);

        let slots = self.flushed_table().iter().map(|(slot, _)| slot);
        let expired = slots.filter(|slot| slot.is_expired(now));
        let expired: Vec<Fingerprint> = expired.map(|slot| slot.fingerprint()).collect();
        for fingerprint in expired {
            self.remove(fingerprint, key_cap);
        }

        let table = self.flushed_table();
        if table.is_sparse() {
            table.resize();
        }
    }

    /// The keys of a limit that can be evicted: neither permits in flight nor the key that needs
    /// the room, because a large log would make room by dropping itself.
    pub(super) fn eviction_candidates(
        &mut self,
        limit: LimitIndex,
        needy: Fingerprint,
        now: Micros,
    ) -> EvictionCandidates {
        // Among equals chance decides and not the position in the table, which would leave
        // clusters.
        let salt = self.next_salt() | 1;
        let (mut ranks, mut lowest) = (Vec::new(), u64::MAX);

        for slot in self.flushed_table().iter_limit(limit) {
            let (usage, fingerprint) = (slot.usage(now), slot.fingerprint());
            if usage < QuotaUsage::PINNED && fingerprint != needy {
                let tie_break = fingerprint.low.wrapping_mul(salt) >> (u64::BITS - TIE_BITS);
                let rank = u64::from(usage.0) << TIE_BITS | tie_break;
                ranks.push((rank, fingerprint));
                lowest = lowest.min(rank);
            }
        }
        EvictionCandidates {
            limit,
            ranks,
            lowest,
        }
    }

    /// Evicts the candidates with the most quota left, an eighth of them at a time so that many
    /// insertions share the cost of the search.
    ///
    /// Every evicted key has at least as much quota left as any candidate that stays.
    pub(super) fn evict(
        &mut self,
        candidates: EvictionCandidates,
        now: Micros,
        key_cap: &KeyCap,
    ) {
        let limit = candidates.limit;
        let above_share = key_cap.above_share(limit);
        let count = (candidates.ranks.len() / 8).min(above_share).max(1);

        for fingerprint in candidates.into_victims(count) {
            let index = self.flushed_table().find(fingerprint);
            let slot = index.map(|index| *self.flushed_table().get(index));
            if let Some(slot) = slot.filter(|slot| !slot.is_expired(now)) {
                key_cap[limit].count_eviction(slot.usage(now) >= QuotaUsage::EXHAUSTED);
            }
            self.remove(fingerprint, key_cap);
        }
    }
}
