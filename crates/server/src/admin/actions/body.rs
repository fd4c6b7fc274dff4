//! The body of a request to act.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use tollgate_gate::api::{ApiError, NamedAttributes};
use tollgate_gate::{
    ACTION_MAX_AGE, ActionChange, ActionDraft, ActionKind, ActionTarget, ActiveConfig, BlockStatus,
    Multiple, QuotaChange,
};
use tollgate_rules::config::parse_duration;
use tollgate_subject::Network;

use super::error::act_error;

/// The longest reason and name, in characters.
const REASON_MAX: usize = 200;
const BY_MAX: usize = 64;
/// The shortest time for which an action is in force.
const LENGTH_MIN: Duration = Duration::from_secs(1);

/// The members of the body. Which of them apply depends on the kind of the action.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ActionFields<'b> {
    limit: Option<String>,
    #[serde(borrow, default)]
    key: Option<NamedAttributes<'b>>,
    network: Option<String>,
    #[serde(rename = "for")]
    length: Option<String>,
    reason: Option<String>,
    by: Option<String>,
    status: Option<u16>,
    multiply: Option<f64>,
    tier: Option<String>,
    quota: Option<Map<String, Value>>,
    shadow: Option<bool>,
}

impl ActionFields<'_> {
    /// The action that the body asks for.
    pub(super) fn into_draft(
        self,
        active: &ActiveConfig,
        kind: ActionKind,
    ) -> Result<ActionDraft, ApiError> {
        self.forbid_others(kind)?;
        let limit = self
            .limit
            .as_deref()
            .ok_or_else(|| missing("limit", "the name of a limit, such as \"limit\": \"api\""))?;
        let length = length(self.length.as_deref())?;
        let reason = text("reason", self.reason.as_deref(), REASON_MAX)?;
        let by = text("by", self.by.as_deref(), BY_MAX)?;
        let change = self.change(kind)?;

        Ok(ActionDraft {
            target: self.target(active, kind, limit)?,
            limit: limit.to_owned(),
            change,
            length,
            reason,
            by,
        })
    }

    /// Refuses the members of other kinds, which would have no effect.
    fn forbid_others(&self, kind: ActionKind) -> Result<(), ApiError> {
        let is_shadow = kind == ActionKind::Shadow;
        let is_override = kind == ActionKind::Override;
        let members = [
            ("key", self.key.is_some(), !is_shadow),
            ("network", self.network.is_some(), !is_shadow),
            ("status", self.status.is_some(), kind == ActionKind::Block),
            ("multiply", self.multiply.is_some(), is_override),
            ("tier", self.tier.is_some(), is_override),
            ("quota", self.quota.is_some(), is_override),
            ("shadow", self.shadow.is_some(), is_shadow),
        ];
        for (name, is_present, is_own) in members {
            if is_present && !is_own {
                let plural = kind.plural();
                let detail = format!("`{name}` has no effect in /admin/{plural}; leave it out");
                return Err(ApiError::unprocessable("foreign-member", detail));
            }
        }
        Ok(())
    }

    fn target(
        &self,
        active: &ActiveConfig,
        kind: ActionKind,
        limit: &str,
    ) -> Result<ActionTarget, ApiError> {
        match (&self.key, &self.network) {
            _ if kind == ActionKind::Shadow => Ok(ActionTarget::Limit),
            (Some(_), Some(_)) => {
                let detail = "both `key` and `network` are given; send one of them";
                Err(ApiError::unprocessable("key-and-network", detail))
            }
            (Some(key), None) => {
                let names = key.0.iter().map(|(name, _)| &**name);
                let key = active.key_for(limit, key, names).map_err(act_error)?;
                Ok(ActionTarget::Key(key))
            }
            (None, Some(network)) => {
                let network: Result<Network, _> = network.parse();
                network.map(ActionTarget::Network).map_err(|error| {
                    ApiError::unprocessable("bad-network", format!("`network`: {error}"))
                })
            }
            (None, None) => Err(missing(
                "key",
                "the attributes of a key, such as \"key\": {\"client_ip\": \"203.0.113.7\"}, or \
                 `network`",
            )),
        }
    }

    fn change(&self, kind: ActionKind) -> Result<ActionChange, ApiError> {
        match kind {
            ActionKind::Block => {
                let status = BlockStatus::from_code(self.status.unwrap_or(429));
                status.map(ActionChange::Block).ok_or_else(|| {
                    let found = self.status.unwrap_or_default();
                    let detail = format!("invalid `status` {found}; expected 403 or 429");
                    ApiError::unprocessable("bad-status", detail)
                })
            }
            ActionKind::Exemption => Ok(ActionChange::Exempt),
            ActionKind::Override => self.quota_change().map(ActionChange::Override),
            ActionKind::Shadow => {
                let shadow = self.shadow;
                let expected = "true to make it a shadow limit, or false to enforce it";
                let shadow = shadow.ok_or_else(|| missing("shadow", expected))?;
                Ok(ActionChange::Shadow(shadow))
            }
        }
    }

    fn quota_change(&self) -> Result<QuotaChange, ApiError> {
        match (self.multiply, &self.tier, &self.quota) {
            (Some(factor), None, None) => {
                let multiple = Multiple::new(factor)
                    .map_err(|error| ApiError::unprocessable("bad-override", error.to_string()))?;
                Ok(QuotaChange::Multiply(multiple))
            }
            (None, Some(tier), None) => Ok(QuotaChange::Tier(tier.clone())),
            (None, None, Some(numbers)) if !numbers.is_empty() => {
                Ok(QuotaChange::Numbers(numbers.clone()))
            }
            _ => Err(ApiError::unprocessable(
                "bad-override",
                "expected one of `multiply`, such as 2, `tier`, the name of a tier, or `quota`, \
                 numbers of the limit such as {\"limit\": 500}",
            )),
        }
    }
}

fn missing(name: &str, expected: &str) -> ApiError {
    let detail = format!("missing member `{name}`; expected {expected}");
    ApiError::unprocessable("missing-member", detail)
}

/// A text that is required, without line breaks and other control characters.
fn text(name: &str, found: Option<&str>, chars_max: usize) -> Result<String, ApiError> {
    let found = found.map(str::trim).filter(|text| !text.is_empty());
    let expected = match name {
        "by" => "who acts, such as \"by\": \"ann\"",
        _ => "why, for other operators, such as \"reason\": \"scraping\"",
    };
    let found = found.ok_or_else(|| missing(name, expected))?;

    let length = found.chars().count();
    if length > chars_max {
        let detail = format!("`{name}` has {length} characters; at most {chars_max} are allowed");
        return Err(ApiError::unprocessable("too-long", detail));
    }
    if found.chars().any(char::is_control) {
        let detail = format!("`{name}` has control characters; write it on one line");
        return Err(ApiError::unprocessable("bad-text", detail));
    }
    Ok(found.to_owned())
}

/// For how long the action is in force.
fn length(found: Option<&str>) -> Result<Duration, ApiError> {
    let found = found.ok_or_else(|| {
        missing(
            "for",
            "for how long, such as \"for\": \"1h\"; what has no end belongs into the configuration",
        )
    })?;
    let length = parse_duration(found).ok();
    let valid = length.filter(|length| (LENGTH_MIN..=ACTION_MAX_AGE).contains(length));
    valid.ok_or_else(|| {
        let found: String = found.chars().take(40).collect();
        let detail = format!("invalid `for` {found:?}; expected between 1s and 90d, such as 1h");
        ApiError::unprocessable("bad-for", detail)
    })
}
