//! Small facts that the replicas of a store share: who they are, what an operator has ordered,
//! which keys are heaviest. With a memory store, this process shares them with itself.
//!
//! No decision waits for a record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate::{Clock, Micros};
use tollgate_redis::RedisStore;
pub use tollgate_redis::records::{
    ID_MAX, Record, RecordBounds, RecordError, RecordList, RecordRevision, TTL_MAX,
};

/// The kinds of facts that replicas share. Each group is one hash in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordGroup {
    /// The replicas, by their names.
    Fleet,
    /// What operators have ordered: blocks, exemptions, overrides.
    Actions,
    /// The heaviest keys of each replica.
    Top,
    /// The keys that seal tokens, where no `hash_secret` is configured.
    SealingKeys,
}

impl RecordGroup {
    /// The name of the group and its bounds, which all replicas must agree on.
    pub const fn bounds(self) -> RecordBounds {
        let (group, records_max, text_max) = match self {
            Self::Fleet => ("fleet", 1_024, 16 << 10),
            // Actions, marks of removed ones, and room for those of several replicas at once.
            Self::Actions => ("actions", 21_000, 2 << 10),
            Self::Top => ("top", 1_024, 128 << 10),
            Self::SealingKeys => ("seals", 1_024, 64),
        };
        RecordBounds {
            group,
            records_max,
            text_max,
        }
    }
}

/// The records of a store. Clones share them.
#[derive(Clone, Debug)]
pub struct SharedRecords(RecordStore);

#[derive(Clone, Debug)]
enum RecordStore {
    Memory(Arc<MemoryRecords>),
    Redis(RedisStore),
}

impl SharedRecords {
    /// Records of this process alone, which expire by this clock.
    pub fn in_memory(clock: Arc<dyn Clock>) -> Self {
        let groups = Mutex::default();
        Self(RecordStore::Memory(Arc::new(MemoryRecords {
            clock,
            groups,
        })))
    }

    /// Records that all replicas on the store share.
    pub fn on_redis(store: RedisStore) -> Self {
        Self(RecordStore::Redis(store))
    }

    /// A server with the same records, which misses every later change of this one.
    #[cfg(test)]
    pub(crate) fn fork(&self) -> Self {
        let RecordStore::Memory(records) = &self.0 else {
            panic!("records in memory");
        };
        let clock = records.clock.clone();
        let groups = Mutex::new(records.groups.lock().clone());
        Self(RecordStore::Memory(Arc::new(MemoryRecords {
            clock,
            groups,
        })))
    }

    /// True when other replicas see the records.
    pub const fn are_shared(&self) -> bool {
        matches!(self.0, RecordStore::Redis(_))
    }

    /// Puts a record into a group, or replaces the one with the same id. It expires after `ttl`.
    /// After a store error it may have been put.
    pub async fn put(
        &self,
        group: RecordGroup,
        id: &str,
        text: &str,
        ttl: Duration,
    ) -> Result<(), RecordError> {
        match &self.0 {
            RecordStore::Memory(records) => records.put(group, id, None, text, ttl).map(drop),
            RecordStore::Redis(store) => store.put_record(&group.bounds(), id, text, ttl).await,
        }
    }

    /// Puts a record if the one with the same id has the `expected` text; an empty one expects that
    /// there is none. Returns false if another record is there, which stays. After a store error it
    /// may have been put; the same call again returns true then.
    pub async fn swap(
        &self,
        group: RecordGroup,
        id: &str,
        expected: &str,
        text: &str,
        ttl: Duration,
    ) -> Result<bool, RecordError> {
        match &self.0 {
            RecordStore::Memory(records) => records.put(group, id, Some(expected), text, ttl),
            RecordStore::Redis(store) => {
                let bounds = group.bounds();
                store.swap_record(&bounds, id, expected, text, ttl).await
            }
        }
    }

    /// Removes a record. Returns whether it was there. After a store error it may be removed.
    pub async fn remove(&self, group: RecordGroup, id: &str) -> Result<bool, RecordError> {
        match &self.0 {
            RecordStore::Memory(records) => Ok(records.remove(group, id)),
            RecordStore::Redis(store) => store.remove_record(&group.bounds(), id).await,
        }
    }

    /// Reads a group; none if it is unchanged since the known revision, which is one small call.
    ///
    /// A group does not change when a record expires: the reader drops a record once its
    /// `expires_after` has passed.
    pub async fn read(
        &self,
        group: RecordGroup,
        known: RecordRevision,
    ) -> Result<Option<RecordList>, RecordError> {
        match &self.0 {
            RecordStore::Memory(records) => Ok(records.read(group, known)),
            RecordStore::Redis(store) => store.read_records(&group.bounds(), known).await,
        }
    }
}

/// The records of one process.
#[derive(Debug)]
struct MemoryRecords {
    clock: Arc<dyn Clock>,
    /// By the name of the group.
    groups: Mutex<BTreeMap<&'static str, MemoryGroup>>,
}

#[derive(Clone, Debug)]
struct MemoryGroup {
    revision: RecordRevision,
    /// By id: the text, and when it expires.
    records: BTreeMap<String, (String, Micros)>,
}

impl Default for MemoryGroup {
    fn default() -> Self {
        Self {
            revision: RecordRevision::NO_RECORDS,
            records: BTreeMap::new(),
        }
    }
}

impl MemoryRecords {
    /// Puts a record. Returns false if another one than expected is there.
    fn put(
        &self,
        group: RecordGroup,
        id: &str,
        expected: Option<&str>,
        text: &str,
        ttl: Duration,
    ) -> Result<bool, RecordError> {
        let bounds = group.bounds();
        bounds.check(id, text, ttl)?;

        let now = self.clock.now();
        let mut groups = self.groups.lock();
        let group = groups.entry(bounds.group).or_default();
        group.records.retain(|_, (_, expires_at)| *expires_at > now);
        if let Some(expected) = expected {
            let current = group.records.get(id).map_or("", |(text, _)| text);
            if current == text || current != expected {
                return Ok(current == text);
            }
        }
        if group.records.len() >= bounds.records_max && !group.records.contains_key(id) {
            return Err(bounds.full());
        }

        // A TTL has an upper bound that fits into microseconds.
        let ttl = Micros::new(u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX));
        let record = (text.to_owned(), now.after(ttl));
        group.records.insert(id.to_owned(), record);
        group.revision = RecordRevision::random();
        Ok(true)
    }

    fn remove(&self, group: RecordGroup, id: &str) -> bool {
        let now = self.clock.now();
        let mut groups = self.groups.lock();
        let group = groups.entry(group.bounds().group).or_default();

        let removed = group.records.remove(id);
        let is_removed = removed.is_some_and(|(_, expires_at)| expires_at > now);
        if is_removed {
            group.revision = RecordRevision::random();
        }
        is_removed
    }

    fn read(&self, group: RecordGroup, known: RecordRevision) -> Option<RecordList> {
        let now = self.clock.now();
        let mut groups = self.groups.lock();
        let group = groups.entry(group.bounds().group).or_default();
        if group.revision == known {
            return None;
        }

        let records = group.records.iter();
        let valid = records.filter(|(_, (_, expires_at))| *expires_at > now);
        let records = valid.map(|(id, (text, expires_at))| Record {
            id: id.clone(),
            text: text.clone(),
            expires_after: expires_at.since(now).into(),
        });
        Some(RecordList {
            revision: group.revision,
            records: records.collect(),
        })
    }
}
