//! The keys that seal tokens. Without one, nobody can read, change or make a token.
//!
//! With `hash_secret`, the key is derived from it. A store in memory has a random key. Replicas on a
//! shared store keep random keys in a group of records there: a replica that finds none puts one,
//! and seals only with a key that it has read. So any replica can read it, too. When two replicas
//! put one at the same time, both are read, and the one with the lowest id seals.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::RwLock;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use tollgate::{Micros, StoreError};
use tollgate_rules::config::HashConfig;

use super::records::{RecordError, RecordGroup, RecordList, RecordRevision, SharedRecords};

/// A random key, or one derived from a secret.
pub(super) type KeyBytes = [u8; 32];
/// Tells keys apart, and nothing about them.
pub(super) type KeyId = [u8; 4];

/// How long the store keeps a key that no replica renews.
const KEY_TTL: Duration = Duration::from_secs(30 * 86_400);
/// A key that is kept for less than this is renewed, about once a day.
const RENEW_BELOW: Duration = Duration::from_secs(29 * 86_400);
/// The values whose hashes are the two halves of the key with a configured secret. Values of
/// attributes are UTF-8, so none of them has the same hash.
const SECRET_KEY_HALVES: [&[u8]; 2] = [b"\xffpermit 1", b"\xffpermit 2"];

/// A key that seals tokens.
#[derive(Clone)]
pub(super) struct SealingKey {
    pub(super) id: KeyId,
    /// Derives the key of each token.
    pub(super) deriver: hmac::Key,
}

/// The keys with which tokens can be opened. The first one seals.
pub(super) struct SealingKeys {
    source: KeyOrigin,
    known: RwLock<KnownKeys>,
}

/// Where keys come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyOrigin {
    /// From `hash_secret`.
    Secret,
    /// From this process, or from the file next to its snapshot.
    Process,
    /// From the store, which all replicas read.
    Store,
}

#[derive(Default)]
struct KnownKeys {
    /// Those of the store as of the last read. Empty until it was read.
    keys: Vec<KnownKey>,
    revision: RecordRevision,
}

struct KnownKey {
    key: SealingKey,
    record: String,
    expires_at: Micros,
}

impl SealingKey {
    pub(super) fn new(bytes: &KeyBytes) -> Self {
        let deriver = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let tag = hmac::sign(&deriver, b"id");
        let mut id = KeyId::default();
        id.copy_from_slice(&tag.as_ref()[..size_of::<KeyId>()]);
        Self { id, deriver }
    }

    /// The id of the record that holds the key.
    fn record_id(&self) -> String {
        format!("{:08x}", u32::from_be_bytes(self.id))
    }
}

impl SealingKeys {
    /// The key that a configured secret gives.
    pub(super) fn from_secret(HashConfig { hasher, .. }: &HashConfig) -> Self {
        let halves = SECRET_KEY_HALVES.map(|half| *hasher.hash(half).as_bytes());
        let mut bytes = KeyBytes::default();
        bytes.copy_from_slice(halves.as_flattened());
        Self::with_key(KeyOrigin::Secret, &bytes)
    }

    /// The key of this process.
    pub(super) fn of_process(bytes: &KeyBytes) -> Self {
        Self::with_key(KeyOrigin::Process, bytes)
    }

    /// The keys of a shared store, which are not known before [`sync`](Self::sync).
    pub(super) fn of_store() -> Self {
        Self {
            source: KeyOrigin::Store,
            known: RwLock::default(),
        }
    }

    fn with_key(source: KeyOrigin, bytes: &KeyBytes) -> Self {
        let key = KnownKey {
            key: SealingKey::new(bytes),
            record: String::new(),
            expires_at: Micros::MAX,
        };
        let known = KnownKeys {
            keys: vec![key],
            ..KnownKeys::default()
        };
        Self {
            source,
            known: RwLock::new(known),
        }
    }

