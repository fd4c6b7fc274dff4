//! One limit of the configuration: its quota, its conditions, its key, its tiers and its cost.

use std::collections::BTreeMap;
use std::fmt;

use tollgate::{Quota, Rule};
use tollgate_subject::{Glob, Network};

use crate::attribute::{Attribute, AttributeKind};
use crate::key_attribute::KeyAttribute;

/// A limit, and the rules that decide whether and how it applies to a request.
#[derive(Clone, Debug)]
pub struct LimitConfig {
    /// The validated limit: its name, quota, failure policy and consistency.
    pub rule: Rule,
    /// The conditions under which the limit applies, in file order. All of them must hold; a limit
    /// without conditions always applies.
    pub conditions: Vec<Condition>,
    /// What happens to a request whose path has several readings, of which some match.
    pub on_ambiguous_path: AmbiguousPathPolicy,
    /// The attributes that make up the key.
    pub key: Recipe,
    /// Whether a request without the key's attributes skips this limit. If false, it is an error.
    pub optional: bool,
    /// Other quotas for some callers. `None` if all callers have the limit's own quota.
    pub tiers: Option<Tiers>,
    /// The cost of a request. `None` means 1, unless the request states its cost.
    pub cost: Option<Cost>,
    /// Keys and networks that the limit always lets pass, without charging them.
    pub exempt: StandingList,
    /// Keys and networks that the limit always denies.
    pub blocked: StandingBlock,
}

/// Keys and networks of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandingList {
    /// At most 1,000.
    pub keys: Vec<StandingKey>,
    /// At most 1,000. Every client address inside matches.
    pub networks: Vec<Network>,
}

/// Keys and networks that a limit always denies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandingBlock {
    /// Which.
    pub list: StandingList,
    /// The HTTP status of the denial: 429 or 403.
    pub status: u16,
}

/// A key of the file: a value for an attribute of each part of the limit's key.
#[derive(Clone, PartialEq, Eq)]
pub struct StandingKey(pub Vec<(Attribute, Box<str>)>);

/// Omits the values, because they can identify people and must not appear in logs.
impl fmt::Debug for StandingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StandingKey(..)")
    }
}

/// What a limit does with a path that servers read differently, so that its condition holds for some
/// readings and not for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AmbiguousPathPolicy {
    /// The limit applies.
    #[default]
    MatchAny,
    /// The request is refused.
    Refuse,
}

/// A condition on the value of one attribute. It does not hold if the request lacks the attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The attribute whose value is compared.
    pub attribute: Attribute,
    /// The patterns. At least one must match the value.
    pub any_of: Vec<Pattern>,
}

impl Condition {
    /// Whether this is a condition on the path.
    pub(crate) fn is_path(&self) -> bool {
        self.attribute.kind() == AttributeKind::Path
    }

    /// Whether one of the patterns matches a value.
    pub(crate) fn matches(&self, value: &str) -> bool {
        self.any_of.iter().any(|pattern| match pattern {
            Pattern::Exact(text) => **text == *value,
            Pattern::Glob(glob) => glob.matches(value),
        })
    }
}

/// A pattern for the value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Matches exactly this text. Methods are upper case and hosts lower case on both sides.
    Exact(Box<str>),
    /// Matches a glob: `*` is any text without `/`, `**` is any text. For paths, it is compared
    /// with every reading of the path.
    Glob(Glob),
}

impl Pattern {
    /// The text of the pattern.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Exact(text) => text,
            Self::Glob(glob) => glob.as_str(),
        }
    }
}

/// The attributes that make up a limit's key. An empty recipe is one counter for all requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    /// The parts of the key. Each part lists alternative attributes; the first one that the request
    /// has is used.
    pub parts: Vec<Vec<KeyAttribute>>,
}

/// Quotas selected by the value of an attribute.
#[derive(Clone, Debug)]
pub struct Tiers {
    /// The attribute that holds the name of the tier.
    pub by: Attribute,
    /// The tier used when the request lacks that attribute or names an unknown tier. Its quota is
    /// the limit's own.
    pub default: Box<str>,
    /// The quota of every tier. All use the limit's algorithm.
    pub quotas: BTreeMap<Box<str>, Quota>,
}

/// The cost of a request: a constant, or the value of an attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The attribute that holds the cost as a whole number. `None` if the cost is constant, or the
    /// sum of token counts.
    pub attribute: Option<Attribute>,
    /// The kinds of tokens that the limit counts, with their weights. Empty if it does not.
    pub tokens: Vec<TokenWeight>,
    /// The cost of a request that lacks the attribute and does not state a cost itself.
    pub default: u64,
}

/// A kind of tokens, and what one of them costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenWeight {
    /// The attribute that holds the number of tokens: `tokens.` and the kind.
    pub attribute: Attribute,
    /// The units of a thousand tokens.
    pub thousandths: u32,
}

impl Cost {
    /// True when every request costs the same.
    pub fn is_constant(&self) -> bool {
        self.attribute.is_none() && self.tokens.is_empty()
    }
}

impl LimitConfig {
    /// All attributes that the limit uses: in its key, conditions, tiers and cost.
    pub fn attributes(&self) -> impl Iterator<Item = &Attribute> {
        let conditions = self.conditions.iter().map(|condition| &condition.attribute);
        let tier = self.tiers.iter().map(|tiers| &tiers.by);
        let cost = self.cost.iter().filter_map(|cost| cost.attribute.as_ref());
        let tokens = self.cost.iter().flat_map(|cost| &cost.tokens);
        let tokens = tokens.map(|weight| &weight.attribute);
        self.key
            .attributes()
            .chain(conditions)
            .chain(tier)
            .chain(cost)
            .chain(tokens)
    }
}

impl Recipe {
    /// The attributes of all parts, alternatives included.
    pub fn attributes(&self) -> impl Iterator<Item = &Attribute> {
        self.parts.iter().flatten().map(KeyAttribute::attribute)
    }

    /// The parts of the key as in the configuration file, such as `header:x-api-key | client_ip`
    /// or `lower(email)`.
    pub fn part_names(&self) -> Vec<String> {
        let name = |part: &Vec<KeyAttribute>| {
            let names: Vec<&str> = part.iter().map(KeyAttribute::name).collect();
            names.join(" | ")
        };
        self.parts.iter().map(name).collect()
    }
}
