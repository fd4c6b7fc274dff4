//! The actions that this replica knows of, as records: its own, and those that it has read from the
//! store.
//!
//! A removal is a record, too: a mark in the place of the action, which lasts as long as any
//! replica may remember the action. So the store and the replicas agree whatever a fail-over loses:
//! of two records with the same id the newer one counts, and what the store lacks is put again.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate::Micros;

use super::action::Action;
use super::record::RecordHead;
use crate::records::{Record, RecordList, RecordRevision};

/// The most marks. Beyond it, the oldest are forgotten.
const MARKS_MAX: usize = 10_000;
/// Replicas may remember an action for this long after its end: more than clocks drift apart.
const DRIFT_MAX: Micros = Micros::from_secs(3_600);
/// A record that ends sooner is not put again.
const LEFT_MIN: Micros = Micros::from_secs(1);

/// The known records.
pub(crate) type ActionLog = Mutex<LogState>;

/// The content of the log, while it is locked.
#[derive(Debug, Default)]
pub(crate) struct LogState {
    /// By id.
    entries: BTreeMap<String, LogEntry>,
    /// The revision of the records that are the same as `entries`; the default if none is.
    revision: RecordRevision,
    /// Counts the changes of `entries`.
    pub(crate) changes: u64,
}

/// A record as this replica knows it: an action, one that has ended, or the mark of a removal.
#[derive(Clone, Debug)]
pub(crate) struct LogEntry {
    pub(crate) text: Arc<str>,
    /// When it was made. Of two records with the same id, the later one counts.
    pub(crate) created_at_ms: u64,
    /// When the record expires, by the clock of this replica.
    pub(crate) expires_at: Micros,
    /// The action, unless it has ended, was removed, or is of another version.
    pub(crate) action: Option<Action>,
    /// The text that the store was last known to have under this id; empty if it has none.
    pub(crate) stored: Arc<str>,
}

/// What a read of the store shows to be done there.
#[derive(Debug, Default)]
pub(crate) struct StoreRepair {
    /// The records that it lacks, or has older ones of, with their ids.
    pub(crate) lost: Vec<(String, LogEntry)>,
    /// The ids of marks beyond the most that are kept, and of what is not a record of any version.
    pub(crate) unwanted: Vec<String>,
}

impl LogEntry {
    /// The record with this text, which the store does not have yet.
    pub(crate) fn new(id: &str, text: &str, expires_at: Micros) -> Self {
        let head = RecordHead::parse(text);
        let ends_at = head.ends_at(expires_at);
        Self {
            text: text.into(),
            created_at_ms: head.created_at_ms,
            expires_at,
            action: Action::from_record(id, text, ends_at),
            stored: "".into(),
        }
    }

    /// The same record, in the store.
    pub(crate) fn into_stored(self) -> Self {
        let stored = self.text.clone();
        Self { stored, ..self }
    }

    /// A record that was read. It ends by the store's clock, so that the clocks of replicas need
    /// not agree; `began` is when the read began, so that no replica remembers it for longer.
    fn read(record: &Record, began: Micros) -> Self {
        let left = Micros::from_duration_ceil(record.expires_after).unwrap_or(Micros::MAX);
        Self::new(&record.id, &record.text, began.after(left)).into_stored()
    }

    /// When no replica remembers the action any more, or those that this record has replaced.
    pub(crate) fn forgotten_at(&self) -> Micros {
        let action = self.action.as_ref();
        let own = action.map_or(Micros::ZERO, |action| action.expires_at.after(DRIFT_MAX));
        own.max(self.expires_at)
    }

    /// The same on every replica, also for two records of the same millisecond.
    fn is_newer(&self, other: &Self) -> bool {
        (self.created_at_ms, &self.text) > (other.created_at_ms, &other.text)
    }

    /// Whether the record must be put into the store.
    fn is_lost(&self, now: Micros) -> bool {
        self.text != self.stored && now.after(LEFT_MIN) < self.expires_at
    }
}

impl LogState {
    /// The revision that is known; the default if a change is not read back yet.
    pub(crate) const fn revision(&self) -> RecordRevision {
        self.revision
    }

    /// All known actions, those that have ended since the last read included.
    pub(crate) fn actions(&self) -> impl Iterator<Item = &Action> {
        let entries = self.entries.values();
        entries.filter_map(|entry| entry.action.as_ref())
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&String, &LogEntry)> {
        self.entries.iter()
    }

    pub(crate) fn get(&self, id: &str) -> Option<&LogEntry> {
        self.entries.get(id)
    }

    /// Takes over a record that this replica has put into the store, or has kept over a restart.
    /// Nothing else than a record is kept.
    pub(crate) fn put(&mut self, id: &str, entry: LogEntry) {
        let is_old = |known: &LogEntry| known.is_newer(&entry);
        if entry.created_at_ms == 0 || self.entries.get(id).is_some_and(is_old) {
            return;
        }
        self.entries.insert(id.to_owned(), entry);
        self.changes += 1;
        // The next read must return everything: a fail-over can bring back the revision before the
        // change, and then the change is lost.
        self.revision = RecordRevision::default();
    }

    /// Merges the records of the store, whose read began at this time, and returns what must be
    /// changed there.
    pub(crate) fn merge(&mut self, stored: &RecordList, began: Micros) -> StoreRepair {
        for entry in self.entries.values_mut() {
            entry.stored = "".into();
        }
        let mut unwanted = Vec::new();
        for record in &stored.records {
            let read = LogEntry::read(record, began);
            match self.entries.get_mut(&record.id) {
                _ if read.created_at_ms == 0 => unwanted.push(record.id.clone()),
                Some(known) if known.is_newer(&read) => known.stored = read.text,
                Some(known) => *known = read,
                None => drop(self.entries.insert(record.id.clone(), read)),
            }
        }
        self.changes += 1;

        unwanted.extend(self.forget_oldest_marks());
        let lost = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.is_lost(began));
        let lost: Vec<_> = lost
            .map(|(id, entry)| (id.clone(), entry.clone()))
            .collect();
        self.revision = match lost.as_slice() {
            [] => stored.revision,
            _ => RecordRevision::default(),
        };
        StoreRepair { lost, unwanted }
    }

    /// Forgets the oldest marks beyond the most that are kept. Returns the ids of those in the
    /// store.
    fn forget_oldest_marks(&mut self) -> Vec<String> {
        let excess = (self.entries.len() - self.actions().count()).saturating_sub(MARKS_MAX);
        if excess == 0 {
            return Vec::new();
        }

        let marks = self
            .entries
            .iter()
            .filter(|(_, mark)| mark.action.is_none());
        let marks = marks.map(|(id, mark)| (mark.created_at_ms, id.clone()));
        let mut marks: Vec<_> = marks.collect();
        marks.sort_unstable();
        let forgotten = marks.into_iter().take(excess);
        let forgotten = forgotten.filter_map(|(_, id)| self.entries.remove_entry(&id));
        let stored = forgotten.filter(|(_, mark)| !mark.stored.is_empty());
        stored.map(|(id, _)| id).collect()
    }

    /// Drops the actions that have ended, and records that have expired. Returns whether an action
    /// has ended.
    pub(crate) fn drop_ended(&mut self, now: Micros) -> bool {
        let mut has_ended = false;
        for entry in self.entries.values_mut() {
            has_ended |= entry
                .action
                .take_if(|action| !action.is_live(now))
                .is_some();
        }
        self.entries.retain(|_, entry| now < entry.expires_at);
        has_ended
    }
}
