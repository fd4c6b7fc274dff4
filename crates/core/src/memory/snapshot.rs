//! Saves the counters and restores them, so that a single instance keeps them over a restart.
//!
//! A snapshot contains fingerprints, never keys, and the hash seeds they were made with. Anyone who
//! has a snapshot can test whether a guessed key is in it, so protect it like the memory of the
//! process. A snapshot can only be restored by a build whose hash function gives the same
//! fingerprints; it contains a probe that reveals a difference.

use std::collections::HashMap;
use std::io;

use super::builder::MemoryStoreBuilder;
use super::counters::Counters;
use super::key_cap::KeyCap;
use super::large::{LargeEntry, LargeState};
use super::limit_usage::LimitNumber;
use super::shard::LockedShard;
use super::slot::{KIND_BITS, SlotEntry, key_bits, usage_bits};
use super::store::MemoryStore;
use crate::algorithm::{
    HitLog, IN_FLIGHT_MAX, LOG_HITS_MAX, LockoutState, PermitEntry, PermitId, Permits,
};
use crate::key::{Digest, Fingerprint, Fingerprinter, digest};
use crate::name::{LimitName, NAME_MAX};
use crate::time::Micros;

// A snapshot consists of little-endian words of 64 bits: these eight bytes, the version, the hash
// seeds, the probe, the number of limits, the limits, the counters, and a digest of all that in two
// words. A counter has the five words of a slot, in which logs, permits and lockouts have kinds of
// their own. After those of a log or of permits come its hits or permits.
const MAGIC: [u8; 8] = *b"TOLLGATE";
const VERSION: u64 = 5;
/// The size of a counter without its hits or permits.
const COUNTER_BYTES: usize = 40;
/// The words of a limit's name, padded with zeros.
const NAME_WORDS: usize = NAME_MAX.div_ceil(8);
/// The kinds of the counters that are not in a slot.
const KIND_LOG: u64 = 16;
const KIND_PERMITS: u64 = 17;
const KIND_LOCKOUT: u64 = 18;
/// The bits of a lockout's level, below its denials.
const LEVEL_BITS: u32 = 8;
/// All counts, moments and parts of them are at most this.
const WORD_MAX: u64 = 1 << 54;

/// Why a snapshot cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The bytes do not begin like a snapshot.
    #[error("not a snapshot of a memory store")]
    NotASnapshot,
    /// The snapshot has a format that this build cannot read.
    #[error("unsupported snapshot format {found}; expected format {VERSION}")]
    UnsupportedVersion {
        /// The format of the snapshot.
        found: u64,
    },
    /// The snapshot was truncated or modified.
    #[error(
        "the snapshot is damaged: checksum mismatch; \
         start with an empty store or use an older snapshot"
    )]
    Damaged,
    /// The snapshot comes from a build or a processor with a different hash function.
    #[error(
        "the snapshot comes from a build with a different hash function, \
         so its keys cannot be found; start with an empty store"
    )]
    HashMismatch,
}

impl MemoryStore {
    /// Saves all counters that have not expired. The counters of a shard are saved at one moment,
    /// the shards one after the other.
    #[expect(
        clippy::missing_panics_doc,
        reason = "writing to a vector does not fail"
    )]
    pub fn snapshot(&self) -> Vec<u8> {
        let mut snapshot = Vec::new();
        self.write_snapshot(&mut snapshot)
            .expect("writing to a vector does not fail");
        snapshot
    }

    /// Writes what [`snapshot`](Self::snapshot) returns, shard by shard, without a copy of it in
    /// memory. No shard is locked while the writer works, so decisions wait at most until the
    /// counters of one shard, of up to 256, are copied.
    pub fn write_snapshot(&self, writer: &mut impl io::Write) -> io::Result<()> {
        let counters = self.counters();
        let now = counters.clock.now();
        let mut writer = SnapshotWriter::new(writer);
        let part = &mut writer.part;

        part.extend(MAGIC);
        write(part, &[VERSION]);
        write(part, counters.fingerprinter.seeds());
        let probe = counters.fingerprinter.probe();
        write(part, &[probe.high.into(), probe.low]);

        let owners: Vec<_> = counters.key_cap.owners().collect();
        write(part, &[owners.len() as u64]);
        for (limit, digest, name) in owners {
            write_limit(part, limit, digest, name);
        }
        writer.flush()?;

        for shard in &counters.shards {
            write_shard(&mut writer.part, &mut shard.lock(), now);
            writer.flush()?;
        }
        writer.finish()
    }

    /// A store with the counters of a snapshot, the default cap and the system clock. Use
    /// [`MemoryStoreBuilder::restore`] to configure them.
    pub fn restore(snapshot: &[u8]) -> Result<Self, SnapshotError> {
        Self::builder().restore(snapshot)
    }
}

