//! Saving the counters and bringing them back, so that a single instance survives a restart.
//!
//! A snapshot holds fingerprints, never keys, and the secrets they were made with: whoever has it
//! can test a guess, so it deserves the same care as the process's memory. It is only read back by
//! a build whose hash gives the same fingerprints; a probe inside tells.

use sha2::{Digest, Sha256};

use super::MemoryStore;
use super::builder::MemoryStoreBuilder;
use super::fingerprint::{Fingerprint, Fingerprinter, Seeds};
use super::sides::{SideState, Sides};
use super::slot::{Kind, Slot};
use crate::algorithm::{
    HitLog, IN_FLIGHT_MAX, LOG_HITS_MAX, LogHit, PermitEntry, PermitId, Permits,
};
use crate::time::Micros;

const MAGIC: [u8; 8] = *b"TOLLGATE";
const VERSION: u64 = 1;
const DIGEST_BYTES: usize = 32;

/// Why bytes are not a snapshot that can be read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// It does not begin like one.
    #[error("this is not a snapshot of a memory store")]
    NotASnapshot,
    /// It is from a version that writes another format.
    #[error("the snapshot has format {found}; this build reads format {VERSION}")]
    Version {
        /// Its format.
        found: u64,
    },
    /// It was cut short or changed.
    #[error(
        "the snapshot is damaged: its checksum does not match; start empty or use an older one"
    )]
    Damaged,
    /// It comes from a build or a processor whose hash differs.
    #[error(
        "the snapshot comes from a build with another hash, so its keys cannot be found; start empty"
    )]
    OtherHash,
}

impl MemoryStore {
    /// All counters that are worth keeping. Each shard is saved at one moment, one after the other.
    pub fn snapshot(&self) -> Vec<u8> {
        let now = self.now();
        let mut writer = Writer(MAGIC.to_vec());
        writer.number(VERSION);
        self.inner
            .prints
            .seeds()
            .iter()
            .for_each(|seed| writer.number(*seed));
        let probe = self.inner.prints.probe();
        writer.number(probe.high.into());
        writer.number(probe.low);
        for shard in &self.inner.shards {
            let mut shard = shard.lock();
            let slots: Vec<Slot> = shard
                .table()
                .iter()
                .filter(|slot| !slot.is_spent(now))
                .copied()
                .collect();
            slots
                .iter()
                .for_each(|slot| writer.slot(&shard.sides, slot));
        }
        let digest = Sha256::digest(&writer.0);
        writer.0.extend_from_slice(&digest);
        writer.0
    }

    /// A store with the counters of a snapshot, the default cap and real time. See
    /// [`MemoryStoreBuilder::restore`] to choose them.
    pub fn restore(snapshot: &[u8]) -> Result<Self, SnapshotError> {
        Self::builder().restore(snapshot)
    }
}

impl MemoryStoreBuilder {
    /// The store, with the counters of a snapshot. What has expired since is left out, and if there
    /// are more counters than the cap allows, those nearest to a full budget go.
    pub fn restore(self, snapshot: &[u8]) -> Result<MemoryStore, SnapshotError> {
        let Some((body, digest)) = snapshot.split_last_chunk::<DIGEST_BYTES>() else {
            return Err(SnapshotError::NotASnapshot);
        };
        let mut reader = Reader(
            body.strip_prefix(&MAGIC)
                .ok_or(SnapshotError::NotASnapshot)?,
        );
        match reader.number().ok_or(SnapshotError::Damaged)? {
            VERSION if Sha256::digest(body).as_slice() == digest => {}
            VERSION => return Err(SnapshotError::Damaged),
            found => return Err(SnapshotError::Version { found }),
        }
        let (prints, probe) = reader.prints().ok_or(SnapshotError::Damaged)?;
        if prints.probe() != probe {
            return Err(SnapshotError::OtherHash);
        }
        let store = self.build_with(prints);
        let now = store.now();
        while !reader.0.is_empty() {
            let (slot, side) = reader.slot().ok_or(SnapshotError::Damaged)?;
            if !slot.is_spent(now) {
                store.bring_back(slot, side, now);
            }
        }
        Ok(store)
    }
}

impl MemoryStore {
    fn bring_back(&self, slot: Slot, side: Option<SideState>, now: Micros) {
        let home = self.inner.shard_of(slot.print());
        let mut shard = self.inner.shards[home].lock();
        if shard.find(slot.print()).is_some() {
            return;
        }
        if self.inner.budget.take(1) > 0 {
            self.inner.make_room(&mut shard, slot.print(), now);
        }
        shard.bring_back(slot, side, &self.inner.budget);
        // A log may be worth many keys, so one round may not be enough.
        while self.inner.budget.is_over() && self.inner.make_room(&mut shard, slot.print(), now) {}
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn slot(&mut self, sides: &Sides, slot: &Slot) {
        slot.to_words()
            .into_iter()
            .for_each(|word| self.number(word));
        if slot.kind() != Kind::Side {
            return;
        }
        match sides.get(slot.as_side()).map(|side| &side.state) {
            Some(SideState::Log(log)) => {
                self.number(0);
                self.number(log.hits().len() as u64);
                log.hits().for_each(|hit| {
                    [hit.at.get(), hit.cost]
                        .into_iter()
                        .for_each(|word| self.number(word))
                });
            }
            Some(SideState::Permits(leases)) => {
                self.number(1);
                self.number(leases.entries().len() as u64);
                leases.entries().for_each(|held| self.held(held));
            }
            None => [0, 0].into_iter().for_each(|word| self.number(word)),
        }
    }

    fn held(&mut self, held: PermitEntry) {
        self.0.extend_from_slice(&held.id.get().to_le_bytes());
        [held.cost, held.timeout.get(), held.expires.get()]
            .into_iter()
            .for_each(|word| self.number(word));
    }
}

/// Reads back what [`Writer`] wrote; `None` when the bytes end too soon or make no sense.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn wide(&mut self) -> Option<u128> {
        let (low, high) = (self.number()?, self.number()?);
        Some(u128::from(high) << 64 | u128::from(low))
    }

    fn prints(&mut self) -> Option<(Fingerprinter, Fingerprint)> {
        let mut seeds = Seeds::default();
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
        let (kind, count) = (self.number()?, self.number()?);
        let count_max = if kind == 0 {
            LOG_HITS_MAX as u64
        } else {
            IN_FLIGHT_MAX
        };
        if kind > 1 || count > count_max {
            return None;
        }
        let mut log = HitLog::default();
        let mut leases = Permits::default();
        for _ in 0..count {
            if kind == 0 {
                let hit = LogHit {
                    at: Micros::new(self.number()?),
                    cost: self.number()?,
                };
                log.push(hit.cost, hit.at);
            } else {
                let (id, cost) = (PermitId::new(self.wide()?), self.number()?);
                let (length, expires) = (Micros::new(self.number()?), Micros::new(self.number()?));
                leases.insert(PermitEntry {
                    id,
                    cost,
                    timeout: length,
                    expires,
                });
            }
        }
        Some(if kind == 0 {
            SideState::Log(log)
        } else {
            SideState::Permits(leases)
        })
    }
}
