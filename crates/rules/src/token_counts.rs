//! Kinds of tokens of language models, and the names that usage objects of providers give them.
//!
//! `prompt_tokens`, and `input_tokens` next to details, include the tokens that were read from a
//! cache; `input_tokens` next to `cache_read_input_tokens` do not. A limit gets what it counts:
//! `input` are the tokens that were not cached, unless it does not count `cached` ones at all.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use smallvec::SmallVec;

use crate::attribute::Attribute;
use crate::config::{list_and, nearest};
use crate::limit::{Cost, LimitConfig};
use crate::select::SelectError;

/// What the name of the attribute of a kind starts with.
pub(crate) const PREFIX: &str = "tokens.";
/// The kinds that usage objects of providers contain.
const USAGE_KINDS: [&str; 3] = ["input", "output", "cached"];
/// The members of usage objects that are counted.
const USAGE_NAMES: [&str; 9] = [
    "prompt_tokens",
    "completion_tokens",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "prompt_tokens_details.cached_tokens",
    "input_tokens_details.cached_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
];
/// Members of usage objects that say nothing about tokens, or what other members say already.
const IGNORED_NAMES: [&str; 3] = ["total_tokens", "service_tier", "inference_geo"];
/// Members whose own members break down a number, or say nothing about tokens.
const IGNORED_OBJECTS: [&str; 6] = [
    "prompt_tokens_details",
    "completion_tokens_details",
    "input_tokens_details",
    "output_tokens_details",
    "cache_creation",
    "server_tool_use",
];

static USAGE_ATTRIBUTES: LazyLock<[Attribute; 9]> = LazyLock::new(|| {
    USAGE_NAMES.map(|name| {
        let attribute = format!("{PREFIX}{name}").parse();
        attribute.expect("the names are valid")
    })
});

/// The kinds of tokens that the limits of a configuration use.
#[derive(Debug, Default)]
pub struct TokenKinds {
    /// In costs, keys and conditions.
    own: BTreeSet<Box<str>>,
    /// Whether a limit counts one of [`USAGE_KINDS`].
    counts_usage: bool,
}

/// What becomes of a number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenName {
    /// It is that of a kind that a limit uses.
    Own,
    /// It is a member of a provider's usage object that is counted.
    Usage,
    /// It is a member of a provider's usage object that adds nothing to the others.
    Ignored,
}

impl TokenKinds {
    pub(crate) fn new(limits: &[LimitConfig]) -> Self {
        let attributes = limits.iter().flat_map(LimitConfig::attributes);
        let kinds = attributes.filter_map(|attribute| attribute.name().strip_prefix(PREFIX));
        let mut costs = limits.iter().filter_map(|limit| limit.cost.as_ref());
        Self {
            own: kinds.map(Box::from).collect(),
            counts_usage: costs.any(|cost| cost.kinds().any(TokenKinds::is_in_usage)),
        }
    }

    /// What becomes of a number with this name. Members of members have the names of both, with a
    /// dot in between.
    pub fn find(&self, name: &str) -> Result<TokenName, SelectError> {
        let is_ignored = || {
            let object = name.split_once('.').map(|(object, _)| object);
            IGNORED_NAMES.contains(&name)
                || object.is_some_and(|object| IGNORED_OBJECTS.contains(&object))
        };
        if self.own.contains(name) {
            Ok(TokenName::Own)
        } else if self.counts_usage && USAGE_NAMES.contains(&name) {
            Ok(TokenName::Usage)
        } else if self.counts_usage && is_ignored() {
            Ok(TokenName::Ignored)
        } else {
            Err(self.unknown(name))
        }
    }

    /// Whether a usage object of a provider says the same by another name.
    pub fn is_in_usage(name: &str) -> bool {
        USAGE_KINDS.contains(&name)
    }