impl MemoryStoreBuilder {
    /// Builds the store with the counters of a snapshot. Counters that have expired since are left
    /// out. If there are more counters than the cap allows, those with the most quota left are
    /// evicted.
    pub fn restore(self, snapshot: &[u8]) -> Result<MemoryStore, SnapshotError> {
        let content = snapshot.strip_prefix(&MAGIC);
        let content = content.ok_or(SnapshotError::NotASnapshot)?;
        match read(&mut as_words(content)).ok_or(SnapshotError::Damaged)? {
            [VERSION] => {}
            [found] => return Err(SnapshotError::UnsupportedVersion { found }),
        }

        let (body, checksum) = snapshot.split_last_chunk().ok_or(SnapshotError::Damaged)?;
        if digest(body) != u128::from_le_bytes(*checksum) {
            return Err(SnapshotError::Damaged);
        }

        // The magic bytes and the version have been read.
        let words = &mut as_words(body).skip(2);
        let fingerprinter = read_fingerprinter(words)?;
        let store = self.build_with(fingerprinter);
        let counters = store.counters();
        let limits = read_limits(words, &counters.key_cap).ok_or(SnapshotError::Damaged)?;
        counters.make_space(body.len() / COUNTER_BYTES);
        let now = counters.clock.now();
        while let Some(counter) = read(words) {
            let (entry, large) = read_counter(counter, words).ok_or(SnapshotError::Damaged)?;
            let limit = limits.get(&entry.limit.get()).copied();
            let limit = limit.unwrap_or(LimitNumber::OTHERS);
            counters.restore(SlotEntry { limit, ..entry }, large, now);
        }
        Ok(store)
    }
}

impl Counters {
    /// Makes room for this number of counters, or for as many as the cap allows. They come in the
    /// order of their homes: a table that grew with them would have all of them in its first part.
    pub(super) fn make_space(&self, keys: usize) {
        let keys = keys.min(self.key_cap.max()) / self.shards.len();
        for shard in &self.shards {
            shard.lock().table().reserve(keys);
        }
    }

    fn restore(&self, entry: SlotEntry, large: Option<LargeState>, now: Micros) {
        let SlotEntry {
            fingerprint,
            limit,
            state,
        } = entry;
        let mut shard = self.lock(fingerprint);
        if state.is_expired(now) || shard.contains_key(fingerprint) {
            return;
        }

        self.charge_key(&mut shard, limit, fingerprint, now);
        if let Some(large) = large {
            let mut entry = LargeEntry::new(large, limit).with_usage(&state);
            entry.update_charge(&self.key_cap);
            shard.insert_large(fingerprint, entry);
        } else {
            shard.table().put(entry);
        }
        // A log may take the memory of many keys, so one eviction may not be enough.
        while self.key_cap.excess() > 0 && self.make_room(&mut shard, fingerprint, now) {}
    }
}

/// Writes the parts of a snapshot, and after them a digest of all of them.
struct SnapshotWriter<'w, W> {
    /// What is written next. It is reused, so that the shard that fills it is locked briefly.
    part: Vec<u8>,
    digest: Digest,
    writer: &'w mut W,
}

