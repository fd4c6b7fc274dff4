//! What is known of a request and a limit, ready to be printed: for people as a table, for programs
//! as it stands here.

use serde::Serialize;
use tollgate::Quota;
use tollgate_rules::{Attribute, Condition, DisplayPart, Explanation, LimitConfig, Pattern};

use super::super::numbers;

/// An answer of `tollgate explain`. Field names are member names.
#[derive(Debug, Serialize)]
pub(super) struct Explained {
    /// The limits, in the order of the file.
    pub(super) limits: Vec<Shown>,
    /// Attributes of the request that no limit looks at.
    pub(super) unused: Vec<Unused>,
}

/// An attribute that no limit looks at, and the one that may have been meant.
#[derive(Debug, Serialize)]
pub(super) struct Unused {
    pub(super) attribute: String,
    pub(super) meant: Option<String>,
}

/// How the request meets a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// It must pass it.
    Applies,
    /// A condition does not hold.
    DoesNotApply,
    /// The key is not there, and the limit is optional.
    PassedOver,
    /// The request cannot be put to it; the service answers 422.
    Error,
}

/// One limit.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    pub(super) name: String,
    pub(super) outcome: Outcome,
    /// Why it does not apply; absent when it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// The check that would be made; absent when none is.
    #[serde(flatten)]
    pub(super) check: Option<Check>,
    pub(super) shadow: bool,
    pub(super) consistency: &'static str,
    pub(super) on_store_failure: &'static str,
}

/// The check that would be made.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    /// Who is counted; without parts, everyone together.
    pub(super) key: Vec<Part>,
    pub(super) cost: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tier: Option<String>,
    pub(super) algorithm: &'static str,
    pub(super) limit: u64,
    /// The window, or how long a bucket takes to fill; absent for places in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) window_us: Option<u64>,
    /// The numbers in words.
    pub(super) numbers: String,
}

/// A part of a key. A hashed one is its hash.
#[derive(Debug, Serialize)]
pub(super) struct Part {
    pub(super) attribute: String,
    pub(super) value: String,
    pub(super) hashed: bool,
}

impl Shown {
    /// `hashed` are the attributes whose values are not to be shown.
    pub(super) fn new(rule: &LimitConfig, meeting: &Explanation<'_>, hashed: &[Attribute]) -> Self {
        let (outcome, reason, check) = match meeting {
            Explanation::Met {
                chosen,
                parts,
                tier,
            } => {
                let own = rule.limit.rule().ok().map(|checked| *checked.quota());
                let check = chosen
                    .quota
                    .copied()
                    .or(own)
                    .map(|quota| Check::new(&quota, chosen.cost, parts, tier.clone()));
                (Outcome::Applies, None, check)
            }
            Explanation::No { condition, found } => {
                let found = found
                    .as_deref()
                    .map(|found| (found, hashed.contains(&condition.attribute)));
                (Outcome::DoesNotApply, Some(unmet(condition, found)), None)
            }
            Explanation::PassedOver => {
                let key: Vec<String> = rule
                    .key
                    .parts
                    .iter()
                    .map(|part| alternatives(part))
                    .collect();
                let reason = format!(
                    "it is optional, and the request does not have its key: {}",
                    key.join(", ")
                );
                (Outcome::PassedOver, Some(reason), None)
            }
            Explanation::Wrong(error) => (Outcome::Error, Some(error.to_string()), None),
        };
        let checked = rule.limit.rule().ok();
        Self {
            name: rule.limit.name().to_owned(),
            outcome,
            reason,
            check,
            shadow: checked.is_some_and(|rule| rule.is_shadow()),
            consistency: checked
                .map(|rule| rule.consistency())
                .unwrap_or_default()
                .as_str(),
            on_store_failure: checked
                .map(|rule| rule.on_store_failure())
                .unwrap_or_default()
                .as_str(),
        }
    }
}

impl Check {
    fn new(quota: &Quota, cost: u64, parts: &[DisplayPart<'_>], tier: Option<String>) -> Self {
        let part = |part: &DisplayPart<'_>| Part {
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
            numbers: numbers::quota(quota),
        }
    }
}

fn alternatives(part: &[Attribute]) -> String {
    let names: Vec<&str> = part.iter().map(Attribute::name).collect();
    names.join(" | ")
}

/// What an attribute is, and what it would have to be. A value that is known by its hash alone is
/// not shown.
fn unmet(condition: &Condition, found: Option<(&str, bool)>) -> String {
    let attribute = &condition.attribute;
    let patterns = condition.any_of.iter().map(|pattern| match pattern {
        Pattern::Exact(text) => text.to_string(),
        Pattern::Glob(glob) => glob.to_string(),
    });
    let wanted = patterns.collect::<Vec<_>>().join(" or ");
    match found {
        None => format!("the request has no {attribute}; it must be {wanted}"),
        Some((_, true)) => format!("{attribute} is another; it must be {wanted}"),
        Some((found, false)) => format!("{attribute} is {found:?}; it must be {wanted}"),
    }
}
