//! What a request names: which limits, with which keys, numbers and costs.

use std::fmt;

use smallvec::{SmallVec, smallvec};

use super::{Error, Limiter};
use crate::algorithm::Quota;
use crate::key::{Encoded, KeyError, Parts, PartsBuf, ToKey};
use crate::limit::Rule;
use crate::store::{DEMANDS_MAX, Demand};

/// The limits a request names, ready to become checks.
pub trait Demands<'a>: Sized {
    /// Makes the checks and hands them on, each beside its rule.
    #[doc(hidden)]
    fn with<T>(
        &self,
        limiter: &'a Limiter,
        then: impl FnOnce(&[&'a Rule], &[Demand<'_>]) -> Result<T, Error>,
    ) -> Result<T, Error>;

    /// Sets the cost of every check named so far.
    #[doc(hidden)]
    fn set_cost(&mut self, cost: u64);

    /// The check named last.
    #[doc(hidden)]
    fn last(&mut self) -> Option<&mut DemandOptions>;

    /// The same request with room for more limits.
    #[doc(hidden)]
    fn into_many(self) -> DemandList<'a>;
}

/// The rule of a limit, or the name that has none.
pub(super) type Found<'a> = Result<&'a Rule, &'a str>;

/// How a limit is to be checked, apart from the key.
#[derive(Clone, Copy, Debug)]
pub struct DemandOptions {
    pub(super) cost: u64,
    pub(super) quota: Option<Quota>,
}

impl DemandOptions {
    const PLAIN: Self = Self {
        cost: 1,
        quota: None,
    };

    /// The numbers to use: those of the call if they fit the rule, else the rule's own.
    #[inline]
    fn quota<'q>(&'q self, rule: &'q Rule) -> Result<&'q Quota, Error> {
        numbers(rule, self.quota.as_ref())
    }
}

/// The numbers to use: those of the call if they fit the rule, else the rule's own.
#[inline]
pub(super) fn numbers<'q>(rule: &'q Rule, quota: Option<&'q Quota>) -> Result<&'q Quota, Error> {
    let Some(quota) = quota else {
        return Ok(rule.quota());
    };
    if quota.shape() == rule.quota().shape() {
        Ok(quota)
    } else {
        Err(other_shape(rule, quota))
    }
}

#[cold]
fn other_shape(rule: &Rule, quota: &Quota) -> Error {
    let (expected, found) = (rule.quota().algorithm(), quota.algorithm());
    Error::QuotaMismatch {
        limit: rule.name().to_string(),
        expected,
        found,
    }
}

/// One limit and one key: the usual case, which copies nothing until the decision.
pub struct OneDemand<'a, K> {
    rule: Found<'a>,
    key: K,
    wish: DemandOptions,
}

impl<'a, K: ToKey> OneDemand<'a, K> {
    #[inline]
    pub(super) const fn new(rule: Found<'a>, key: K) -> Self {
        Self {
            rule,
            key,
            wish: DemandOptions::PLAIN,
        }
    }
}

/// Without the key, which names a person.
impl<K> fmt::Debug for OneDemand<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.rule.map(|rule| rule.name().to_string());
        f.debug_struct("OneDemand")
            .field("limit", &limit)
            .field("wish", &self.wish)
            .finish_non_exhaustive()
    }
}

impl<'a, K: ToKey> Demands<'a> for OneDemand<'a, K> {
    #[inline(always)]
    fn with<T>(
        &self,
        limiter: &'a Limiter,
        then: impl FnOnce(&[&'a Rule], &[Demand<'_>]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let rule = self.rule.or_else(|name| limiter.rule(name))?;
        let mut buffer = Encoded::new();
        let parts = Parts::of(&self.key, &mut buffer).map_err(|source| key_error(rule, source))?;
        let check = rule.demand_with(parts, self.wish.quota(rule)?, self.wish.cost);
        then(&[rule], &[check])
    }

    #[inline]
    fn set_cost(&mut self, cost: u64) {
        self.wish.cost = cost;
    }

    fn last(&mut self) -> Option<&mut DemandOptions> {
        Some(&mut self.wish)
    }

    fn into_many(self) -> DemandList<'a> {
        let mut many = DemandList { named: smallvec![] };
        many.add(&self);
        many
    }
}

/// Several limits, each with a key of its own.
#[derive(Debug, Default)]
pub struct DemandList<'a> {
    named: SmallVec<[Named<'a>; 4]>,
}

#[derive(Debug)]
struct Named<'a> {
    rule: Found<'a>,
    parts: Result<PartsBuf, KeyError>,
    wish: DemandOptions,
}

impl<'a> DemandList<'a> {
    pub(super) fn add<K: ToKey>(&mut self, one: &OneDemand<'a, K>) {
        // One too many is enough to be refused.
        if self.named.len() <= DEMANDS_MAX {
            let parts = Parts::of(&one.key, &mut Encoded::new()).map(Parts::to_buf);
            self.named.push(Named {
                rule: one.rule,
                parts,
                wish: one.wish,
            });
        }
    }
}

impl<'a> Demands<'a> for DemandList<'a> {
    fn with<T>(
        &self,
        limiter: &'a Limiter,
        then: impl FnOnce(&[&'a Rule], &[Demand<'_>]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.named.len() > DEMANDS_MAX {
            return Err(Error::TooManyLimits);
        }
        let mut rules: SmallVec<[&Rule; 4]> = smallvec![];
        let mut checks: SmallVec<[Demand<'_>; 4]> = smallvec![];
        for named in &self.named {
            let rule = named.rule.or_else(|name| limiter.rule(name))?;
            let parts = named
                .parts
                .as_ref()
                .map_err(|source| key_error(rule, *source))?;
            let check =
                rule.demand_with(parts.as_parts(), named.wish.quota(rule)?, named.wish.cost);
            if checks.iter().any(|other| other.key == check.key) {
                return Err(duplicate(rule));
            }
            rules.push(rule);
            checks.push(check);
        }
        then(&rules, &checks)
    }

    fn set_cost(&mut self, cost: u64) {
        self.named
            .iter_mut()
            .for_each(|named| named.wish.cost = cost);
    }

    fn last(&mut self) -> Option<&mut DemandOptions> {
        self.named.last_mut().map(|named| &mut named.wish)
    }

    fn into_many(self) -> DemandList<'a> {
        self
    }
}

#[cold]
pub(super) fn duplicate(rule: &Rule) -> Error {
    Error::DuplicateLimit {
        limit: rule.name().to_string(),
    }
}

#[cold]
fn key_error(rule: &Rule, cause: KeyError) -> Error {
    Error::Key {
        limit: rule.name().to_string(),
        cause,
    }
}
