//! The limits that a request names itself, with its own keys, costs and perhaps its own numbers.

use std::borrow::Cow;

use tollgate::{Demand, EncodedKey, Rule};

use super::request_view::RequestView;
use super::{
    Attributes, LimitDemands, MissingKeyPolicy, SelectError, Selection, Selector, Value,
    validate_cost,
};
use crate::attribute::Attribute;
use crate::limit::{Cost, LimitConfig};

/// A limit that a request names: a configured one, or one that the request brings along.
#[derive(Clone, Debug, Default)]
pub struct RequestedLimit<'q> {
    /// The name of the limit.
    pub name: Cow<'q, str>,
    /// The key. For a configured limit, the value of the only attribute of its key; `None` takes
    /// it from the attributes of the request.
    pub key: Option<Cow<'q, str>>,
    /// The cost in this limit. `None` is the cost of the request.
    pub cost: Option<u64>,
    /// The limit that the request brings along, as [`InlineLimits::parse`] reads it. `None` for a
    /// configured limit.
    ///
    /// [`InlineLimits::parse`]: crate::InlineLimits::parse
    pub inline: Option<Cow<'q, str>>,
}

impl Selector {
    /// Returns the limits that a request names, whether or not their conditions hold. `inline` has
    /// the rules of those that it brings along, in their order. `on_skip` gets the index of each
    /// limit that cannot count the request, which is not an error.
    pub fn select_requested<'r>(
        &'r self,
        limits: &[RequestedLimit<'_>],
        inline: &'r [Rule],
        attributes: &impl Attributes,
        cost: Option<u64>,
        mut on_skip: impl FnMut(usize),
    ) -> Result<Selection<'r>, SelectError> {
        let request = RequestView::new(attributes);
        let mut selection = Selection::new();
        let mut inline = inline.iter();

        for limit in limits {
            let cost = limit.cost.or(cost);
            validate_cost(cost)?;
            match (&limit.inline, &limit.key) {
                (None, None) => {
                    let index = self.index_of(&limit.name)?;
                    let demands =
                        self.select_one(index, &request, cost, MissingKeyPolicy::Error)?;
                    if demands.is_empty() {
                        on_skip(index);
                    }
                    selection.extend(demands);
                }
                (None, Some(key)) => {
                    let demands = self.select_by_key(&limit.name, key, attributes, cost)?;
                    selection.extend(demands);
                }
                (Some(_), key) => {
                    let rule = inline.next().ok_or_else(|| self.unknown(&limit.name))?;
                    selection.push(inline_demand(rule, key.as_deref(), cost)?);
                }
            }
        }
        self.ensure_complete(&request)?;
        Ok(selection)
    }

    /// The limit with this name, if its key is one attribute that is taken as the caller sends it,
    /// and if neither its quota nor its cost depends on the request. A demand on it needs no
    /// selection: its key is the value alone.
    pub fn plain_limit(&self, name: &str) -> Option<&LimitConfig> {
        let limit = self.limit(name).ok()?;
        let [alternatives] = limit.key.parts.as_slice() else {
            return None;
        };
        let [key] = alternatives.as_slice() else {
            return None;
        };

        let is_plain = key.is_plain() && self.hasher(key.attribute()).is_none();
        let is_constant = limit.cost.as_ref().is_none_or(Cost::is_constant);
        (is_plain && is_constant && limit.tiers.is_none()).then_some(limit)
    }

    /// Selects a configured limit by the value of the only attribute of its key.
    fn select_by_key(
        &self,
        name: &str,
        key: &str,
        attributes: &impl Attributes,
        cost: Option<u64>,
    ) -> Result<LimitDemands<'_>, SelectError> {
        let index = self.index_of(name)?;
        let recipe = &self.limits()[index].key;
        let attribute = match recipe.parts.as_slice() {
            [alternatives] if alternatives.len() == 1 => alternatives[0].attribute(),
            _ => {
                return Err(SelectError::AmbiguousKey {
                    limit: name.to_owned(),
                    expected: expected_key(&recipe.part_names()),
                });
            }
        };

        let keyed = KeyedAttributes {
            attribute,
            key,
            others: attributes,
        };
        let request = RequestView::new(&keyed);
        let demands = self.select_one(index, &request, cost, MissingKeyPolicy::Error)?;
        self.ensure_complete(&request)?;
        Ok(demands)
    }
}

/// What to send instead of one key for a limit with these parts of a key.
#[cold]
fn expected_key(parts: &[String]) -> String {
    if parts.is_empty() {
        return "it has one counter for all requests; leave out `key`".to_owned();
    }
    let parts = parts.join("`, `");
    format!("it counts by `{parts}`; leave out `key` and send `attributes`")
}

/// The demand on a limit that a request brings along.
fn inline_demand<'r>(
    rule: &'r Rule,
    key: Option<&str>,
    cost: Option<u64>,
) -> Result<Demand<'r, EncodedKey>, SelectError> {
    let limit = || rule.name().to_string();
    let key = key.ok_or_else(|| SelectError::MissingKey { limit: limit() })?;
    let key = EncodedKey::new(key).map_err(|cause| SelectError::Key {
        limit: limit(),
        cause,
    })?;
    Ok(Demand::new(rule, key).with_cost(cost.unwrap_or(1)))
}

/// The attributes of a request, one of which has another value.
struct KeyedAttributes<'a, A> {
    attribute: &'a Attribute,
    key: &'a str,
    others: &'a A,
}

impl<A: Attributes> Attributes for KeyedAttributes<'_, A> {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        if attribute == self.attribute {
            return Some(Value::Text(Cow::Borrowed(self.key)));
        }
        self.others.get(attribute)
    }
}
