//! How a shard drops counters: expired ones, and at the cap those whose loss changes least.

use super::counters::Counters;
use super::key_cap::KeyCap;
use super::limit_usage::LimitNumber;
use super::shard::CounterShard;
use super::slot::{QuotaUsage, Slot};
use crate::algorithm::CLOCK_SLACK;
use crate::key::Fingerprint;
use crate::time::Micros;

/// The counters of one limit in one shard that can be evicted.
#[derive(Debug)]
pub(super) struct EvictionCandidates {
    limit: LimitNumber,
    /// The rank of each candidate: its usage, random bits, and its index in the table. Among equals
    /// chance decides and not the position in the table, which would leave clusters.
    ranks: Vec<u64>,
    lowest_rank: u64,
}

/// With fewer keys than this to choose from, all of them exhausted, other shards are searched for a
/// key that is not. With more, the other shards are hardly different.
const CANDIDATES_MIN: usize = 64;
/// How many other shards are searched then.
const NEIGHBOURS: usize = 2;
/// The bits of a rank that are an index: a table of 2^32 slots would take 137 GB.
const INDEX_BITS: u32 = 32;
/// How many bits of a rank, above the index, are random.
const TIE_BITS: u32 = 11;
/// The lowest rank of an exhausted key, one that has used up its quota. Evicting it lets a client
/// that is being limited start again with a full quota.
const EXHAUSTED_RANK: u64 = (QuotaUsage::EXHAUSTED.0 as u64) << (INDEX_BITS + TIE_BITS);

impl EvictionCandidates {
    /// How many keys there are to choose from.
    pub(super) fn len(&self) -> usize {
        self.ranks.len()
    }

    /// True when there is nothing to evict.
    pub(super) fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// True when there is a key to evict that is not exhausted.
    pub(super) const fn has_unexhausted(&self) -> bool {
        self.lowest_rank < EXHAUSTED_RANK
    }

    /// The indexes of at most `count` candidates: those with the most quota left. Exhausted keys
    /// are among them only when there are no others.
    fn into_victims(mut self, count: usize) -> impl Iterator<Item = usize> {
        if count < self.ranks.len() {
            self.ranks.select_nth_unstable(count);
            self.ranks.truncate(count);
        }

        let end = if self.has_unexhausted() {
            EXHAUSTED_RANK
        } else {
            u64::MAX
        };
        let victims = self.ranks.into_iter().filter(move |rank| *rank < end);
        victims.map(index_in_rank)
    }
}

/// Puts a rank together.
#[inline(always)]
const fn rank(usage: QuotaUsage, random: u64, index: usize) -> u64 {
    let tie_break = random >> (u64::BITS - TIE_BITS);
    ((usage.0 as u64) << TIE_BITS | tie_break) << INDEX_BITS | index as u64
}

const fn index_in_rank(rank: u64) -> usize {
    (rank & ((1 << INDEX_BITS) - 1)) as usize
}

impl CounterShard {
    /// Drops expired counters, and shrinks a table that has become too large.
    pub(super) fn sweep(&mut self, now: Micros, key_cap: &KeyCap) {
        // Another thread may have read the clock slightly earlier and still wait for the lock.
        let now = now.since(CLOCK_SLACK);

        let slots = self.flushed_table().iter();
        let expired = slots.filter(|slot| slot.is_expired(now));
        let expired: Vec<Fingerprint> = expired.map(Slot::fingerprint).collect();
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
        limit: LimitNumber,
        needy: Fingerprint,
        now: Micros,
    ) -> EvictionCandidates {
        let salt = self.next_salt() | 1;
        let table = self.flushed_table();
        let (mut ranks, mut lowest_rank) = (Vec::with_capacity(table.live()), u64::MAX);

        for (index, slot) in table.iter_limit(limit) {
            let usage = slot.usage(now);
            if usage < QuotaUsage::PINNED && !slot.holds(needy) {
                let rank = rank(usage, slot.low().wrapping_mul(salt), index);
                ranks.push(rank);
                lowest_rank = lowest_rank.min(rank);
            }
        }
        EvictionCandidates {
            limit,
            ranks,
            lowest_rank,
        }
    }

    /// Evicts the candidates with the most quota left, an eighth of them at a time so that many
    /// insertions share the cost of the search, but no more than the limit has above its share.
    ///
    /// Every evicted key has at least as much quota left as any candidate that stays.
    pub(super) fn evict(&mut self, candidates: EvictionCandidates, now: Micros, key_cap: &KeyCap) {
        let limit = candidates.limit;
        let above_share = key_cap.above_share(limit);
        let count = (candidates.ranks.len() / 8).min(above_share).max(1);

        let table = self.flushed_table();
        let victims = candidates.into_victims(count);
        let victims: Vec<Slot> = victims.map(|index| *table.get(index)).collect();
        for slot in victims {
            if !slot.is_expired(now) {
                key_cap[limit].count_eviction(slot.usage(now) >= QuotaUsage::EXHAUSTED);
            }
            self.remove(slot.fingerprint(), key_cap);
        }

        // The cap is a bound on memory too, so the size of the table follows its content.
        let table = self.flushed_table();
        if table.is_half_empty() {
            table.resize();
        }
    }
}

impl Counters {
    /// Evicts keys of the limit that uses most: from this shard, or from a neighbouring shard if
    /// this one has only a few exhausted keys of the limit, or from any other if it has none.
    /// Returns false when there was nothing to evict.
    ///
    /// Other shards are used only if they can be locked without waiting, so this cannot deadlock
    /// with a request that has locked them.
    #[cold]
    pub(super) fn make_room(
        &self,
        shard: &mut CounterShard,
        needy: Fingerprint,
        now: Micros,
    ) -> bool {
        let (home, key_cap) = (self.shard_index(needy), self.key_cap());
        let limit = key_cap.largest_limit();
        let candidates = shard.eviction_candidates(limit, needy, now);
        if candidates.has_unexhausted() {
            shard.evict(candidates, now, key_cap);
            return true;
        }

        let reach = match candidates.len() {
            0 => self.shards.len(),
            1..CANDIDATES_MIN => NEIGHBOURS,
            _ => 0,
        };
        for step in (1..self.shards.len()).take(reach) {
            let other = (home + step) & (self.shards.len() - 1);
            let Some(mut other) = self.shards[other].try_lock() else {
                continue;
            };
            let found = other.eviction_candidates(limit, needy, now);
            if found.has_unexhausted() || candidates.is_empty() && !found.is_empty() {
                other.evict(found, now, key_cap);
                return true;
            }
        }

        let is_found = !candidates.is_empty();
        shard.evict(candidates, now, key_cap);
        is_found
    }
}
