//! The result of `tollgate explain`. It is serialised for `--json`, and rendered as a table
//! otherwise.

use serde::Serialize;
use tollgate::Quota;
use tollgate_rules::{Attribute, Condition, DisplayPart, Explanation, LimitConfig, Pattern};

use super::super::numbers;

/// The whole result. Field names are JSON member names.
#[derive(Debug, Serialize)]
pub(super) struct ExplainOutput {
    /// The limits, in the order of the file.
    pub(super) limits: Vec<LimitExplanation>,
    /// Attributes of the request that no limit uses.
    pub(super) unused: Vec<UnusedAttribute>,
}

/// An attribute that no limit uses.
#[derive(Debug, Serialize)]
pub(super) struct UnusedAttribute {
    pub(super) attribute: String,
    /// A similar attribute that a limit uses, if there is one.
    #[serde(rename = "meant")]
    pub(super) suggestion: Option<String>,
}

/// Whether a limit applies to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Applicability {
    /// The limit applies.
    Applies,
    /// A condition of `match` does not hold.
    DoesNotApply,
    /// The limit is optional, and the request lacks its key.
    #[serde(rename = "passed_over")]
    Skipped,
    /// The request is invalid for this limit; the service rejects it with 422.
    Error,
}

/// One limit.
#[derive(Debug, Serialize)]
pub(super) struct LimitExplanation {
    pub(super) name: String,
    #[serde(rename = "outcome")]
    pub(super) applicability: Applicability,
    /// Why the limit does not apply; absent if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// What would be counted; absent unless the limit applies.
    #[serde(flatten)]
    pub(super) demand: Option<DemandExplanation>,
    pub(super) shadow: bool,
    pub(super) consistency: &'static str,
    pub(super) on_store_failure: &'static str,
}

/// The key, the cost and the quota of a limit that applies.
#[derive(Debug, Serialize)]
pub(super) struct DemandExplanation {
    /// The parts of the key; empty if all requests share one counter.
    pub(super) key: Vec<KeyPartExplanation>,
    pub(super) cost: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tier: Option<String>,
    pub(super) algorithm: &'static str,
    pub(super) limit: u64,
    /// The window, or how long a bucket takes to fill; absent for a concurrency limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) window_us: Option<u64>,
    /// The quota as text.
    #[serde(rename = "numbers")]
    pub(super) quota: String,
}

/// One attribute of a key. For a hashed attribute, `value` is the hash.
#[derive(Debug, Serialize)]
pub(super) struct KeyPartExplanation {
    pub(super) attribute: String,
    pub(super) value: String,
    pub(super) hashed: bool,
}

impl LimitExplanation {
    /// `hashed` lists the attributes whose values must not be shown.
    pub(super) fn new(
        limit: &LimitConfig,
        explanation: &Explanation<'_>,
        hashed: &[Attribute],
    ) -> Self {
        let rule = &limit.rule;

        let (applicability, reason, demand) = match explanation {
            Explanation::Applies {
                demand,
                parts,
                tier,
            } => {
                let (quota, cost) = (demand.quota(), demand.cost);
                let demand = DemandExplanation::new(quota, cost, parts, tier.clone());
                (Applicability::Applies, None, Some(demand))
            }
            Explanation::NotMatched { condition, found } => {
                let is_hashed = hashed.contains(&condition.attribute);
                let reason = mismatch(condition, found.as_deref(), is_hashed);
                (Applicability::DoesNotApply, Some(reason), None)
            }
            Explanation::Skipped => {
                let reason = missing_key(limit);
                (Applicability::Skipped, Some(reason), None)
            }
            Explanation::Invalid(error) => (Applicability::Error, Some(error.to_string()), None),
        };

        Self {
            name: rule.name().to_string(),
            applicability,
            reason,
            demand,
            shadow: rule.is_shadow(),
            consistency: rule.consistency().as_str(),
            on_store_failure: rule.on_store_failure().as_str(),
        }
    }
}

impl DemandExplanation {
    fn new(quota: &Quota, cost: u64, parts: &[DisplayPart<'_>], tier: Option<String>) -> Self {
        let part = |part: &DisplayPart<'_>| KeyPartExplanation {
            attribute: part.attribute.to_string(),
            value: part.value.clone(),
            hashed: part.is_hashed,
        };

        Self {
            key: parts.iter().map(part).collect(),
            cost,
            tier,
            algorithm: quota.algorithm(),
            limit: quota.limit(),
            window_us: quota.window().map(tollgate::Micros::get),
            quota: numbers::quota(quota),
        }
    }
}

/// Why a limit is skipped that is optional.
fn missing_key(limit: &LimitConfig) -> String {
    let parts = limit.key.parts.iter();
    let key: Vec<String> = parts.map(|part| alternatives(part)).collect();
    format!(
        "the limit is optional and the request lacks its key: {}",
        key.join(", ")
    )
}

/// A part of a key, written as in the configuration file.
fn alternatives(part: &[Attribute]) -> String {
    let names: Vec<&str> = part.iter().map(Attribute::name).collect();
    names.join(" | ")
}

/// Why a condition does not hold. The value of a hashed attribute is not shown.
fn mismatch(condition: &Condition, found: Option<&str>, is_hashed: bool) -> String {
    let attribute = &condition.attribute;
    let patterns = condition.any_of.iter().map(|pattern| match pattern {
        Pattern::Exact(text) => text.to_string(),
        Pattern::Glob(glob) => glob.to_string(),
    });
    let expected = patterns.collect::<Vec<_>>().join(" or ");

    match found {
        None => format!("the request has no {attribute}; expected {expected}"),
        Some(_) if is_hashed => format!("{attribute} has another value; expected {expected}"),
        Some(found) => format!("{attribute} is {found:?}; expected {expected}"),
    }
}
