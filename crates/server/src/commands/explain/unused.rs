//! Attributes that no limit uses: usually a misspelt name, which would otherwise go unnoticed.

use tollgate_rules::{Attribute, AttributeKind, Config, LimitConfig};

use super::super::attributes::RequestAttributes;
use super::output::UnusedAttribute;

/// How similar two names must be, from 0 to 1, for one to be suggested for the other.
const SIMILARITY_MIN: f64 = 0.75;

/// Finds the attributes of the request that no limit uses.
pub(super) fn find(config: &Config, attributes: &RequestAttributes) -> Vec<UnusedAttribute> {
    let known: Vec<&Attribute> = config.limits.iter().flat_map(used_by).collect();

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

/// Every attribute that a limit uses.
fn used_by(limit: &LimitConfig) -> impl Iterator<Item = &Attribute> {
    let key = limit.key.parts.iter().flatten();
    let conditions = limit
        .conditions
        .iter()
        .map(|condition| &condition.attribute);
    let tier = limit.tiers.iter().map(|tiers| &tiers.by);
    let cost = limit.cost.iter().filter_map(|cost| cost.attribute.as_ref());
    key.chain(conditions).chain(tier).chain(cost)
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
