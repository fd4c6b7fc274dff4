//! Shared records: small texts with an id and an expiry, which all instances on a store can read.
//!
//! Records are not counters: no decision waits for them. They use the links of the store, with one
//! script call for each operation (`scripts/records.lua`). A call that may have run is never sent
//! again: after an error, a record may or may not have been put or removed.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tollgate::StoreError;

use crate::RedisStore;
use crate::error::{CallError, ServerError};
use crate::layout::LayoutClaim;
use crate::link::{CallDeadline, LateReply};
use crate::wire::ScriptReply;

/// The longest id of a record, in bytes.
pub const ID_MAX: usize = 256;
/// The longest time for which a record is kept.
pub const TTL_MAX: Duration = Duration::from_secs(366 * 86_400);

/// A page of a read ends after this number of bytes. Decisions share the connection, so a page must
/// not keep it busy.
const PAGE_BYTES: f64 = 65_536.0;
/// The most pages of a read, in addition to one for each record. A server returns few empty pages.
const EMPTY_PAGES_MAX: usize = 1_024;
/// A reply is used this long after the call, even if a decision would no longer wait for it.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);
/// The operations of the script.
const PUT: u8 = 1;
/// A put with this expected length replaces any record.
const ANY_TEXT: u32 = u32::MAX;
const REMOVE: u8 = 2;
const READ: u8 = 3;

/// A group of records and its bounds. All instances must use the same bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordBounds {
    /// The name of the group, which is part of a key of the store: letters only.
    pub group: &'static str,
    /// The most records of the group.
    pub records_max: usize,
    /// The longest text of a record, in bytes.
    pub text_max: usize,
}

/// A record of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Unique in its group.
    pub id: String,
    /// The text, whose meaning the group defines.
    pub text: String,
    /// For how long the record is valid from now on. A group does not change when a record expires,
    /// so the reader must drop it by then.
    pub expires_after: Duration,
}

/// The records of a group, ordered by their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordList {
    /// The revision of the group when reading began.
    pub revision: RecordRevision,
    /// All records that existed while the group was read. A record that was put or removed
    /// meanwhile may be missing; then the revision is another one afterwards.
    pub records: Vec<Record>,
}

/// A revision of a group: random, and another one after every change, so that a store that lost its
/// data, or a fail-over to a server with older data, is never mistaken for the same revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RecordRevision([u8; 16]);

impl RecordRevision {
    /// The revision of a group that has no records.
    pub const NO_RECORDS: Self = Self([u8::MAX; 16]);

    /// A revision that no group has had before.
    pub fn random() -> Self {
        // Hashes with keys from the operating system.
        let half = || RandomState::new().build_hasher().finish().to_le_bytes();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&half());
        bytes[8..].copy_from_slice(&half());
        Self(bytes)
    }
}

/// Hexadecimal digits.
impl fmt::Display for RecordRevision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Why records could not be put, removed or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The id is empty or too long.
    #[error("the id of a record has {length} bytes: must be between 1 and {ID_MAX}")]
    Id {
        /// In bytes.
        length: usize,
    },
    /// The text is too long. Nothing was changed.
    #[error("the text of a record of {group:?} has {length} bytes: must be at most {text_max}")]
    Text {
        /// The name of the group.
        group: &'static str,
        /// In bytes.
        length: usize,
        /// In bytes.
        text_max: usize,
    },
    /// The time for which the record is to be kept is out of range. Nothing was changed.
    #[error("a record cannot be kept for {0:?}: must be between 1 ms and 366 days")]
    Ttl(Duration),
    /// The group has as many records as it can have. Nothing was changed.
    #[error("{group:?} has {records_max} records, the most it can have: remove one first")]
    Full {
        /// The name of the group.
        group: &'static str,
        /// The most records of the group.
        records_max: usize,
    },
    /// The store is unavailable or replied with an error. A change may have been made.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<CallError> for RecordError {
    fn from(error: CallError) -> Self {
        Self::Store(error.into())
    }
}

impl RecordBounds {
    /// Checks a record before it is put.
    pub fn check(&self, id: &str, text: &str, ttl: Duration) -> Result<(), RecordError> {
        check_id(id)?;
        if text.len() > self.text_max {
            return Err(RecordError::Text {
                group: self.group,
                length: text.len(),
                text_max: self.text_max,
            });
        }
        if !(Duration::from_millis(1)..=TTL_MAX).contains(&ttl) {
            return Err(RecordError::Ttl(ttl));
        }
        Ok(())
    }

    /// The error of a record that has no place in the group.
    pub const fn full(&self) -> RecordError {
        RecordError::Full {
            group: self.group,
            records_max: self.records_max,
        }
    }
}

fn check_id(id: &str) -> Result<(), RecordError> {
    match id.len() {
        1..=ID_MAX => Ok(()),
        length => Err(RecordError::Id { length }),
    }
}

impl RedisStore {
    /// Puts a record into a group. It replaces the record with the same id.
    pub async fn put_record(
        &self,
        bounds: &RecordBounds,
        id: &str,
        text: &str,
        ttl: Duration,
    ) -> Result<(), RecordError> {
        self.put_if(bounds, id, None, text, ttl).await.map(drop)
    }

    /// Puts a record into a group if the record with the same id has the `expected` text; an empty
    /// one expects that there is no such record. Returns false if there is another one, which stays.
    pub async fn swap_record(
        &self,
        bounds: &RecordBounds,
        id: &str,
        expected: &str,
        text: &str,
        ttl: Duration,
    ) -> Result<bool, RecordError> {
        self.put_if(bounds, id, Some(expected), text, ttl).await
    }

