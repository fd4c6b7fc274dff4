//! Acting on keys and limits, on every replica: put an action, remove it, and learn of the actions of
//! other replicas.

use std::pin::pin;
use std::time::Duration;

use tollgate::{EncodedKey, LimitName, Micros};
use tollgate_rules::{Attributes, Explanation, SelectError};

use super::active::ActiveConfig;
use super::gate::Gate;
use crate::actions::{
    ACTION_MAX_AGE, ACTIONS_MAX, Action, ActionChange, ActionEdit, ActionKind, ActionTable,
    ActionTarget, QuotaChangeError,
};
use crate::records::{RecordError, RecordGroup, RecordRevision};

/// How long a change is tried again while the store is unavailable: about as long as a fail-over
/// takes.
const STORE_PATIENCE: Duration = Duration::from_secs(3);
/// The pause between two tries.
const STORE_PAUSE: Duration = Duration::from_millis(100);

/// An action that an operator asks for.
#[derive(Clone, Debug)]
pub struct ActionDraft {
    /// The name of the limit.
    pub limit: String,
    /// Which requests it concerns.
    pub target: ActionTarget,
    /// What it does.
    pub change: ActionChange,
    /// For how long: at most [`ACTION_MAX_AGE`].
    pub length: Duration,
    /// Why.
    pub reason: String,
    /// Who asks.
    pub by: String,
}

/// An action that is in force, unless it is ignored.
#[derive(Clone, Debug)]
pub struct ListedAction {
    /// The action.
    pub action: Action,
    /// Why it has no effect with the active configuration; none if it has.
    pub ignored: Option<String>,
}

/// Why an operator cannot act.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// The limit or the key is not valid.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// The override does not fit the limit.
    #[error(transparent)]
    Quota(#[from] QuotaChangeError),
    /// An attribute is not part of the limit's key.
    #[error(
        "the attribute {found:?} is not part of the key of the limit {limit:?}, which is {key}"
    )]
    ForeignAttribute {
        /// The name of the limit.
        limit: String,
        /// The attribute, cut to 80 characters.
        found: String,
        /// The parts of the key.
        key: String,
    },
    /// The limit has no client addresses to compare with a network.
    #[error(
        "the limit {limit:?} cannot tell networks: `client_ip` is not part of its key, or is hashed"
    )]
    NoAddress {
        /// The name of the limit.
        limit: String,
    },
    /// There are as many actions as there can be.
    #[error("there are {ACTIONS_MAX} actions, the most there can be; remove one first")]
    Full,
    /// The store is unavailable, or the action is too long for a record.
    #[error(transparent)]
    Record(RecordError),
}

impl From<RecordError> for ActError {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Full { .. } => Self::Full,
            error => Self::Record(error),
        }
    }
}

impl Gate {
    /// The actions of a kind, on one limit or on all, the newest first.
    pub fn actions(&self, kind: ActionKind, limit: Option<&str>) -> Vec<ListedAction> {
        let now = self.now();
        let log = self.action_log.lock();
        let table = self.active().actions.table();

        let of_kind = log.actions().filter(|action| {
            let is_wanted = limit.is_none_or(|limit| action.limit == limit);
            is_wanted && action.change.kind() == kind && action.is_live(now)
        });
        let listed = of_kind.map(|action| ListedAction {
            ignored: table.ignored(&action.id).map(str::to_owned),
            action: action.clone(),
        });
        let mut listed: Vec<ListedAction> = listed.collect();
        listed.sort_by_key(|listed| std::cmp::Reverse(listed.action.created_at));
        listed
    }

    /// How many actions of each kind this replica knows of.
    pub fn action_counts(&self) -> [(ActionKind, usize); 4] {
        let now = self.now();
        let log = self.action_log.lock();
        let live = || log.actions().filter(|action| action.is_live(now));
        ActionKind::ALL.map(|kind| {
            let of_kind = live().filter(|action| action.change.kind() == kind);
            (kind, of_kind.count())
        })
    }

    /// Puts an action into the store, and applies it here at once. Other replicas learn of it
    /// within a second. It replaces an action of the same kind on the same limit and target.
    pub async fn act(&self, draft: ActionDraft) -> Result<Action, ActError> {
        let active = self.active();
        active.validate_action(&draft)?;
        let now = self.now();
        let length = draft.length.min(ACTION_MAX_AGE);
        let lasts = Micros::from_duration_ceil(length).unwrap_or_default();
        let action = Action {
            id: Action::id_for(draft.change.kind(), &draft.limit, &draft.target),
            limit: draft.limit,
            target: draft.target,
            change: draft.change,
            reason: draft.reason,
            by: draft.by,
            created_at: now,
            expires_at: now.after(lasts),
        };
        let is_full = {
            let log = self.action_log.lock();
            log.len() >= ACTIONS_MAX && log.get(&action.id).is_none()
        };
        if is_full {
            return Err(ActError::Full);
        }

        self.put_action(&action, length).await?;
        self.action_log
            .lock()
            .edit(&action, Some(action.clone()), now);
        self.rebuild_actions();
        Ok(action)
    }

