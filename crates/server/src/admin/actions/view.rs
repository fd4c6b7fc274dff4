//! An action as JSON.

use serde::Serialize;
use serde_json::{Map, Value};
use tollgate::Micros;
use tollgate_gate::{ActionChange, ActionTarget, ActiveConfig, ListedAction, QuotaChange};

use super::super::encode::millis;
use crate::key_part::KeyPartView;

/// An action. Field names are JSON member names; those that its kind does not have are absent.
#[derive(Debug, Serialize)]
pub(super) struct ActionView<'a> {
    id: &'a str,
    kind: &'static str,
    limit: &'a str,
    /// The parts of the key. Absent if the limit's key has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Vec<KeyPartView<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    multiply: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<&'a Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shadow: Option<bool>,
    reason: &'a str,
    by: &'a str,
    created_at_ms: u64,
    expires_at_ms: u64,
    expires_in_ms: u64,
    /// Why the action has no effect with the active configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    ignored: Option<&'a str>,
}

impl<'a> ActionView<'a> {
    pub(super) fn new(active: &'a ActiveConfig, listed: &'a ListedAction, now: Micros) -> Self {
        let action = &listed.action;
        let mut view = Self {
            id: &action.id,
            kind: action.change.kind().as_str(),
            limit: &action.limit,
            key: None,
            network: None,
            status: None,
            multiply: None,
            tier: None,
            quota: None,
            shadow: None,
            reason: &action.reason,
            by: &action.by,
            created_at_ms: millis(action.created_at),
            expires_at_ms: millis(action.expires_at),
            expires_in_ms: millis(action.expires_at.since(now)),
            ignored: listed.ignored.as_deref(),
        };

        match &action.target {
            ActionTarget::Limit => {}
            ActionTarget::Key(key) => {
                let limit = active.selector.limit(&action.limit).ok();
                let parts =
                    limit.and_then(|limit| active.selector.display_key(limit.rule.position(), key));
                view.key = parts.map(KeyPartView::list);
            }
            ActionTarget::Network(network) => view.network = Some(network.to_string()),
        }
        match &action.change {
            ActionChange::Block(status) => view.status = Some(status.status().as_u16()),
            ActionChange::Exempt => {}
            ActionChange::Override(QuotaChange::Multiply(multiple)) => {
                view.multiply = Some(multiple.factor());
            }
            ActionChange::Override(QuotaChange::Tier(tier)) => view.tier = Some(tier),
            ActionChange::Override(QuotaChange::Numbers(numbers)) => view.quota = Some(numbers),
            ActionChange::Shadow(shadow) => view.shadow = Some(*shadow),
        }
        view
    }
}
