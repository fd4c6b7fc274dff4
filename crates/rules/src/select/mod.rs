//! Selects the limits that apply to a request, with their keys, costs and quotas.
//!
//! For each limit: do its conditions hold, does the request have its key, what does the request
//! cost? The result is a list of demands, which a limiter takes as it is.

mod error;
mod explanation;
mod keys;
mod limit_index;
mod request_path;
mod request_view;
mod requested;
mod standing;

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;

use smallvec::SmallVec;
use tollgate::algorithm::AMOUNT_MAX;
use tollgate::{Demand, EncodedKey};
use tollgate_subject::{ClientResolver, FieldValues};

use crate::attribute::Attribute;
use crate::config::{Config, HashConfig};
use crate::limit::{Condition, LimitConfig, StandingKey};
use crate::token_counts::TokenKinds;

pub use error::SelectError;
pub use explanation::{DisplayPart, Explanation};
use limit_index::{Candidate, LimitIndex, PathMatch};
use request_view::RequestView;
pub use requested::RequestedLimit;
pub use standing::{StandingEffect, StandingIndex};

/// The attributes of a request.
pub trait Attributes {
    /// The value of an attribute. `None` if the request does not have it.
    ///
    /// The value is returned as received. The [`Selector`] normalises paths, methods, hosts and
    /// addresses itself.
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>>;
}

impl Attributes for StandingKey {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let found = self.0.iter().find(|(known, _)| known == attribute);
        found.map(|(_, value)| Value::Text(Cow::Borrowed(value)))
    }
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'v> {
    /// A text as received. An empty text counts as missing.
    Text(Cow<'v, str>),
    /// A parsed IP address.
    Address(IpAddr),
    /// The values of a header, cookie or query parameter that a request may repeat. A limit applies
    /// if any of them meets its conditions, and is charged under each of them.
    Texts(FieldValues<'v>),
}

impl<'v> Value<'v> {
    /// The value as text, of several the first. Empty if there is none.
    fn into_text(self) -> Cow<'v, str> {
        match self {
            Self::Text(text) => text,
            Self::Address(address) => address.to_canonical().to_string().into(),
            Self::Texts(values) => values.into_iter().next().unwrap_or_default(),
        }
    }
}

/// The limits of a configuration, prepared for selection.
#[derive(Debug)]
pub struct Selector {
    limits: Vec<LimitConfig>,
    /// The index of each limit by its name.
    index_by_name: HashMap<Box<str>, usize>,
    /// Narrows down the limits whose conditions have to be evaluated.
    limit_index: LimitIndex,
    clients: ClientResolver,
    hashing: Option<HashConfig>,
    token_kinds: TokenKinds,
}

/// What a request asks of the limits that apply to it, in file order. A limit's
/// [position](tollgate::Rule::position) is its index in the configuration.
pub type Selection<'r> = SmallVec<[Demand<'r, EncodedKey>; 4]>;

/// What a request asks of one limit: usually one demand.
pub type LimitDemands<'r> = SmallVec<[Demand<'r, EncodedKey>; 1]>;

/// How to treat a request that lacks an attribute of a limit's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingKeyPolicy {
    /// Return an error, unless the limit is optional.
    Error,
    /// Skip the limit. For callers that know only some of a request's attributes.
    Skip,
}

impl Selector {
    /// Prepares the limits of a configuration.
    pub fn new(config: &Config) -> Self {
        let numbered = config.limits.iter().zip(0..);
        let limits: Vec<LimitConfig> = numbered
            .map(|(limit, position)| LimitConfig {
                rule: limit.rule.with_position(position),
                ..limit.clone()
            })
            .collect();
        let names = limits.iter().map(|limit| limit.rule.name().as_str().into());

        Self {
            index_by_name: names.zip(0..).collect(),
            limit_index: LimitIndex::new(limits.iter()),
            token_kinds: TokenKinds::new(&limits),
            limits,
            clients: config.clients.clone(),
            hashing: config.hashing.clone(),
        }
    }

    /// The limits, in file order.
    pub fn limits(&self) -> &[LimitConfig] {
        &self.limits
    }

