//! Actions as the text of a record, which replicas of other versions read, too.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollgate::{EncodedKey, Micros};

use super::action::{Action, ActionChange, ActionTarget, BlockStatus};
use super::quota_change::{Multiple, QuotaChange};
use crate::records::RecordRevision;

/// The kind of a record that marks a removal. Versions without marks ignore it.
const REMOVED: &str = "removed";

/// A later time is not one of any version. It leaves room for later records.
const CREATED_AT_MAX: u64 = 1 << 53;

/// What every record says. All of it is 0 if the text is not a record of any version.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct RecordHead {
    /// When it was made, by the clock of the replica that was asked. Later than that of the record
    /// that it replaced.
    pub(super) created_at_ms: u64,
    /// For how long the record is kept after its action has ended: the record that it replaced
    /// would have lasted longer, and a replica may remember that one.
    #[serde(default)]
    kept_ms: u64,
}

impl RecordHead {
    pub(super) fn parse(text: &str) -> Self {
        let head: Option<Self> = serde_json::from_str(text).ok();
        let is_valid = |head: &Self| head.created_at_ms < CREATED_AT_MAX;
        head.filter(is_valid).unwrap_or_default()
    }

    /// When the action ends whose record expires at this time.
    pub(super) fn ends_at(&self, expires_at: Micros) -> Micros {
        expires_at.since(Micros::from_millis(self.kept_ms))
    }
}

/// The text of the mark that an action was removed. The nonce tells two removals in the same
/// millisecond apart.
pub(crate) fn mark(created_at_ms: u64, nonce: RecordRevision) -> String {
    format!(r#"{{"kind":"{REMOVED}","created_at_ms":{created_at_ms},"nonce":"{nonce}"}}"#)
}

/// The members of a record. Unknown members are ignored.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ActionRecord {
    kind: String,
    limit: String,
    /// The encoded key: hashed parts are hashes.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    multiply: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    numbers: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shadow: Option<bool>,
    reason: String,
    by: String,
    created_at_ms: u64,
    /// As in [`RecordHead`].
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_ms: Option<u64>,
}

impl Action {
    /// The text of a record that is kept for this long after the action has ended. The record
    /// itself has the id and the end.
    pub(crate) fn to_record(&self, kept_ms: u64) -> String {
        let mut record = ActionRecord {
            kind: self.change.kind().as_str().to_owned(),
            limit: self.limit.clone(),
            reason: self.reason.clone(),
            by: self.by.clone(),
            created_at_ms: self.created_at.get() / 1_000,
            kept_ms: (kept_ms > 0).then_some(kept_ms),
            ..ActionRecord::default()
        };
        match &self.target {
            ActionTarget::Limit => {}
            ActionTarget::Key(key) => record.key = Some(URL_SAFE_NO_PAD.encode(key.as_bytes())),
            ActionTarget::Network(network) => record.network = Some(network.to_string()),
        }
        match &self.change {
            ActionChange::Block(status) => record.status = Some(status.status().as_u16()),
            ActionChange::Exempt => {}
            ActionChange::Override(QuotaChange::Multiply(multiple)) => {
                record.multiply = Some(multiple.factor());
            }
            ActionChange::Override(QuotaChange::Tier(tier)) => record.tier = Some(tier.clone()),
            ActionChange::Override(QuotaChange::Numbers(numbers)) => {
                record.numbers = Some(numbers.clone());
            }
            ActionChange::Shadow(shadow) => record.shadow = Some(*shadow),
        }

        serde_json::to_string(&record).unwrap_or_default()
    }

    /// Reads the text of a record; none if it is not an action that this version knows.
    pub(crate) fn from_record(id: &str, text: &str, expires_at: Micros) -> Option<Self> {
        let record: ActionRecord = serde_json::from_str(text).ok()?;
        let target = match (&record.key, &record.network) {
            (Some(key), _) => {
                let bytes = URL_SAFE_NO_PAD.decode(key).ok()?;
                ActionTarget::Key(EncodedKey::from_bytes(&bytes).ok()?)
            }
            (None, Some(network)) => ActionTarget::Network(network.parse().ok()?),
            (None, None) => ActionTarget::Limit,
        };

        let change = match (record.kind.as_str(), &target) {
            ("shadow", ActionTarget::Limit) => ActionChange::Shadow(record.shadow?),
            (_, ActionTarget::Limit) => return None,
            ("block", _) => ActionChange::Block(BlockStatus::from_code(record.status?)?),
            ("exemption", _) => ActionChange::Exempt,
            ("override", _) => ActionChange::Override(record.quota_change()?),
            _ => return None,
        };
        Some(Self {
            id: id.to_owned(),
            limit: record.limit,
            target,
            change,
            reason: record.reason,
            by: record.by,
            created_at: Micros::from_millis(record.created_at_ms),
            expires_at,
        })
    }
}

impl ActionRecord {
    fn quota_change(&self) -> Option<QuotaChange> {
        match (self.multiply, &self.tier, &self.numbers) {
            (Some(factor), _, _) => Multiple::new(factor).ok().map(QuotaChange::Multiply),
            (None, Some(tier), _) => Some(QuotaChange::Tier(tier.clone())),
            (None, None, numbers) => Some(QuotaChange::Numbers(numbers.clone()?)),
        }
    }
}
