//! Saves the counters and restores them, so that a single instance keeps them over a restart.
//!
//! A snapshot contains fingerprints, never keys, and the hash seeds they were made with. Anyone who
//! has a snapshot can test whether a guessed key is in it, so protect it like the memory of the
//! process. A snapshot can only be restored by a build whose hash function gives the same
//! fingerprints; it contains a probe that reveals a difference.

use std::collections::HashMap;
use std::io;

use super::builder::MemoryStoreBuilder;
use super::key_cap::KeyCap;
use super::limit_usage::LimitNumber;
use super::shard::CounterShard;
use super::side_table::SideState;
use super::slot::{Kind, Slot};
use super::store::MemoryStore;
use crate::algorithm::{HitLog, IN_FLIGHT_MAX, LOG_HITS_MAX, PermitEntry, PermitId, Permits};
use crate::key::{Digest, Fingerprinter, digest};
use crate::name::{LimitName, NAME_MAX};
use crate::time::Micros;

// A snapshot consists of little-endian words of 64 bits: these eight bytes, the version, the hash
// seeds, the probe, the number of limits, the limits, the slots with their limits, logs and permits,
// and a digest of all that in two words.
const MAGIC: [u8; 8] = *b"TOLLGATE";
const VERSION: u64 = 4;
/// The size of a counter without its log or permits: a slot and the number of its limit.
const COUNTER_BYTES: usize = 40;
/// The words of a limit's name, padded with zeros.
const NAME_WORDS: usize = NAME_MAX.div_ceil(8);
/// Marks the hits of a log in a snapshot.
const TAG_LOG: u64 = 0;
/// Marks the permits of a concurrency limit in a snapshot.
const TAG_PERMITS: u64 = 1;

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
        let (now, counters) = (self.now(), self.counters());
        let mut writer = SnapshotWriter::new(writer);
        let part = &mut writer.part;

        part.extend(MAGIC);
        write(part, &[VERSION]);
        write(part, counters.fingerprinter.seeds());
        let probe = counters.fingerprinter.probe();
        write(part, &[probe.high.into(), probe.low]);

        let owners: Vec<_> = counters.key_cap().owners().collect();
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
        let now = store.now();
        let limits = read_limits(words, store.counters().key_cap());
        let limits = limits.ok_or(SnapshotError::Damaged)?;
        store.reserve(body.len() / COUNTER_BYTES);
        while let Some(slot) = read(words).map(Slot::from_words) {
            let [limit] = read(words).ok_or(SnapshotError::Damaged)?;
            let limit = limits.get(&limit).copied().unwrap_or(LimitNumber::OTHERS);
            let side = match slot.kind() {
                Kind::Side => Some(read_side(words).ok_or(SnapshotError::Damaged)?),
                _ => None,
            };
            if !slot.is_expired(now) {
                store.restore_counter(slot, limit, side, now);
            }
        }
        Ok(store)
    }
}

impl MemoryStore {
    /// Makes room for this number of counters, or for as many as the cap allows.
    pub(super) fn reserve(&self, keys: usize) {
        let counters = self.counters();
        let keys = keys.min(self.keys_max()) / counters.shards.len();
        for shard in &counters.shards {
            shard.lock().reserve(keys);
        }
    }

    fn restore_counter(
        &self,
        slot: Slot,
        limit: LimitNumber,
        side: Option<SideState>,
        now: Micros,
    ) {
        let (counters, fingerprint) = (self.counters(), slot.fingerprint());
        let key_cap = counters.key_cap();
        let mut shard = counters.lock(fingerprint);
        if slot.is_vacant() || shard.find(fingerprint).is_some() {
            return;
        }

        counters.charge_slot(&mut shard, limit, fingerprint, now);
        shard.restore(slot, limit, side, key_cap);
        // A log may take the memory of many keys, so one eviction may not be enough.
        while key_cap.excess() > 0 && counters.make_room(&mut shard, fingerprint, now) {}
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

fn write_shard(snapshot: &mut Vec<u8>, shard: &mut CounterShard, now: Micros) {
    for (slot, limit, side) in shard.iter().filter(|(slot, ..)| !slot.is_expired(now)) {
        write(snapshot, &slot.to_words());
        write(snapshot, &[limit.get() as u64]);
        if let Some(state) = side {
            write_side(snapshot, state);
        }
    }
}

fn write(snapshot: &mut Vec<u8>, words: &[u64]) {
    snapshot.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

fn write_limit(snapshot: &mut Vec<u8>, limit: LimitNumber, digest: u128, name: LimitName) {
    let mut padded = [0; NAME_WORDS * 8];
    padded[..name.as_bytes().len()].copy_from_slice(name.as_bytes());

    write(snapshot, &[limit.get() as u64]);
    snapshot.extend(digest.to_le_bytes());
    snapshot.extend(padded);
}

fn write_side(snapshot: &mut Vec<u8>, state: &SideState) {
    match state {
        SideState::Log(log) => {
            write(snapshot, &[TAG_LOG, log.hits().len() as u64]);
            for hit in log.hits() {
                write(snapshot, &[hit.at.get(), hit.cost]);
            }
        }
        SideState::Permits(permits) => {
            write(snapshot, &[TAG_PERMITS, permits.len() as u64]);
            for entry in permits.entries() {
                snapshot.extend(entry.id.get().to_le_bytes());
                let (timeout, expires) = (entry.timeout.get(), entry.expires.get());
                write(snapshot, &[entry.cost, timeout, expires]);
            }
        }
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
) -> Option<HashMap<u64, LimitNumber>> {
    let [count] = read(words)?;
    let mut limits = HashMap::new();

    for _ in 0..count {
        let [number, low, high] = read(words)?;
        let name: [u64; NAME_WORDS] = read(words)?;
        let name: Vec<u8> = name.iter().flat_map(|word| word.to_le_bytes()).collect();
        let name = std::str::from_utf8(&name).ok()?.trim_end_matches('\0');
        let name = LimitName::new(name).ok()?;
        let digest = u128::from(high) << 64 | u128::from(low);
        limits.insert(number, key_cap.limit_number(digest, name));
    }
    Some(limits)
}

fn read_side(words: &mut impl Iterator<Item = u64>) -> Option<SideState> {
    match read(words)? {
        [TAG_LOG, count] if count <= LOG_HITS_MAX as u64 => {
            let mut log = HitLog::default();
            for _ in 0..count {
                let [at, cost] = read(words)?;
                log.push(cost, Micros::new(at));
            }
            Some(SideState::Log(log))
        }
        [TAG_PERMITS, count] if count <= IN_FLIGHT_MAX => {
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
            Some(SideState::Permits(permits))
        }
        _ => None,
    }
}
