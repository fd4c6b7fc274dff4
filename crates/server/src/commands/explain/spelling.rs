//! Attributes that no limit looks at: usually a slip of the pen, which would otherwise show only as
//! a limit that does not apply.

use tollgate_rules::{Attribute, Config, LimitConfig};

use super::super::attributes::Given;
use super::shown::Unused;

/// How alike two names must be, from 0 to 1, for one to be meant by the other.
const ALIKE: f64 = 0.75;

/// The attributes of the request that no limit looks at.
pub(super) fn unused(config: &Config, given: &Given) -> Vec<Unused> {
    let known: Vec<&Attribute> = config.limits.iter().flat_map(looked_at).collect();
    let is_unused = |attribute: &&Attribute| !known.contains(attribute);
    let names = given
        .iter()
        .map(|(attribute, _)| attribute)
        .filter(is_unused);
    names
        .map(|name| Unused {
            attribute: name.to_string(),
            meant: nearest(name, &known),
        })
        .collect()
}

/// Every attribute that a limit looks at.
fn looked_at(rule: &LimitConfig) -> impl Iterator<Item = &Attribute> {
    let conditions = rule
        .applies
        .conditions
        .iter()
        .map(|condition| &condition.attribute);
    let tier = rule.tiers.iter().map(|tiers| &tiers.by);
    let cost = rule.cost.iter().filter_map(|cost| cost.by.as_ref());
    rule.key
        .parts
        .iter()
        .flatten()
        .chain(conditions)
        .chain(tier)
        .chain(cost)
}

fn nearest(name: &Attribute, known: &[&Attribute]) -> Option<String> {
    let likeness =
        |other: &&&Attribute| strsim::normalized_damerau_levenshtein(name.name(), other.name());
    let best = known
        .iter()
        .max_by(|one, other| likeness(one).total_cmp(&likeness(other)))?;
    (likeness(&best) >= ALIKE).then(|| best.to_string())
}