impl<'w, W: io::Write> SnapshotWriter<'w, W> {
    fn new(writer: &'w mut W) -> Self {
        Self {
            part: Vec::new(),
            digest: Digest::EMPTY,
            writer,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.digest = self.digest.followed_by(&self.part);
        self.writer.write_all(&self.part)?;
        self.part.clear();
        Ok(())
    }

    fn finish(self) -> io::Result<()> {
        self.writer.write_all(&self.digest.get().to_le_bytes())
    }
}

fn write_shard(snapshot: &mut Vec<u8>, shard: &mut LockedShard<'_>, now: Micros) {
    for entry in shard
        .table()
        .iter()
        .filter(|entry| !entry.state.is_expired(now))
    {
        write(snapshot, &entry.to_words());
    }
    for (fingerprint, entry) in shard
        .large_entries()
        .filter(|(_, entry)| entry.until >= now)
    {
        write_large(snapshot, *fingerprint, entry);
    }
}

fn write(snapshot: &mut Vec<u8>, words: &[u64]) {
    snapshot.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

fn write_limit(snapshot: &mut Vec<u8>, limit: LimitNumber, digest: u128, name: LimitName) {
    let mut padded = [0; NAME_WORDS * 8];
    padded[..name.as_bytes().len()].copy_from_slice(name.as_bytes());

    write(snapshot, &[limit.get().into()]);
    snapshot.extend(digest.to_le_bytes());
    snapshot.extend(padded);
}

fn write_large(snapshot: &mut Vec<u8>, fingerprint: Fingerprint, entry: &LargeEntry) {
    let (kind, first, second) = match &entry.state {
        LargeState::Log(log) => (KIND_LOG, log.hits().len() as u64, 0),
        LargeState::Permits(permits) => (KIND_PERMITS, permits.len() as u64, 0),
        LargeState::Lockout(state) => {
            let counts = u64::from(state.denials) << LEVEL_BITS | u64::from(state.level);
            (KIND_LOCKOUT, state.ends.get(), counts)
        }
    };
    let tag = key_bits(fingerprint, entry.limit) | usage_bits(entry.stored_usage()) | kind;
    let until = entry.until.get();
    write(snapshot, &[fingerprint.low, tag, first, second, until]);

    match &entry.state {
        LargeState::Log(log) => {
            for hit in log.hits() {
                write(snapshot, &[hit.at.get(), hit.cost]);
            }
        }
        LargeState::Permits(permits) => {
            for entry in permits.entries() {
                snapshot.extend(entry.id.get().to_le_bytes());
                let (timeout, expires) = (entry.timeout.get(), entry.expires.get());
                write(snapshot, &[entry.cost, timeout, expires]);
            }
        }
        LargeState::Lockout(_) => {}
    }
}

fn as_words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
}

/// The next words; `None` when there are fewer left.
fn read<const N: usize>(words: &mut impl Iterator<Item = u64>) -> Option<[u64; N]> {
    let mut taken = [0; N];
    for word in &mut taken {
        *word = words.next()?;
    }
    Some(taken)
}

/// The fingerprinter with the seeds of a snapshot, which must reproduce its probe.
fn read_fingerprinter(
    words: &mut impl Iterator<Item = u64>,
) -> Result<Fingerprinter, SnapshotError> {
    let seeds = read(words).ok_or(SnapshotError::Damaged)?;
    let [high, low] = read(words).ok_or(SnapshotError::Damaged)?;

    let fingerprinter = Fingerprinter::from_seeds(seeds);
    let probe = fingerprinter.probe();
    if [probe.high.into(), probe.low] == [high, low] {
        Ok(fingerprinter)
    } else {
        Err(SnapshotError::HashMismatch)
    }
}

/// The limits of a snapshot: the number that each had, and the one that it has in this store.
fn read_limits(
    words: &mut impl Iterator<Item = u64>,
    key_cap: &KeyCap,
) -> Option<HashMap<u8, LimitNumber>> {
    let [count] = read(words)?;
    let mut limits = HashMap::new();

    for _ in 0..count {
        let [number, low, high] = read(words)?;
        let name: [u64; NAME_WORDS] = read(words)?;
        let name: Vec<u8> = name.iter().flat_map(|word| word.to_le_bytes()).collect();
        let name = std::str::from_utf8(&name).ok()?.trim_end_matches('\0');
        let name = LimitName::new(name).ok()?;
        let digest = u128::from(high) << 64 | u128::from(low);
        limits.insert(
            u8::try_from(number).ok()?,
            key_cap.limit_number(digest, name),
        );
    }
    Some(limits)
}

/// The counter with these words, and with those that follow if it is not in a slot.
fn read_counter(
    [low, tag, first, second, until]: [u64; 5],
    words: &mut impl Iterator<Item = u64>,
) -> Option<(SlotEntry, Option<LargeState>)> {
    let [first, second, until] = [first, second, until].map(|word| word.min(WORD_MAX));
    let entry = SlotEntry::from_words([low, tag, first, second, until]);
    let large = match (tag & KIND_BITS, first) {
        (0, _) => return None,
        (KIND_LOG, hits) if hits <= LOG_HITS_MAX as u64 => read_log(hits, words)?,
        (KIND_PERMITS, permits) if permits <= IN_FLIGHT_MAX => read_permits(permits, words)?,
        (KIND_LOCKOUT, ends) => LargeState::Lockout(LockoutState {
            ends: Micros::new(ends),
            denials: u32::try_from(second >> LEVEL_BITS).ok()?,
            level: u32::try_from(second & ((1 << LEVEL_BITS) - 1)).ok()?,
            until: Micros::new(until),
        }),
        (kind, _) => return (kind < KIND_LOG).then_some((entry, None)),
    };
    Some((entry, Some(large)))
}

fn read_log(hits: u64, words: &mut impl Iterator<Item = u64>) -> Option<LargeState> {
    let mut log = HitLog::default();
    for _ in 0..hits {
        let [at, cost] = read(words)?;
        log.push(cost, Micros::new(at));
    }
    Some(LargeState::Log(log))
}

fn read_permits(count: u64, words: &mut impl Iterator<Item = u64>) -> Option<LargeState> {
    let mut permits = Permits::default();
    for _ in 0..count {
        let [low, high, cost, timeout, expires] = read(words)?;
        permits.insert(PermitEntry {
            id: PermitId::new(u128::from(high) << 64 | u128::from(low)),
            cost,
            timeout: Micros::new(timeout),
            expires: Micros::new(expires),
        });
    }
    Some(LargeState::Permits(Box::new(permits)))
}