    /// Removes an action from the store, and here at once. Returns it, or none if there is no such
    /// action of this kind.
    pub async fn undo(&self, kind: ActionKind, id: &str) -> Result<Option<Action>, ActError> {
        let known = self.action_log.lock().get(id).cloned();
        let Some(action) = known.filter(|action| action.change.kind() == kind) else {
            return Ok(None);
        };

        self.remove_action(id).await?;
        self.action_log.lock().edit(&action, None, self.now());
        self.rebuild_actions();
        Ok(Some(action))
    }

    /// Learns of the actions that other replicas have put or removed. To be called several times a
    /// second. While the store is unavailable, the known actions stay in force until they end.
    pub async fn sync_actions(&self) -> Result<(), RecordError> {
        let records = self.records();
        let began = self.action_log.lock().position();
        let read = records.read(RecordGroup::Actions, began.revision).await;

        let now = self.now();
        let (lost, is_changed) = {
            let mut log = self.action_log.lock();
            let has_ended = log.drop_ended(now);
            match &read {
                Ok(None) => {
                    log.has_failed = false;
                    (Vec::new(), has_ended)
                }
                Ok(Some(list)) => (log.replace(began, list, now), true),
                Err(_) => {
                    log.has_failed = true;
                    (Vec::new(), has_ended)
                }
            }
        };
        if is_changed {
            self.rebuild_actions();
        }
        for edit in &lost {
            self.repeat(edit, now).await?;
        }
        read.map(drop)
    }

    /// What this replica knows of the actions in the store: replicas with the same revision have
    /// the same actions. It is the default while a change of this replica is not read back.
    pub fn actions_revision(&self) -> RecordRevision {
        self.action_log.lock().position().revision
    }

    /// Makes a change again that a fail-over of the store has lost.
    async fn repeat(&self, edit: &ActionEdit, now: Micros) -> Result<(), RecordError> {
        if let Some(action) = &edit.put {
            let left = action.expires_at.since(now).into();
            return self.put_action(action, left).await;
        }
        let records = self.records();
        let removed = records.remove(RecordGroup::Actions, &edit.id).await;
        removed.map(drop)
    }

    /// Builds the table of the active configuration. The log stays locked meanwhile, so that the
    /// last table is that of the last change.
    pub(super) fn rebuild_actions(&self) {
        let log = self.action_log.lock();
        let active = self.active();
        let table = ActionTable::new(&active.selector, log.actions());
        active.actions.replace(table);
    }

    async fn remove_action(&self, id: &str) -> Result<bool, RecordError> {
        let records = self.records();
        with_patience(|| records.remove(RecordGroup::Actions, id)).await
    }

    async fn put_action(&self, action: &Action, length: Duration) -> Result<(), RecordError> {
        let records = self.records();
        let text = action.to_record();
        with_patience(|| records.put(RecordGroup::Actions, &action.id, &text, length)).await
    }
}

impl ActiveConfig {
    /// The key of a limit that has these attributes, hashed where the configuration hashes it.
    /// `names` are the names of the attributes: each must be part of the key.
    pub fn key_for<'n>(
        &self,
        limit: &str,
        attributes: &impl Attributes,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<EncodedKey, ActError> {
        let (config, explanation) = self.selector.explain_named(limit, attributes)?;
        let mut own = config.key.parts.iter().flatten();
        for name in names {
            let is_own = own.clone().any(|own| {
                let own = own.attribute().name();
                crate::api::is_same_attribute(own, name)
            });
            if !is_own {
                let parts = config.key.part_names();
                return Err(ActError::ForeignAttribute {
                    limit: limit.to_owned(),
                    found: name.chars().take(80).collect(),
                    key: match parts.as_slice() {
                        [] => "empty: all requests share one counter".to_owned(),
                        parts => parts.join(" and "),
                    },
                });
            }
        }

        match explanation {
            Explanation::Applies { demand, .. } => Ok(demand.key),
            Explanation::Invalid(error) => Err(error.into()),
            // Conditions are not evaluated here, so only a missing key of an optional limit remains.
            Explanation::Skipped | Explanation::NotMatched { .. } => {
                let attribute = own.next().map(|own| own.attribute().name().to_owned());
                Err(ActError::Select(SelectError::MissingAttribute {
                    limit: limit.to_owned(),
                    attribute: attribute.unwrap_or_default(),
                }))
            }
        }
    }

    fn validate_action(&self, draft: &ActionDraft) -> Result<(), ActError> {
        let limit = self.selector.limit(&draft.limit)?;
        if let ActionChange::Override(change) = &draft.change {
            change.validate(limit)?;
        }
        let is_network = matches!(draft.target, ActionTarget::Network(_));
        if is_network && !self.selector.counts_by_address(limit.rule.position()) {
            let limit: &LimitName = limit.rule.name();
            return Err(ActError::NoAddress {
                limit: limit.to_string(),
            });
        }
        Ok(())
    }
}

/// Calls again while the store is unavailable: putting and removing a record twice does no harm.
async fn with_patience<T, F>(call: impl Fn() -> F) -> Result<T, RecordError>
where
    F: Future<Output = Result<T, RecordError>>,
{
    let mut ends = pin!(tokio::time::sleep(STORE_PATIENCE));
    loop {
        let result = call().await;
        if !matches!(result, Err(RecordError::Store(_))) || ends.is_elapsed() {
            return result;
        }
        tokio::select! {
            () = tokio::time::sleep(STORE_PAUSE) => {}
            () = &mut ends => {}
        }
    }
}
