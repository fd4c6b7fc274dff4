//! What is said about an alert, in the log and to the webhook.

use serde::Serialize;
use tollgate::Micros;
use tollgate_gate::ActiveConfig;
use tollgate_gate::metrics::UsageReport;

use super::evaluator::AlertState;
use crate::key_part::KeyPartView;

/// The alert about keys that have used most of a limit.
pub(crate) const NEAR_LIMIT: &str = "near_limit";

/// The body of a request to the webhook.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct AlertNotice {
    pub(super) alert: &'static str,
    pub(super) status: NoticeStatus,
    /// What is wrong, for people.
    pub(super) message: String,
    /// Absent for an alert about all limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<String>,
    pub(super) value: f64,
    pub(super) threshold: f64,
    /// Of `near_limit`: the parts of the key. Hashed parts are hashes here, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<Vec<KeyPartView<'static>>>,
    /// In milliseconds since the UNIX epoch.
    pub(super) at_ms: u64,
    /// The name of the replica that says so.
    pub(super) replica: String,
}

/// Whether an alert lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum NoticeStatus {
    /// It has started to fire.
    Firing,
    /// It no longer fires.
    Resolved,
    /// It happened, and does not last.
    Once,
}

impl AlertNotice {
    /// An alert that has started to fire or was resolved.
    pub(super) fn from_change(state: &AlertState, at: Micros, replica: &str) -> Self {
        Self {
            alert: state.alert.as_str(),
            status: match state.since {
                Some(_) => NoticeStatus::Firing,
                None => NoticeStatus::Resolved,
            },
            message: state.alert.problem().to_owned(),
            limit: state.limit.as_deref().map(str::to_owned),
            value: state.value.unwrap_or_default(),
            threshold: state.threshold,
            key: None,
            at_ms: at.get() / 1_000,
            replica: replica.to_owned(),
        }
    }

    /// A key that has used most of a limit. None if the limit is no longer configured, or now
    /// hashes what the key has in clear.
    pub(super) fn from_usage(
        report: &UsageReport,
        active: &ActiveConfig,
        at: Micros,
        replica: &str,
    ) -> Option<Self> {
        let limits = active.metrics();
        let index = limits.iter().position(|limit| limit.id() == report.limit)?;
        let parts = active.selector.display_key(index, &report.key)?;
        let parts = KeyPartView::list(parts).into_iter();
        let parts = parts.map(|part| KeyPartView {
            attribute: part.attribute.into_owned().into(),
            ..part
        });

        let (percent, limit) = (report.percent, limits[index].name());
        Some(Self {
            alert: NEAR_LIMIT,
            status: NoticeStatus::Once,
            message: format!("a key has used {percent} % of the limit {limit}"),
            limit: Some(limit.to_string()),
            value: f64::from(percent) / 100.0,
            threshold: f64::from(percent) / 100.0,
            key: Some(parts.collect()),
            at_ms: at.get() / 1_000,
            replica: replica.to_owned(),
        })
    }
}
