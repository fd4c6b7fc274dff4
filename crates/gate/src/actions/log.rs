//! The actions that this replica knows of: its own, and those that it has read from the store.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};
use tollgate::Micros;

use super::action::Action;
use crate::records::{Record, RecordList, RecordRevision};

/// How long an action is remembered that was put here, so that it is put again if a fail-over of the
/// store loses it.
const OWN_FOR: Micros = Micros::from_secs(30);

/// The known actions.
#[derive(Debug, Default)]
pub(crate) struct ActionLog {
    state: Mutex<LogState>,
}

/// The content of the log, while it is locked.
#[derive(Debug, Default)]
pub(crate) struct LogState {
    actions: BTreeMap<String, Action>,
    /// The revision of the records that `actions` are read from.
    revision: RecordRevision,
    /// Counts the changes through this replica: a read that began before one is out of date.
    changes: u64,
    /// The actions that were put here lately, and when.
    own: Vec<(Action, Micros)>,
    /// True when the store has failed since the last read.
    has_failed: bool,
}

/// What a read of the records begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogPosition {
    pub(crate) revision: RecordRevision,
    changes: u64,
}

impl ActionLog {
    pub(crate) fn lock(&self) -> MutexGuard<'_, LogState> {
        self.state.lock()
    }
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

    /// Adds an action that was put through this replica.
    pub(crate) fn add(&mut self, action: &Action, now: Micros) {
        self.start_change();
        self.forget_own(&action.id);
        self.own.push((action.clone(), now));
        self.actions.insert(action.id.clone(), action.clone());
    }

    /// Removes an action that was removed through this replica.
    pub(crate) fn remove(&mut self, id: &str) {
        self.start_change();
        self.forget_own(id);
        self.actions.remove(id);
    }

    /// Notes that the store has failed, so that it may lose what was put lately.
    pub(crate) fn record_failure(&mut self) {
        self.has_failed = true;
    }

    /// Notes that the store still has what was read last: nothing was lost.
    pub(crate) fn record_unchanged(&mut self) {
        self.has_failed = false;
    }

    /// Replaces the actions by those of the store, unless one was put or removed here since the
    /// read began. Returns those that a fail-over has lost.
    pub(crate) fn replace(
        &mut self,
        began: LogPosition,
        list: &RecordList,
        now: Micros,
    ) -> Vec<Action> {
        if began.changes != self.changes {
            return Vec::new();
        }

        self.revision = list.revision;
        let read = list.records.iter().filter_map(|record| read(record, now));
        self.actions = read.map(|action| (action.id.clone(), action)).collect();

        let has_failed = std::mem::take(&mut self.has_failed);
        self.own.retain(|(_, put_at)| now.since(*put_at) < OWN_FOR);
        let own = self.own.iter().map(|(action, _)| action);
        let missing = own.filter(|action| {
            has_failed && action.is_live(now) && !self.actions.contains_key(&action.id)
        });
        missing.cloned().collect()
    }

    /// Drops the actions that have ended. Returns whether there were any.
    pub(crate) fn drop_ended(&mut self, now: Micros) -> bool {
        let before = self.actions.len();
        self.actions.retain(|_, action| action.is_live(now));
        self.actions.len() < before
    }

    /// The next read must return everything: a fail-over can bring back the revision before the
    /// change, and then the change is lost.
    fn start_change(&mut self) {
        self.changes += 1;
        self.revision = RecordRevision::default();
    }

    fn forget_own(&mut self, id: &str) {
        self.own.retain(|(own, _)| own.id != id);
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