    #[cold]
    fn unknown(&self, name: &str) -> SelectError {
        let found: String = name.chars().take(80).collect();
        if self.own.is_empty() {
            return SelectError::TokenKind(format!(
                "unknown kind of tokens {found:?}: no limit counts tokens by their kind; send the \
                 units as `cost`, or as `actual` when you settle"
            ));
        }
        let mut known: Vec<&str> = self.own.iter().map(|kind| &**kind).collect();
        let listed = list_and(&known);
        if self.counts_usage {
            known.extend(USAGE_NAMES);
        }
        let hint = match nearest(name, &known) {
            Some(nearest) => format!("did you mean `{nearest}`? "),
            None => String::new(),
        };
        let usage = if self.counts_usage {
            ", and the names in usage objects of OpenAI and Anthropic"
        } else {
            ""
        };
        SelectError::TokenKind(format!(
            "unknown kind of tokens {found:?}; {hint}The limits count {listed}{usage}"
        ))
    }
}

/// The kind of tokens whose number an attribute holds.
fn kind_of(attribute: &Attribute) -> Option<&str> {
    attribute.name().strip_prefix(PREFIX)
}

impl Cost {
    /// The kinds of tokens whose numbers make up the cost.
    fn kinds(&self) -> impl Iterator<Item = &str> {
        let weighed = self.tokens.iter().map(|weight| &weight.attribute);
        self.attribute.iter().chain(weighed).filter_map(kind_of)
    }

    /// True when numbers of tokens decide the cost.
    pub fn counts_tokens(&self) -> bool {
        self.kinds().next().is_some()
    }

    /// The number in the attribute that decides the cost, or the weighed numbers of tokens, rounded
    /// up. `count` returns the number that an attribute holds; `None` if nothing has one. A request
    /// that lacks the number of a kind may have those of a provider's usage object instead.
    pub fn measure<E>(
        &self,
        count: impl Fn(&Attribute) -> Result<Option<u64>, E>,
    ) -> Result<Option<u64>, E> {
        let mut counts: SmallVec<[(&Attribute, u32, Option<u64>); 4]> = SmallVec::new();
        let weights = self.tokens.iter();
        let weights = weights.map(|weight| (&weight.attribute, weight.thousandths));
        for (attribute, thousandths) in self.attribute.iter().map(|by| (by, 1_000)).chain(weights) {
            counts.push((attribute, thousandths, count(attribute)?));
        }

        let is_open = |attribute: &Attribute, found: &Option<u64>| {
            found.is_none() && kind_of(attribute).is_some_and(TokenKinds::is_in_usage)
        };
        if counts
            .iter()
            .any(|(attribute, _, found)| is_open(attribute, found))
        {
            let usage = self.usage(count)?;
            for (attribute, _, found) in &mut counts {
                *found = found.or_else(|| usage.get(kind_of(attribute)?));
            }
        }

        let products = counts.iter().filter_map(|(_, thousandths, found)| {
            found.map(|found| u128::from(found) * u128::from(*thousandths))
        });
        let sum = products.reduce(u128::saturating_add);
        Ok(sum.map(|sum| u64::try_from(sum.div_ceil(1_000)).unwrap_or(u64::MAX)))
    }

    /// What a provider's usage object says, without the members that the limit counts itself.
    fn usage<E>(&self, count: impl Fn(&Attribute) -> Result<Option<u64>, E>) -> Result<Usage, E> {
        let mut counts = [None; USAGE_NAMES.len()];
        let names = USAGE_NAMES.iter().zip(&*USAGE_ATTRIBUTES);
        for (found, (name, attribute)) in counts.iter_mut().zip(names) {
            if !self.kinds().any(|kind| kind == *name) {
                *found = count(attribute)?;
            }
        }
        let counts_cached = self.kinds().any(|kind| kind == "cached");
        Ok(Usage::new(counts, counts_cached))
    }
}

/// What a provider's usage object says about [`USAGE_KINDS`].
struct Usage {
    input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
}

