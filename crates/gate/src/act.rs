//! Acting on keys and limits, on every replica: put an action, remove it, and learn of the actions of
//! other replicas.

use std::pin::pin;
use std::time::Duration;

use tollgate::{EncodedKey, LimitName, Micros};
use tollgate_rules::{Attributes, Explanation, SelectError};

use super::active::ActiveConfig;
use super::gate::Gate;
use crate::actions::{
    ACTION_MAX_AGE, ACTIONS_MAX, Action, ActionChange, ActionKind, ActionTable, ActionTarget,
    LogEntry, LogState, QuotaChangeError, StoreRepair, mark,
};
use crate::records::{RecordError, RecordGroup, RecordRevision, SharedRecords, TTL_MAX};

/// How long a change is tried again while the store is unavailable: about as long as a fail-over
/// takes.
const STORE_PATIENCE: Duration = Duration::from_secs(3);
/// The pause between two tries.
const STORE_PAUSE: Duration = Duration::from_millis(100);
/// How often a change is tried again because another replica changes the same action.
const CONFLICTS_MAX: usize = 8;
/// The most records that a read puts into the store again, or removes from it.
const REPAIRS_MAX: usize = 100;

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
    /// Other replicas change the same action all the time.
    #[error("another replica changes the same action at the same time; list them, and try again")]
    Conflict,
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
        self.active().validate_action(&draft)?;
        let id = Action::id_for(draft.change.kind(), &draft.limit, &draft.target);
        let length = draft.length.min(ACTION_MAX_AGE);
        let lasts = Micros::from_duration_ceil(length).unwrap_or_default();

        let changed = self.change_action(&id, |log, now| {
            let known = log.get(&id);
            let is_new = known.is_none_or(|known| known.action.is_none());
            if is_new && log.actions().count() >= ACTIONS_MAX {
                return Err(ActError::Full);
            }

            let draft = draft.clone();
            let action = Action {
                id: id.clone(),
                limit: draft.limit,
                target: draft.target,
                change: draft.change,
                reason: draft.reason,
                by: draft.by,
                created_at: Micros::from_millis(later_than(known, now)),
                expires_at: now.after(lasts),
            };
            // A replica that misses this change remembers the record before it for longer.
            let forgotten_at = known.map_or(Micros::ZERO, LogEntry::forgotten_at);
            let kept_ms = forgotten_at.since(action.expires_at).get().div_ceil(1_000);
            let expires_at = action.expires_at.after(Micros::from_millis(kept_ms));
            let entry = LogEntry::new(&id, &action.to_record(kept_ms), expires_at);
            Ok(Some((entry, action)))
        });
        changed.await?.ok_or(ActError::Conflict)
    }

    /// Removes an action from the store, and here at once. Returns it, or none if the store and
    /// this replica know no such action of this kind.
    pub async fn undo(&self, kind: ActionKind, id: &str) -> Result<Option<Action>, ActError> {
        let undone = self.change_action(id, |log, now| {
            let known = log.get(id);
            let action = known.and_then(|known| known.action.clone());
            let action =
                action.filter(|action| action.change.kind() == kind && action.is_live(now));
            Ok(action.zip(known).map(|(action, known)| {
                let text = mark(later_than(Some(known), now), RecordRevision::random());
                let entry = LogEntry::new(id, &text, known.forgotten_at());
                (entry, action)
            }))
        });
        undone.await
    }

    /// Replaces the record of an action by the one that `next` makes of what is known. Reads what
    /// the store knows if `next` finds nothing to do, or if the store has another record.
    async fn change_action(
        &self,
        id: &str,
        next: impl Fn(&LogState, Micros) -> Result<Option<(LogEntry, Action)>, ActError>,
    ) -> Result<Option<Action>, ActError> {
        let records = self.records();
        for attempt in 0..=CONFLICTS_MAX {
            if attempt > 0 {
                with_patience(|| self.sync_actions()).await?;
            }
            let now = self.now();
            let (change, stored) = {
                let log = self.action_log.lock();
                let stored = log.get(id).map(|known| known.stored.clone());
                (next(&log, now), stored.unwrap_or_default())
            };
            let (entry, action) = match change {
                Ok(Some(change)) => change,
                _ if attempt == 0 => continue,
                Ok(None) => return Ok(None),
                Err(error) => return Err(error),
            };

            let (text, ttl) = (entry.text.clone(), entry.expires_at.since(now).into());
            let swap = || records.swap(RecordGroup::Actions, id, &stored, &text, ttl);
            if with_patience(swap).await? {
                self.action_log.lock().put(id, entry.into_stored());
                self.rebuild_actions();
                return Ok(Some(action));
            }
        }
        Err(ActError::Conflict)
    }

    /// Learns of the actions that other replicas have put or removed, and puts again what the store
    /// has lost. To be called several times a second. While the store is unavailable, the known
    /// actions stay in force until they end.
    pub async fn sync_actions(&self) -> Result<(), RecordError> {
        let (began, records) = (self.now(), self.records());
        let known = self.action_log.lock().revision();
        let read = records.read(RecordGroup::Actions, known).await;

        let (repair, has_ended) = {
            let mut log = self.action_log.lock();
            let stored = read.as_ref().ok().and_then(Option::as_ref);
            let repair = stored.map(|stored| log.merge(stored, began));
            (repair, log.drop_ended(self.now()))
        };
        if repair.is_some() || has_ended {
            self.rebuild_actions();
        }
        self.repair_store(&records, repair.unwrap_or_default())
            .await?;
        read.map(drop)
    }

    /// Puts again what the store has lost, until another replica turns out to do the same: the next
    /// read shows what is left.
    async fn repair_store(
        &self,
        records: &SharedRecords,
        repair: StoreRepair,
    ) -> Result<(), RecordError> {
        let group = RecordGroup::Actions;
        for id in repair.unwanted.iter().take(REPAIRS_MAX) {
            records.remove(group, id).await?;
        }
        let mut repaired = 0;
        for (id, entry) in repair.lost.into_iter().take(REPAIRS_MAX) {
            let left = Duration::from(entry.expires_at.since(self.now())).min(TTL_MAX);
            let swap = records.swap(group, &id, &entry.stored, &entry.text, left);
            match swap.await {
                Ok(true) => repaired += 1,
                Err(error @ RecordError::Store(_)) => return Err(error),
                Ok(false) | Err(RecordError::Full { .. }) => break,
                // It has ended just now.
                Err(_) => {}
            }
        }
        if repaired > 0 {
            tracing::info!(
                repaired,
                "the store had lost actions or removals: put them again"
            );
        }
        Ok(())
    }

    /// What this replica knows of the actions in the store: replicas with the same revision have
    /// the same actions. It is the default while a change of this replica is not read back.
    pub fn actions_revision(&self) -> RecordRevision {
        self.action_log.lock().revision()
    }

    /// Builds the table of the active configuration. The log stays locked meanwhile, so that the
    /// last table is that of the last change.
    pub(super) fn rebuild_actions(&self) {
        let log = self.action_log.lock();
        let active = self.active();
        let table = ActionTable::new(&active.selector, log.actions());
        active.actions.replace(table);
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

/// The time of a change in milliseconds: now, but later than what it replaces, whatever the clocks
/// of replicas say.
fn later_than(known: Option<&LogEntry>, now: Micros) -> u64 {
    let before = known.map_or(0, |known| known.created_at_ms.saturating_add(1));
    before.max(now.get() / 1_000).max(1)
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