    /// The limit with this name.
    pub fn limit(&self, name: &str) -> Result<&LimitConfig, SelectError> {
        self.index_of(name).map(|index| &self.limits[index])
    }

    /// The kinds of tokens that the limits use.
    pub const fn token_kinds(&self) -> &TokenKinds {
        &self.token_kinds
    }

    /// The resolver that determines and groups client addresses.
    pub const fn clients(&self) -> &ClientResolver {
        &self.clients
    }

    /// Returns every limit whose conditions hold. `cost` is the cost that the request states, if
    /// any.
    pub fn select(
        &self,
        attributes: &impl Attributes,
        cost: Option<u64>,
        on_missing: MissingKeyPolicy,
    ) -> Result<Selection<'_>, SelectError> {
        let mut selection = Selection::new();

        self.for_each_selected(attributes, cost, on_missing, |_, demands| {
            selection.extend(demands);
        })?;
        Ok(selection)
    }

    /// Calls `visit` for every limit whose conditions hold, for callers that keep their own list.
    ///
    /// `visit` gets the index of the limit and its demands: none if the request lacks the key and
    /// that is not an error, several if an attribute of the key has several values.
    pub fn for_each_selected<'r>(
        &'r self,
        attributes: &impl Attributes,
        cost: Option<u64>,
        on_missing: MissingKeyPolicy,
        mut visit: impl FnMut(usize, LimitDemands<'r>),
    ) -> Result<(), SelectError> {
        validate_cost(cost)?;
        let request = RequestView::new(attributes);
        for Candidate { limit: index, path } in self.limit_index.candidates(&request) {
            let limit = &self.limits[index];
            let is_known = |condition: &Condition| path == PathMatch::Known && condition.is_path();
            let mut conditions = limit.conditions.iter();

            if conditions.all(|condition| is_known(condition) || request.satisfies(condition)) {
                request.ensure_unambiguous(limit)?;
                visit(index, self.select_one(index, &request, cost, on_missing)?);
            }
        }
        self.ensure_complete(&request)
    }

    /// Returns the limits with these names, whether or not their conditions hold.
    pub fn select_named(
        &self,
        names: &[impl AsRef<str>],
        attributes: &impl Attributes,
        cost: Option<u64>,
    ) -> Result<Selection<'_>, SelectError> {
        validate_cost(cost)?;
        let request = RequestView::new(attributes);
        let mut selection = Selection::new();

        for name in names {
            let index = self.index_of(name.as_ref())?;
            selection.extend(self.select_one(index, &request, cost, MissingKeyPolicy::Error)?);
        }
        self.ensure_complete(&request)?;
        Ok(selection)
    }

    /// Explains for every limit why it applies to a request or not.
    pub fn explain<'r>(
        &'r self,
        attributes: &impl Attributes,
    ) -> Vec<(&'r LimitConfig, Explanation<'r>)> {
        let request = RequestView::new(attributes);
        (0..self.limits.len())
            .map(|index| (&self.limits[index], self.explain_one(index, &request)))
            .collect()
    }

    /// Explains how the limit with this name applies to a request, whether or not its conditions
    /// hold.
    pub fn explain_named<'r>(
        &'r self,
        name: &str,
        attributes: &impl Attributes,
    ) -> Result<(&'r LimitConfig, Explanation<'r>), SelectError> {
        let index = self.index_of(name)?;
        Ok((
            &self.limits[index],
            self.explain_matched(index, &RequestView::new(attributes)),
        ))
    }

    fn explain_one<'r>(
        &'r self,
        index: usize,
        request: &RequestView<'_, impl Attributes>,
    ) -> Explanation<'r> {
        let mut conditions = self.limits[index].conditions.iter();
        if let Some(condition) = conditions.find(|condition| !request.satisfies(condition)) {
            return Explanation::not_matched(condition, request);
        }
        if let Err(error) = request.ensure_unambiguous(&self.limits[index]) {
            return Explanation::Invalid(error);
        }
        self.explain_matched(index, request)
    }

    /// Explains a limit without looking at its conditions.
    fn explain_matched<'r>(
        &'r self,
        index: usize,
        request: &RequestView<'_, impl Attributes>,
    ) -> Explanation<'r> {
        let limit = &self.limits[index];
        let demands = self.select_one(index, request, None, MissingKeyPolicy::Error);
        let demand = match demands.map(|demands| demands.into_iter().next()) {
            Err(error) => return Explanation::Invalid(error),
            Ok(None) => return Explanation::Skipped,
            Ok(Some(demand)) => demand,
        };

        let tiers = limit.tiers.as_ref();
        Explanation::Applies {
            parts: self.display_key(index, &demand.key).unwrap_or_default(),
            tier: tiers.map(|tiers| request.tier(tiers).0.to_owned()),
            path: request.matched_path(limit),
            demand,
        }
    }

    /// Determines the demands on one limit. None if the key is missing and that is not an error,
    /// and none if a shadow limit cannot count the request: it never refuses one.
    #[inline]
    fn select_one<'r>(
        &'r self,
        index: usize,
        request: &RequestView<'_, impl Attributes>,
        cost: Option<u64>,
        on_missing: MissingKeyPolicy,
    ) -> Result<LimitDemands<'r>, SelectError> {
        match self.demands(index, request, cost, on_missing) {
            Err(_) if self.limits[index].rule.is_shadow() => Ok(LimitDemands::new()),
            demands => demands,
        }
    }

    /// Determines the keys, cost and quota of one limit.
    #[inline]
    fn demands<'r>(
        &'r self,
        index: usize,
        request: &RequestView<'_, impl Attributes>,
        cost: Option<u64>,
        on_missing: MissingKeyPolicy,
    ) -> Result<LimitDemands<'r>, SelectError> {
        let limit = &self.limits[index];
        let keys = self.keys(limit, request, on_missing)?;
        if keys.is_empty() {
            return Ok(LimitDemands::new());
        }

        let cost = match &limit.cost {
            None => cost.unwrap_or(1),
            Some(limit_cost) => request
                .cost(limit_cost, cost)
                .map_err(|(attribute, found)| SelectError::Cost {
                    limit: limit.rule.name().to_string(),
                    attribute,
                    found,
                })?,
        };
        let quota = limit.tiers.as_ref().and_then(|tiers| request.tier(tiers).1);
        let demand = |key| Demand::new(&limit.rule, key).with_cost(cost);
        let demands = keys.into_iter().map(demand);
        Ok(demands
            .map(|demand| demand.with_quota(quota.copied()))
            .collect())
    }

    /// An error if an attribute that was read has more values than are read: the others could
    /// satisfy a condition or be the one that the backend uses. What only shadow limits use does
    /// not count: they never refuse a request.
    fn ensure_complete(
        &self,
        request: &RequestView<'_, impl Attributes>,
    ) -> Result<(), SelectError> {
        let is_enforced = |attribute: &&Attribute| {
            let mut enforced = self.limits.iter().filter(|limit| !limit.rule.is_shadow());
            enforced.any(|limit| limit.attributes().any(|used| used == *attribute))
        };

        match request.crowded.borrow().iter().find(is_enforced) {
            None => Ok(()),
            Some(attribute) => Err(SelectError::TooManyValues {
                attribute: attribute.to_string(),
            }),
        }
    }

    fn index_of(&self, name: &str) -> Result<usize, SelectError> {
        let index = self.index_by_name.get(name).copied();
        index.ok_or_else(|| self.unknown(name))
    }

    /// The error for a name that no limit has, with the names of the first limits.
    #[cold]
    fn unknown(&self, name: &str) -> SelectError {
        const SHOWN: usize = 8;
        let known = self.limits.iter().take(SHOWN);
        let known: Vec<&str> = known.map(|limit| limit.rule.name().as_str()).collect();
        let more = match self.limits.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        SelectError::UnknownLimit {
            found: name.chars().take(80).collect(),
            known: known.join(", ") + &more,
        }
    }
}

/// Refuses a cost that no counter can hold.
#[inline]
pub fn validate_cost(cost: Option<u64>) -> Result<(), SelectError> {
    match cost.filter(|cost| *cost > AMOUNT_MAX) {
        Some(found) => Err(SelectError::Amount { found }),
        None => Ok(()),
    }
}
