//! At the cap, a shard drops the counters whose loss changes least.

use super::counters::Counters;
use super::key_cap::KeyCap;
use super::limit_usage::LimitNumber;
use super::shard::LockedShard;
use super::slot::QuotaUsage;
use crate::key::Fingerprint;
use crate::time::Micros;

/// The counters of one limit in one shard that can be evicted.
#[derive(Debug)]
pub(super) struct EvictionCandidates {
    limit: LimitNumber,
    /// The usage of each candidate, random bits, and its key. Among equals chance decides and not
    /// the position in the table, which would leave clusters.
    ranks: Vec<(QuotaUsage, u64, Fingerprint)>,
    lowest_usage: QuotaUsage,
}

/// One of this many candidates is evicted at a time. With more of them, the shards would differ
/// more in size, and the largest determine how much memory the tables take.
const EVICTED_PART: usize = 32;
/// With fewer keys than this to choose from, all of them exhausted, other shards are searched for a
/// key that is not. With more, the other shards are hardly different.
const CANDIDATES_MIN: usize = 64;
/// How many other shards are searched then.
const NEIGHBOURS: usize = 2;

impl EvictionCandidates {
    /// The keys of a limit that can be evicted: neither permits in flight nor the key that needs
    /// the room, because a large log would make room by dropping itself.
    fn new(
        shard: &mut LockedShard<'_>,
        limit: LimitNumber,
        needy: Fingerprint,
        now: Micros,
    ) -> Self {
        let salt = shard.next_salt() | 1;
        let (mut ranks, mut lowest_usage) = (Vec::new(), QuotaUsage::PINNED);
        // Not a loop: the compiler makes better code of nested iterators this way.
        shard.usages(limit, now).for_each(|(key, usage)| {
            if usage < QuotaUsage::PINNED && key != needy {
                ranks.push((usage, key.low.wrapping_mul(salt), key));
                lowest_usage = lowest_usage.min(usage);
            }
        });
        Self {
            limit,
            ranks,
            lowest_usage,
        }
    }

    /// True when there is a key to evict that has not used up its quota. Evicting one that has lets
    /// a client that is being limited start again with a full quota.
    fn has_unexhausted(&self) -> bool {
        self.lowest_usage < QuotaUsage::EXHAUSTED
    }

    /// Evicts the candidates with the most quota left, some of them at a time so that insertions
    /// share the cost of the search, but no more than the limit has above its share. Exhausted keys
    /// are among them only when there are no others.
    fn evict(mut self, shard: &mut LockedShard<'_>, key_cap: &KeyCap) {
        let above_share = key_cap.above_share(self.limit);
        let count = (self.ranks.len() / EVICTED_PART).min(above_share).max(1);
        let has_unexhausted = self.has_unexhausted();
        if count < self.ranks.len() {
            self.ranks.select_nth_unstable(count);
            self.ranks.truncate(count);
        }

        for (usage, _, key) in self.ranks {
            let is_limited = usage >= QuotaUsage::EXHAUSTED;
            if is_limited && has_unexhausted {
                continue;
            }
            if usage > QuotaUsage::NONE {
                key_cap[self.limit].count_eviction(is_limited);
            }
            shard.remove(key, key_cap);
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
        shard: &mut LockedShard<'_>,
        needy: Fingerprint,
        now: Micros,
    ) -> bool {
        let (home, key_cap) = (self.shard_index(needy), &self.key_cap);
        let limit = key_cap.largest_limit();
        let candidates = EvictionCandidates::new(shard, limit, needy, now);
        if candidates.has_unexhausted() {
            candidates.evict(shard, key_cap);
            return true;
        }

        let reach = match candidates.ranks.len() {
            0 => self.shards.len(),
            1..CANDIDATES_MIN => NEIGHBOURS,
            _ => 0,
        };
        for step in (1..self.shards.len()).take(reach) {
            let other = (home + step) & (self.shards.len() - 1);
            let Some(mut other) = self.shards[other].try_lock() else {
                continue;
            };
            let found = EvictionCandidates::new(&mut other, limit, needy, now);
            if found.has_unexhausted() || candidates.ranks.is_empty() && !found.ranks.is_empty() {
                found.evict(&mut other, key_cap);
                return true;
            }
        }

        let is_found = !candidates.ranks.is_empty();
        candidates.evict(shard, key_cap);
        is_found
    }
}