    /// The key that seals; none while the replicas have not agreed on one.
    pub(super) fn current(&self) -> Option<SealingKey> {
        let known = self.known.read();
        known.keys.first().map(|known| known.key.clone())
    }

    /// The key with this id.
    pub(super) fn find(&self, id: KeyId) -> Option<SealingKey> {
        let known = self.known.read();
        let mut keys = known.keys.iter();
        keys.find(|known| known.key.id == id)
            .map(|known| known.key.clone())
    }

    /// Why a token was sealed with a key that is not known.
    pub(super) const fn missing_reason(&self) -> &'static str {
        match self.source {
            KeyOrigin::Secret => "it was sealed with another `hash_secret`, or without one",
            KeyOrigin::Process => {
                "it was sealed by another process: a store in memory keeps its key over a restart \
                 only with `store.snapshot`"
            }
            KeyOrigin::Store => {
                "it was sealed with a key that the store no longer has: the store was flushed, lost \
                 the key in a fail-over, or is another one"
            }
        }
    }

    /// Agrees on a key with the other replicas of a shared store. An unchanged key is one small
    /// call. While the store is unavailable, the known keys stay in use.
    pub(super) async fn sync(
        &self,
        records: &SharedRecords,
        now: Micros,
    ) -> Result<(), StoreError> {
        if self.source != KeyOrigin::Store {
            return Ok(());
        }
        match self.try_sync(records, now).await {
            Err(RecordError::Store(error)) => Err(error),
            // A full group has keys of other replicas, which the next call reads.
            _ => Ok(()),
        }
    }

    async fn try_sync(&self, records: &SharedRecords, now: Micros) -> Result<(), RecordError> {
        self.read(records, now).await?;
        if let Some((id, text)) = self.due_record(now) {
            let group = RecordGroup::SealingKeys;
            records.put(group, &id, &text, KEY_TTL).await?;
            self.read(records, now).await?;
        }
        Ok(())
    }

    async fn read(&self, records: &SharedRecords, now: Micros) -> Result<(), RecordError> {
        let revision = self.known.read().revision;
        let read = records.read(RecordGroup::SealingKeys, revision).await?;

        let mut known = self.known.write();
        if let Some(list) = read {
            *known = KnownKeys::new(list, now);
        }
        known.keys.retain(|known| known.expires_at > now);
        Ok(())
    }

    /// The id and the text of the record to put: a new key if there is none, or the one that seals
    /// if it is to be renewed.
    fn due_record(&self, now: Micros) -> Option<(String, String)> {
        let known = self.known.read();
        let Some(first) = known.keys.first() else {
            let bytes = random_key();
            return Some((SealingKey::new(&bytes).record_id(), encode_key(&bytes)));
        };
        let is_due = Duration::from(first.expires_at.since(now)) < RENEW_BELOW;
        is_due.then(|| (first.key.record_id(), first.record.clone()))
    }
}

impl KnownKeys {
    /// The keys of the store, ordered by their ids. What is not a key is left out.
    fn new(list: RecordList, now: Micros) -> Self {
        let keys = list.records.into_iter().filter_map(|record| {
            let ttl = Micros::from_duration_ceil(record.expires_after)?;
            Some(KnownKey {
                key: SealingKey::new(&decode_key(&record.text)?),
                record: record.text,
                expires_at: now.after(ttl),
            })
        });
        let mut keys: Vec<KnownKey> = keys.collect();
        keys.sort_by_key(|known| known.key.id);
        Self {
            keys,
            revision: list.revision,
        }
    }
}

/// A new key.
pub(super) fn random_key() -> KeyBytes {
    let mut bytes = KeyBytes::default();
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.expect("the operating system has random numbers");
    bytes
}

/// The text of a key.
pub(super) fn encode_key(bytes: &KeyBytes) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads the text of a key.
pub(super) fn decode_key(text: &str) -> Option<KeyBytes> {
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

/// Omits the keys.
impl fmt::Debug for SealingKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKeys({:?}, ..)", self.source)
    }
}

#[cfg(test)]
mod tests;