impl Usage {
    /// From the numbers of [`USAGE_NAMES`].
    fn new(counts: [Option<u64>; USAGE_NAMES.len()], counts_cached: bool) -> Self {
        let [
            prompt,
            completion,
            input,
            output,
            of_both,
            of_prompt,
            of_input,
            read,
            written,
        ] = counts;
        // These are part of the number of input tokens, `read` and `written` are not.
        let included = of_both.max(of_prompt).max(of_input);
        let cached = included.max(read);

        let without = |all: u64, part: Option<u64>| all.saturating_sub(part.unwrap_or(0));
        let uncached = match (prompt, input) {
            (Some(prompt), _) => Some(without(prompt, cached)),
            (None, Some(input)) => {
                Some(without(input, included).saturating_add(written.unwrap_or(0)))
            }
            (None, None) => written,
        };
        let all = uncached.map(|uncached| uncached.saturating_add(cached.unwrap_or(0)));
        Self {
            input: if counts_cached {
                uncached
            } else {
                all.or(cached)
            },
            output: completion.or(output),
            cached,
        }
    }

    fn get(&self, kind: &str) -> Option<u64> {
        match kind {
            "input" => self.input,
            "output" => self.output,
            "cached" => self.cached,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::TokenWeight;

    fn cost(weights: &[(&str, u32)]) -> Cost {
        let weight = |(kind, units): &(&str, u32)| TokenWeight {
            attribute: format!("{PREFIX}{kind}").parse().expect("an attribute"),
            thousandths: units * 1_000,
        };
        Cost {
            tokens: weights.iter().map(weight).collect(),
            ..Cost::default()
        }
    }

    fn weigh(cost: &Cost, counts: &[(&str, u64)]) -> Option<u64> {
        let count = |attribute: &Attribute| {
            let kind = attribute.name().strip_prefix(PREFIX);
            let found = counts.iter().find(|(name, _)| Some(*name) == kind);
            Ok::<_, ()>(found.map(|(_, count)| *count))
        };
        cost.measure(count).expect("numbers")
    }

    /// Units of one, a hundred and ten thousand tell the kinds apart.
    #[test]
    fn usage_of_providers_is_counted_once() {
        let all = cost(&[("input", 10_000), ("output", 100), ("cached", 1)]);
        let uncached = cost(&[("input", 10_000), ("output", 100)]);
        let own = cost(&[("input", 10_000), ("cache_creation_input_tokens", 7)]);
        let chat = [
            ("prompt_tokens", 9),
            ("completion_tokens", 5),
            ("prompt_tokens_details.cached_tokens", 4),
        ];
        let responses = [
            ("input_tokens", 9),
            ("output_tokens", 5),
            ("input_tokens_details.cached_tokens", 4),
        ];
        let messages = [
            ("input_tokens", 3),
            ("cache_creation_input_tokens", 2),
            ("cache_read_input_tokens", 4),
            ("output_tokens", 5),
        ];
        for (usage, expected) in [
            (&chat[..], [50_504, 90_500, 50_000 + 40_000]),
            (&responses[..], [50_504, 90_500, 50_000 + 40_000]),
            (&messages[..], [50_504, 90_500, 70_014]),
            (&[("prompt_tokens", 9)], [90_000; 3]),
            (
                &[("input_tokens", 9), ("cached_tokens", 9)],
                [9, 90_000, 90_000],
            ),
            (
                &[("prompt_tokens", 3), ("cached_tokens", 4)],
                [4, 40_000, 40_000],
            ),
            (&[("cache_read_input_tokens", 4)], [4, 40_000, 40_000]),
        ] {
            let found = [&all, &uncached, &own].map(|cost| weigh(cost, usage));
            assert_eq!(found, expected.map(Some), "{usage:?}");
        }
    }

    #[test]
    fn own_kinds_come_first_and_nothing_weighs_nothing() {
        let all = cost(&[("input", 10), ("output", 1)]);
        assert_eq!(weigh(&all, &[("input", 2)]), Some(20));
        let mixed = [("output", 2), ("prompt_tokens", 9)];
        assert_eq!(weigh(&all, &mixed), Some(92), "each kind by itself");
        assert_eq!(weigh(&all, &[]), None);
        assert_eq!(weigh(&all, &[("total_tokens", 9), ("images", 1)]), None);
        let images = cost(&[("images", 1)]);
        assert_eq!(weigh(&images, &[("prompt_tokens", 9)]), None);
        assert_eq!(weigh(&all, &[("input", u64::MAX)]), Some(u64::MAX));
    }
}
