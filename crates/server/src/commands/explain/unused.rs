//! Attributes that no limit uses: usually a misspelt name, which would otherwise go unnoticed.

use serde::Serialize;
use tollgate_rules::{Attribute, AttributeKind, Config, LimitConfig};

use super::super::attributes::RequestAttributes;

/// How similar two names must be, from 0 to 1, for one to be suggested for the other.
const SIMILARITY_MIN: f64 = 0.75;

/// An attribute that no limit uses.
#[derive(Debug, Serialize)]
pub(super) struct UnusedAttribute {
    pub(super) attribute: String,
    /// A similar attribute that a limit uses, if there is one.
    #[serde(rename = "meant")]
    pub(super) suggestion: Option<String>,
}

/// Finds the attributes of the request that no limit uses.
pub(super) fn find(config: &Config, attributes: &RequestAttributes) -> Vec<UnusedAttribute> {
    let limits = config.limits.iter();
    let known: Vec<&Attribute> = limits.flat_map(LimitConfig::attributes).collect();

    attributes
        .iter()
        .map(|(attribute, _)| attribute)
        .filter(|attribute| !known.contains(attribute))
        .map(|attribute| UnusedAttribute {
            attribute: attribute.to_string(),
            suggestion: most_similar(attribute, &known),
        })
        .collect()
}

fn most_similar(name: &Attribute, known: &[&Attribute]) -> Option<String> {
    // A built-in name is spelt correctly, so a similar custom name is the mistake.
    if name.kind() != AttributeKind::Custom {
        return None;
    }

    let similarity =
        |other: &&&Attribute| strsim::normalized_damerau_levenshtein(name.name(), other.name());
    let best = known
        .iter()
        .max_by(|one, other| similarity(one).total_cmp(&similarity(other)))?;
    (similarity(&best) >= SIMILARITY_MIN).then(|| best.to_string())
}
