//! Saves the counters and restores them, so that a single instance keeps them over a restart.
//!
//! A snapshot contains fingerprints, never keys, and the hash seeds they were made with. Anyone who
//! has a snapshot can test whether a guessed key is in it, so protect it like the memory of the
//! process. A snapshot can only be restored by a build whose hash function gives the same
//! fingerprints; it contains a probe that reveals a difference.

use sha2::{Digest, Sha256};

use super::MemoryStore;
use super::builder::MemoryStoreBuilder;
use super::fingerprint::{Fingerprint, Fingerprinter, HashSeeds};
use super::side_table::{SideState, SideTable};
use super::slot::{Kind, Slot};
use crate::algorithm::{
    HitLog, IN_FLIGHT_MAX, LOG_HITS_MAX, LogHit, PermitEntry, PermitId, Permits,
};
use crate::time::Micros;

const MAGIC: [u8; 8] = *b"TOLLGATE";
const VERSION: u64 = 1;
const DIGEST_BYTES: usize = 32;
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
    pub fn snapshot(&self) -> Vec<u8> {
        let now = self.now();
        let mut writer = SnapshotWriter(MAGIC.to_vec());
        writer.number(VERSION);
        writer.fingerprinter(&self.inner.fingerprinter);

        for shard in &self.inner.shards {
            let mut shard = shard.lock();
            let slots: Vec<Slot> = shard
                .flushed_table()
                .iter()
                .filter(|slot| !slot.is_expired(now))
                .copied()
                .collect();
            slots
                .iter()
                .for_each(|slot| writer.slot(&shard.side_table, slot));
        }

        let digest = Sha256::digest(&writer.0);
        writer.0.extend_from_slice(&digest);
        writer.0
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
        let Some((body, digest)) = snapshot.split_last_chunk::<DIGEST_BYTES>() else {
            return Err(SnapshotError::NotASnapshot);
        };
        let content = body
            .strip_prefix(&MAGIC)
            .ok_or(SnapshotError::NotASnapshot)?;
        let mut reader = SnapshotReader(content);

        match reader.number().ok_or(SnapshotError::Damaged)? {
            VERSION if Sha256::digest(body).as_slice() == digest => {}
            VERSION => return Err(SnapshotError::Damaged),
            found => return Err(SnapshotError::UnsupportedVersion { found }),
        }

        let (fingerprinter, probe) = reader.fingerprinter().ok_or(SnapshotError::Damaged)?;
        if fingerprinter.probe() != probe {
            return Err(SnapshotError::HashMismatch);
        }

        let store = self.build_with(fingerprinter);
        let now = store.now();
        while !reader.0.is_empty() {
            let (slot, side) = reader.slot().ok_or(SnapshotError::Damaged)?;
            if !slot.is_expired(now) {
                store.restore_counter(slot, side, now);
            }
        }
        Ok(store)
    }
}

impl MemoryStore {
    fn restore_counter(&self, slot: Slot, side: Option<SideState>, now: Micros) {
        let fingerprint = slot.fingerprint();
        let mut shard = self.inner.lock(fingerprint);
        if shard.find(fingerprint).is_some() {
            return;
        }

        if self.inner.key_cap.charge(1) > 0 {
            self.inner.make_room(&mut shard, fingerprint, now);
        }
        shard.restore(slot, side, &self.inner.key_cap);
        // A log may take the memory of many keys, so one eviction may not be enough.
        while self.inner.key_cap.is_exceeded() && self.inner.make_room(&mut shard, fingerprint, now)
        {
        }
    }
}

/// Appends the parts of a snapshot to a buffer. All numbers are little-endian.
struct SnapshotWriter(Vec<u8>);

impl SnapshotWriter {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn numbers(&mut self, numbers: impl IntoIterator<Item = u64>) {
        numbers.into_iter().for_each(|number| self.number(number));
    }

    fn fingerprinter(&mut self, fingerprinter: &Fingerprinter) {
        self.numbers(*fingerprinter.seeds());
        let probe = fingerprinter.probe();
        self.numbers([probe.high.into(), probe.low]);
    }

    fn slot(&mut self, side_table: &SideTable, slot: &Slot) {
        self.numbers(slot.to_words());
        if slot.kind() != Kind::Side {
            return;
        }

        match side_table.get(slot.side_index()).map(|side| &side.state) {
            Some(SideState::Log(log)) => {
                self.numbers([TAG_LOG, log.hits().len() as u64]);
                for hit in log.hits() {
                    self.numbers([hit.at.get(), hit.cost]);
                }
            }
            Some(SideState::Permits(permits)) => {
                self.numbers([TAG_PERMITS, permits.entries().len() as u64]);
                for entry in permits.entries() {
                    self.0.extend_from_slice(&entry.id.get().to_le_bytes());
                    self.numbers([entry.cost, entry.timeout.get(), entry.expires.get()]);
                }
            }
            None => self.numbers([TAG_LOG, 0]),
        }
    }
}

/// Reads what [`SnapshotWriter`] wrote. Its methods return `None` when the bytes end too soon or
/// are invalid.
struct SnapshotReader<'a>(&'a [u8]);

impl SnapshotReader<'_> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn wide_number(&mut self) -> Option<u128> {
        let (low, high) = (self.number()?, self.number()?);
        Some(u128::from(high) << 64 | u128::from(low))
    }

    /// The fingerprinter with the seeds of the snapshot, and the probe it must reproduce.
    fn fingerprinter(&mut self) -> Option<(Fingerprinter, Fingerprint)> {
        let mut seeds = HashSeeds::default();
        for seed in &mut seeds {
            *seed = self.number()?;
        }
        let (high, low) = (u32::try_from(self.number()?).ok()?, self.number()?);
        Some((Fingerprinter::from_seeds(seeds), Fingerprint { low, high }))
    }

    fn slot(&mut self) -> Option<(Slot, Option<SideState>)> {
        let mut words = [0; 4];
        for word in &mut words {
            *word = self.number()?;
        }

        let slot = Slot::from_words(words);
        match slot.kind() {
            Kind::Vacant => None,
            Kind::Side => Some((slot, Some(self.side()?))),
            Kind::Fixed | Kind::Sliding | Kind::Bucket => Some((slot, None)),
        }
    }

    fn side(&mut self) -> Option<SideState> {
        let (tag, count) = (self.number()?, self.number()?);
        match tag {
            TAG_LOG if count <= LOG_HITS_MAX as u64 => self.log(count).map(SideState::Log),
            TAG_PERMITS if count <= IN_FLIGHT_MAX => self.permits(count).map(SideState::Permits),
            _ => None,
        }
    }

    fn log(&mut self, count: u64) -> Option<HitLog> {
        let mut log = HitLog::default();
        for _ in 0..count {
            let hit = LogHit {
                at: Micros::new(self.number()?),
                cost: self.number()?,
            };
            log.push(hit.cost, hit.at);
        }
        Some(log)
    }

    fn permits(&mut self, count: u64) -> Option<Permits> {
        let mut permits = Permits::default();
        for _ in 0..count {
            permits.insert(PermitEntry {
                id: PermitId::new(self.wide_number()?),
                cost: self.number()?,
                timeout: Micros::new(self.number()?),
                expires: Micros::new(self.number()?),
            });
        }

        Some(permits)
    }
}
