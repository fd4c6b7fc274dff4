//! A limit of the configuration: the limit itself, when it applies, whom it counts, and with which
//! numbers.

use std::collections::BTreeMap;

use tollgate::{Limit, Quota};
use tollgate_subject::Glob;

use crate::attribute::Attribute;

/// A limit and everything that decides how a request meets it.
#[derive(Clone, Debug)]
pub struct LimitConfig {
    /// Its name, numbers, policy and consistency.
    pub limit: Limit,
    /// When it applies.
    pub applies: Match,
    /// Whom it counts.
    pub key: Recipe,
    /// True when a request without the key's attributes is let by; otherwise that is an error.
    pub optional: bool,
    /// Other numbers for some callers.
    pub tiers: Option<Tiers>,
    /// What a request costs, if not 1.
    pub cost: Option<Cost>,
}

/// Conditions that must all hold. None at all always hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// In the order of the file.
    pub conditions: Vec<Condition>,
}

/// What one attribute must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Which attribute.
    pub attribute: Attribute,
    /// The patterns, one of which must fit.
    pub any_of: Vec<Pattern>,
}

/// What a value may look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Exactly this. Methods are upper case and hosts lower case on both sides.
    Exact(Box<str>),
    /// Like this: `*` is anything but `/`, `**` anything. Paths are in one spelling on both sides.
    Glob(Glob),
}

/// The attributes that make up a key, each with its alternatives. No parts at all are one counter
/// for everyone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    /// For each part the attributes to take it from: the first that the request has.
    pub parts: Vec<Vec<Attribute>>,
}

/// Numbers by the value of an attribute.
#[derive(Clone, Debug)]
pub struct Tiers {
    /// The attribute that names the tier.
    pub by: Attribute,
    /// The tier of a request without that attribute, or with a tier that does not exist. Its
    /// numbers are the limit's own.
    pub default: Box<str>,
    /// The numbers of every tier, in the algorithm of the limit.
    pub quotas: BTreeMap<Box<str>, Quota>,
}

/// What a request costs: always the same, or by the value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The attribute that holds it: a whole number. None when the cost is always the same.
    pub by: Option<Attribute>,
    /// The cost of a request without that attribute, which does not state one itself.
    pub default: u64,
}