    async fn put_if(
        &self,
        bounds: &RecordBounds,
        id: &str,
        expected: Option<&str>,
        text: &str,
        ttl: Duration,
    ) -> Result<bool, RecordError> {
        bounds.check(id, text, ttl)?;
        let expected_length = expected.map_or(ANY_TEXT, |expected| {
            u32::try_from(expected.len()).unwrap_or(ANY_TEXT - 1)
        });
        let expected = expected.unwrap_or_default();

        let mut arguments = Vec::with_capacity(64 + id.len() + expected.len() + text.len());
        write_head(&mut arguments, PUT, RecordRevision::random());
        arguments.put_f64_le((ttl.as_secs_f64() * 1e6).round());
        arguments.put_f64_le(f64::from(
            u32::try_from(bounds.records_max).unwrap_or(u32::MAX),
        ));
        // An id is shorter than `ID_MAX`.
        arguments.put_u16_le(u16::try_from(id.len()).unwrap_or_default());
        arguments.put_u32_le(expected_length);
        for text in [id, expected, text] {
            arguments.extend_from_slice(text.as_bytes());
        }

        let reply = self.call_records(bounds, arguments).await?;
        if reply.is_unchanged {
            return Err(bounds.full());
        }
        Ok(reply.succeeded)
    }

    /// Removes a record. Returns whether the group had it.
    pub async fn remove_record(
        &self,
        bounds: &RecordBounds,
        id: &str,
    ) -> Result<bool, RecordError> {
        check_id(id)?;

        let mut arguments = Vec::with_capacity(17 + id.len());
        write_head(&mut arguments, REMOVE, RecordRevision::random());
        arguments.extend_from_slice(id.as_bytes());
        Ok(self.call_records(bounds, arguments).await?.succeeded)
    }

    /// Reads the records of a group; none if it is unchanged since the known revision.
    ///
    /// Reading an unchanged group is one small call. A large group is read in pages.
    pub async fn read_records(
        &self,
        bounds: &RecordBounds,
        known: RecordRevision,
    ) -> Result<Option<RecordList>, RecordError> {
        let mut revision = None;
        let mut records = BTreeMap::new();
        let mut cursor = String::from("0");

        for _ in 0..bounds.records_max.saturating_add(EMPTY_PAGES_MAX) {
            let mut arguments = Vec::with_capacity(48);
            write_head(&mut arguments, READ, known);
            arguments.put_f64_le(PAGE_BYTES);
            arguments.extend_from_slice(cursor.as_bytes());

            let reply = self.call_records(bounds, arguments).await?;
            if !reply.succeeded {
                return Ok(None);
            }
            let page =
                RecordPage::decode(&reply.records).ok_or_else(|| CallError::foreign_write(0))?;
            // A change during the read must show in the next one.
            let revision = *revision.get_or_insert(page.revision);
            let by_id = page
                .records
                .into_iter()
                .map(|record| (record.id.clone(), record));
            records.extend(by_id);

            if page.next == "0" {
                let records = records.into_values().collect();
                return Ok(Some(RecordList { revision, records }));
            }
            cursor = page.next;
        }
        Err(CallError::Refused(ServerError::new("the pages of a read do not end")).into())
    }

    async fn call_records(
        &self,
        bounds: &RecordBounds,
        arguments: Vec<u8>,
    ) -> Result<ScriptReply, CallError> {
        let router = self.router();
        let decide_by = router.deadline();
        let late_reply = LateReply {
            use_until: decide_by.max(Instant::now() + REPLY_TIMEOUT),
            // No decision waits for it.
            overdue: mpsc::channel(1).0,
        };
        let deadline = CallDeadline {
            decide_by,
            late_reply: Some(late_reply),
        };

        let call = router.encoder.records(bounds.group, arguments);
        let submitted = if LayoutClaim::is_about(bounds) {
            router.submit_unclaimed(call, deadline)
        } else {
            router.submit(call, deadline)
        };
        submitted?.run().await
    }
}

/// Appends the operation and the revision: the new one of a change, or the known one of a read.
fn write_head(out: &mut Vec<u8>, operation: u8, revision: RecordRevision) {
    out.push(operation);
    out.extend_from_slice(&revision.0);
}

/// The reply to a read.
struct RecordPage {
    revision: RecordRevision,
    /// The cursor of the next page; `0` if there is none.
    next: String,
    records: Vec<Record>,
}

impl RecordPage {
    /// Decodes the reply of the script; none if it is not valid.
    fn decode(mut reply: &[u8]) -> Option<Self> {
        let (revision, rest) = reply.split_first_chunk()?;
        reply = rest;
        let length = usize::from(reply.try_get_u16_le().ok()?);
        let next = take_text(&mut reply, length)?;

        let mut records = Vec::new();
        while !reply.is_empty() {
            let micros = reply.try_get_f64_le().ok()?;
            let id_length = usize::from(reply.try_get_u16_le().ok()?);
            let text_length = usize::try_from(reply.try_get_u32_le().ok()?).ok()?;
            records.push(Record {
                id: take_text(&mut reply, id_length)?,
                text: take_text(&mut reply, text_length)?,
                expires_after: Duration::try_from_secs_f64(micros / 1e6).ok()?,
            });
        }

        Some(Self {
            revision: RecordRevision(*revision),
            next,
            records,
        })
    }
}

fn take_text(reply: &mut &[u8], length: usize) -> Option<String> {
    let (text, rest) = reply.split_at_checked(length)?;
    *reply = rest;
    // Another program may have written the record: it must not hide the others.
    Some(String::from_utf8_lossy(text).into_owned())
}
