//! The result of `tollgate explain`. It is serialised for `--json`; as text it is one line per limit,
//! and below each limit that applies what would be counted.

use serde::Serialize;
use tollgate_rules::{Attribute, Condition, Explanation, LimitConfig, Pattern};

use super::super::numbers;
use super::super::terminal::{Align, Cell, Tone, plain, table};
use crate::key_part::KeyPartView;

/// The whole result. Field names are JSON member names.
#[derive(Debug, Serialize)]
pub(super) struct ExplainOutput<'a> {
    /// The limits, in the order of the file.
    pub(super) limits: Vec<LimitExplanation<'a>>,
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
enum Applicability {
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
pub(super) struct LimitExplanation<'a> {
    name: String,
    #[serde(rename = "outcome")]
    applicability: Applicability,
    /// Why the limit does not apply; absent if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What would be counted; absent unless the limit applies.
    #[serde(flatten)]
    demand: Option<DemandExplanation<'a>>,
    shadow: bool,
    consistency: &'static str,
    on_store_failure: &'static str,
}

/// The key, the cost and the quota of a limit that applies.
#[derive(Debug, Serialize)]
struct DemandExplanation<'a> {
    /// The parts of the key; empty if all requests share one counter.
    key: Vec<KeyPartView<'a>>,
    cost: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    /// The reading of the path that matched, quoted; absent if the path has only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    algorithm: &'static str,
    limit: u64,
    /// The window, or how long a bucket takes to fill; absent for a concurrency limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    window_us: Option<u64>,
    /// The quota as text.
    #[serde(rename = "numbers")]
    quota: String,
}

impl<'a> LimitExplanation<'a> {
    /// `hashed` lists the attributes whose values must not be shown.
    pub(super) fn new(
        limit: &LimitConfig,
        explanation: Explanation<'a>,
        hashed: &[Attribute],
    ) -> Self {
        let mut demand_explanation = None;
        let (applicability, reason) = match explanation {
            Explanation::Applies {
                demand,
                parts,
                tier,
                path,
            } => {
                let quota = demand.quota();
                demand_explanation = Some(DemandExplanation {
                    key: KeyPartView::list(parts),
                    cost: demand.cost,
                    tier,
                    path,
                    algorithm: quota.algorithm(),
                    limit: quota.limit(),
                    window_us: quota.window().map(tollgate::Micros::get),
                    quota: numbers::quota(quota),
                });
                (Applicability::Applies, None)
            }
            Explanation::NotMatched { condition, found } => {
                let is_hashed = hashed.contains(&condition.attribute);
                let reason = mismatch(condition, found.as_deref(), is_hashed);
                (Applicability::DoesNotApply, Some(reason))
            }
            Explanation::Skipped => {
                let key = limit.key.part_names().join(", ");
                let reason = if limit.optional {
                    format!("the limit is optional and the request lacks its key: {key}")
                } else {
                    format!("a shadow limit skips a request without a valid key: {key}")
                };
                (Applicability::Skipped, Some(reason))
            }
            Explanation::Invalid(error) => (Applicability::Error, Some(error.to_string())),
        };

        let rule = &limit.rule;
        Self {
            name: rule.name().to_string(),
            applicability,
            reason,
            demand: demand_explanation,
            shadow: rule.is_shadow(),
            consistency: rule.consistency().as_str(),
            on_store_failure: rule.on_store_failure().as_str(),
        }
    }
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

pub(super) fn lines(output: &ExplainOutput<'_>) -> Vec<String> {
    let rows: Vec<_> = output.limits.iter().flat_map(rows).collect();
    let mut lines = table(&rows, Align::Left);
    lines.extend(summary(output));
    lines
}

/// The row of a limit, and a row for each further detail.
fn rows(limit: &LimitExplanation<'_>) -> Vec<Vec<Cell>> {
    let (label, tone) = match limit.applicability {
        Applicability::Applies => ("applies", Tone::Good),
        // As wide as the others.
        Applicability::DoesNotApply => ("no     ", Tone::Dim),
        Applicability::Skipped => ("skipped", Tone::Warning),
        Applicability::Error => ("error  ", Tone::Bad),
    };
    let row = |(index, detail)| {
        if index == 0 {
            let name = (Tone::Name, limit.name.clone());
            vec![name, (tone, label.to_owned()), (Tone::Plain, detail)]
        } else {
            let empty = (Tone::Plain, String::new());
            vec![empty.clone(), empty, (Tone::Dim, detail)]
        }
    };
    details(limit).into_iter().enumerate().map(row).collect()
}

fn details(limit: &LimitExplanation<'_>) -> Vec<String> {
    let Some(demand) = &limit.demand else {
        return vec![plain(limit.reason.as_deref().unwrap_or_default())];
    };

    let mut details = vec![quota(limit, demand), key(&demand.key)];
    if let Some(path) = &demand.path {
        details.push(format!("the path may be read as {}", plain(path)));
    }
    if demand.cost != 1 {
        details.push(format!("cost {}", demand.cost));
    }
    details
}

fn quota(limit: &LimitExplanation<'_>, demand: &DemandExplanation<'_>) -> String {
    let tier = demand
        .tier
        .as_ref()
        .map(|tier| format!("tier {}: ", plain(tier)));
    let mut text = tier.unwrap_or_default() + &demand.quota;
    if limit.consistency == "local" {
        text += ", counted per replica";
    }
    if limit.shadow {
        text += ", shadow: counts, never denies";
    }
    text
}

fn key(parts: &[KeyPartView<'_>]) -> String {
    if parts.is_empty() {
        return "key: none, one counter for all requests".to_owned();
    }

    let part = |part: &KeyPartView<'_>| {
        let hash = if part.hashed { " (hash)" } else { "" };
        format!("{} = {}{hash}", part.attribute, plain(&part.value))
    };
    let parts: Vec<String> = parts.iter().map(part).collect();
    format!("key: {}", parts.join(", "))
}

/// The number of limits that apply, errors, and unused attributes, after a blank line.
fn summary(output: &ExplainOutput<'_>) -> Vec<String> {
    let count = |wanted| {
        let limits = output.limits.iter();
        limits.filter(|limit| limit.applicability == wanted).count()
    };

    let has_errors = count(Applicability::Error) > 0;
    let mut lines = vec![String::new()];
    match (count(Applicability::Applies), output.limits.len()) {
        (1, 1) => lines.push("the limit applies".to_owned()),
        (_, 1) if has_errors => {}
        (_, 1) => lines.push("the limit does not apply".to_owned()),
        (applying, all) => lines.push(format!("{applying} of {all} limits apply")),
    }
    if has_errors {
        let line = "the service would reject this request (422) because of the errors above";
        lines.push(Tone::Bad.paint(line));
    }

    for unused in &output.unused {
        let suggestion = unused.suggestion.as_ref();
        let suggestion = suggestion.map(|name| format!("; did you mean `{name}`?"));
        lines.push(Tone::Warning.paint(&format!(
            "no limit uses the attribute `{}`{}",
            plain(&unused.attribute),
            suggestion.unwrap_or_default()
        )));
    }
    lines
}
