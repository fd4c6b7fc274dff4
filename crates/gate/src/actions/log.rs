//! The actions that this replica knows of: its own, and those that it has read from the store.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tollgate::Micros;

use super::action::Action;
use crate::records::{Record, RecordList, RecordRevision};

/// How long a change through this replica is remembered, so that it is made again if a fail-over of
/// the store loses it.
const OWN_FOR: Micros = Micros::from_secs(30);

/// The known actions.
pub(crate) type ActionLog = Mutex<LogState>;

/// The content of the log, while it is locked.
#[derive(Debug, Default)]
pub(crate) struct LogState {
    actions: BTreeMap<String, Action>,
    /// The revision of the records that `actions` are read from.
    revision: RecordRevision,
    /// Counts the changes through this replica: a read that began before one is out of date.
    changes: u64,
    /// The changes that were made here lately.
    own: Vec<ActionEdit>,
    /// True when the store has failed since the last read, so that it may lose what was put lately.
    pub(crate) has_failed: bool,
}

/// A change through this replica.
#[derive(Clone, Debug)]
pub(crate) struct ActionEdit {
    pub(crate) id: String,
    /// The action that was put; none if it was removed.
    pub(crate) put: Option<Action>,
    /// When the action was created that was put or removed.
    created_at: Micros,
    at: Micros,
}

/// What a read of the records begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogPosition {
    pub(crate) revision: RecordRevision,
    changes: u64,
}

impl LogState {
    pub(crate) fn position(&self) -> LogPosition {
        LogPosition {
            revision: self.revision,
            changes: self.changes,
        }
    }

    /// All known actions, those that have ended included.
    pub(crate) fn actions(&self) -> impl Iterator<Item = &Action> {
        self.actions.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.actions.len()
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Action> {
        self.actions.get(id)
    }

    /// Puts an action through this replica, or removes it.
    pub(crate) fn edit(&mut self, action: &Action, put: Option<Action>, at: Micros) {
        self.changes += 1;
        self.own.retain(|own| own.id != action.id);
        let edit = ActionEdit {
            id: action.id.clone(),
            put,
            created_at: action.created_at,
            at,
        };
        self.apply(&edit);
        self.own.push(edit);
    }

    fn apply(&mut self, edit: &ActionEdit) {
        // The next read must return everything: a fail-over can bring back the revision before the
        // change, and then the change is lost.
        self.revision = RecordRevision::default();
        match &edit.put {
            Some(action) => self.actions.insert(edit.id.clone(), action.clone()),
            None => self.actions.remove(&edit.id),
        };
    }

    /// Replaces the actions by those of the store, unless one was put or removed here since the
    /// read began. Returns the changes that a fail-over has lost. They stay in effect here.
    pub(crate) fn replace(
        &mut self,
        began: LogPosition,
        records: &RecordList,
        now: Micros,
    ) -> Vec<ActionEdit> {
        if began.changes != self.changes {
            return Vec::new();
        }

        self.revision = records.revision;
        let read = records
            .records
            .iter()
            .filter_map(|record| read(record, now));
        self.actions = read.map(|action| (action.id.clone(), action)).collect();

        self.own.retain(|edit| now.since(edit.at) < OWN_FOR);
        let has_failed = std::mem::take(&mut self.has_failed);
        let own = self.own.iter();
        let lost = own.filter(|edit| match (&edit.put, self.actions.get(&edit.id)) {
            // Another replica may have removed it, unless the store has failed.
            (Some(action), None) => has_failed && action.is_live(now),
            // The same action is back: a fail-over lost the removal, or made another replica put
            // again what it had put.
            (None, Some(stored)) => stored.created_at == edit.created_at,
            _ => false,
        });
        let lost: Vec<ActionEdit> = lost.cloned().collect();
        for edit in &lost {
            self.apply(edit);
        }
        lost
    }

    /// Drops the actions that have ended. Returns whether there were any.
    pub(crate) fn drop_ended(&mut self, now: Micros) -> bool {
        let before = self.actions.len();
        self.actions.retain(|_, action| action.is_live(now));
        self.actions.len() < before
    }
}

/// The action of a record. The store's clock tells when it ends, so that the clocks of replicas need
/// not agree.
fn read(record: &Record, now: Micros) -> Option<Action> {
    let left = Micros::from_duration_ceil(record.expires_after)?;
    let action = Action::from_record(&record.id, &record.text, now.after(left));
    if action.is_none() {
        tracing::debug!(id = record.id, "ignoring an action of another version");
    }
    action
}
