//! The demands of a request: which limits, with which keys, quotas and costs.

use std::fmt;

use smallvec::{SmallVec, smallvec};

use super::{Error, Limiter};
use crate::algorithm::Quota;
use crate::key::{KeyBuffer, KeyError, Parts, PartsBuf, ToKey};
use crate::limit::Rule;
use crate::store::{DEMANDS_MAX, Demand};

/// The limits and keys of a request: [`OneDemand`] or [`DemandList`].
pub trait Demands<'a>: Sized {
    /// Calls `then` with the demands and the rule of each, or returns what is wrong with them.
    #[doc(hidden)]
    fn with<T>(
        &self,
        limiter: &'a Limiter,
        then: impl FnOnce(&[&'a Rule], &[Demand<'_>]) -> Result<T, Error>,
    ) -> Result<T, Error>;

    /// Sets the cost of all demands added so far.
    #[doc(hidden)]
    fn set_cost(&mut self, cost: u64);

    /// The options of the demand added last.
    #[doc(hidden)]
    fn last_options(&mut self) -> Option<&mut DemandOptions>;

    /// Converts the request so that more limits can be added.
    #[doc(hidden)]
    fn into_list(self) -> DemandList<'a>;
}

/// The rule of a limit, or the name for which there is no valid limit.
pub(super) type RuleLookup<'a> = Result<&'a Rule, &'a str>;

/// The cost and quota of a demand.
#[derive(Clone, Copy, Debug)]
pub struct DemandOptions {
    pub(super) cost: u64,
    /// A quota other than the limit's own.
    pub(super) quota: Option<Quota>,
}

impl DemandOptions {
    const DEFAULT: Self = Self {
        cost: 1,
        quota: None,
    };

    /// The quota to use: that of the call if it has one, else the rule's own.
    #[inline]
    fn quota<'q>(&'q self, rule: &'q Rule) -> Result<&'q Quota, Error> {
        let Some(quota) = self.quota.as_ref() else {
            return Ok(rule.quota());
        };
        if quota.shape() == rule.quota().shape() {
            Ok(quota)
        } else {
            Err(quota_mismatch(rule, quota))
        }
    }
}

#[cold]
fn quota_mismatch(rule: &Rule, quota: &Quota) -> Error {
    Error::QuotaMismatch {
        limit: rule.name().to_string(),
        expected: rule.quota().algorithm(),
        found: quota.algorithm(),
    }
}

/// A request for one limit and one key: the usual case, which copies nothing before the decision.
pub struct OneDemand<'a, K> {
    rule: RuleLookup<'a>,
    key: K,
    options: DemandOptions,
}

impl<'a, K: ToKey> OneDemand<'a, K> {
    #[inline]
    pub(super) const fn new(rule: RuleLookup<'a>, key: K) -> Self {
        Self {
            rule,
            key,
            options: DemandOptions::DEFAULT,
        }
    }
}

/// Omits the key, because it can identify a person.
impl<K> fmt::Debug for OneDemand<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.rule.map(|rule| rule.name().to_string());
        f.debug_struct("OneDemand")
            .field("limit", &limit)
            .field("options", &self.options)
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

        let mut buffer = KeyBuffer::new();
        let parts =
            Parts::from_key(&self.key, &mut buffer).map_err(|error| invalid_key(rule, error))?;

        let demand = rule.demand_with(parts, self.options.quota(rule)?, self.options.cost);
        then(&[rule], &[demand])
    }

    #[inline]
    fn set_cost(&mut self, cost: u64) {
        self.options.cost = cost;
    }

    fn last_options(&mut self) -> Option<&mut DemandOptions> {
        Some(&mut self.options)
    }

    fn into_list(self) -> DemandList<'a> {
        let mut list = DemandList::default();
        list.add(&self);
        list
    }
}

/// A request for several limits, each with a key of its own.
#[derive(Debug, Default)]
pub struct DemandList<'a> {
    demands: SmallVec<[ListedDemand<'a>; 4]>,
}

/// A demand of a [`DemandList`]. Its limit and key are validated when the request is checked.
#[derive(Debug)]
struct ListedDemand<'a> {
    rule: RuleLookup<'a>,
    parts: Result<PartsBuf, KeyError>,
    options: DemandOptions,
}

impl<'a> DemandList<'a> {
    pub(super) fn add<K: ToKey>(&mut self, demand: &OneDemand<'a, K>) {
        // One demand too many is enough to reject the request, so no more are kept.
        if self.demands.len() <= DEMANDS_MAX {
            let parts = Parts::from_key(&demand.key, &mut KeyBuffer::new()).map(Parts::to_buf);
            self.demands.push(ListedDemand {
                rule: demand.rule,
                parts,
                options: demand.options,
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
        if self.demands.len() > DEMANDS_MAX {
            return Err(Error::TooManyLimits);
        }

        let mut rules: SmallVec<[&Rule; 4]> = smallvec![];
        let mut demands: SmallVec<[Demand<'_>; 4]> = smallvec![];
        for ListedDemand {
            rule,
            parts,
            options,
        } in &self.demands
        {
            let rule = rule.or_else(|name| limiter.rule(name))?;
            let parts = parts.as_ref().map_err(|error| invalid_key(rule, *error))?;
            let demand = rule.demand_with(parts.as_parts(), options.quota(rule)?, options.cost);
            if demands.iter().any(|other| other.key == demand.key) {
                return Err(duplicate_limit(rule));
            }

            rules.push(rule);
            demands.push(demand);
        }

        then(&rules, &demands)
    }

    fn set_cost(&mut self, cost: u64) {
        for demand in &mut self.demands {
            demand.options.cost = cost;
        }
    }

    fn last_options(&mut self) -> Option<&mut DemandOptions> {
        self.demands.last_mut().map(|demand| &mut demand.options)
    }

    fn into_list(self) -> DemandList<'a> {
        self
    }
}

#[cold]
fn duplicate_limit(rule: &Rule) -> Error {
    Error::DuplicateLimit {
        limit: rule.name().to_string(),
    }
}

#[cold]
fn invalid_key(rule: &Rule, cause: KeyError) -> Error {
    Error::Key {
        limit: rule.name().to_string(),
        cause,
    }
}
