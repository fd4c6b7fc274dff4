//! The demands of a request, as callers give them: one limit, several limits, or a list.

use std::{fmt, slice};

use smallvec::SmallVec;

use super::error::Error;
use super::rules::Rules;
use crate::algorithm::Quota;
use crate::demand::{Demand, DemandBuf};
use crate::key::{EncodedKey, KeyBuffer, KeyError, ToKey};
use crate::limit::Rule;
use crate::store::DEMANDS_MAX;

/// The demands of a request: [`OneDemand`], [`DemandList`], or a reference to one demand or several.
/// This trait is sealed.
pub trait Demands<'a>: sealed::Sealed + Sized {
    /// Calls `then` with the demands as stores take them, or returns what is wrong with them.
    #[doc(hidden)]
    fn with<T>(
        &self,
        rules: &Rules,
        then: impl FnOnce(&[Demand<'_>]) -> Result<T, Error>,
    ) -> Result<T, Error>;
}

/// Demands that are added one by one.
pub trait ExtendDemands<'a>: Demands<'a> {
    /// Sets the cost of all demands added so far.
    #[doc(hidden)]
    fn set_cost(&mut self, cost: u64);

    /// Changes the demand added last.
    #[doc(hidden)]
    fn set_last(&mut self, cost: Option<u64>, quota: Option<Quota>);

    /// Converts the request so that more limits can be added.
    #[doc(hidden)]
    fn into_list(self) -> DemandList<'a>;
}

mod sealed {
    /// Prevents other implementations.
    pub trait Sealed {}
    impl<K> Sealed for super::OneDemand<'_, K> {}
    impl Sealed for super::DemandList<'_> {}
    impl<K> Sealed for &super::Demand<'_, K> {}
    impl Sealed for &[super::Demand<'_, super::EncodedKey>] {}
    impl Sealed for &[super::DemandBuf] {}
}

/// What is wrong with a demand, until the request is checked.
#[derive(Clone, Copy, Debug)]
enum DemandError<'a> {
    UnknownLimit(&'a str),
    Key(&'a Rule, KeyError),
}

impl DemandError<'_> {
    #[cold]
    fn into_error(self, rules: &Rules) -> Error {
        match self {
            Self::UnknownLimit(name) => rules.unknown(name),
            Self::Key(limit, source) => Error::Key {
                limit: limit.name().to_string(),
                source,
            },
        }
    }
}

/// A request for one limit and one key: the usual case, which copies nothing before the decision.
pub struct OneDemand<'a, K> {
    /// The demand, or the name for which there is no limit.
    demand: Result<Demand<'a, K>, &'a str>,
}

impl<'a, K: ToKey> OneDemand<'a, K> {
    #[inline]
    pub(super) fn new(limit: Result<&'a Rule, &'a str>, key: K) -> Self {
        Self {
            demand: limit.map(|limit| Demand::new(limit, key)),
        }
    }
}

/// Omits the key, because it can identify a person.
impl<K> fmt::Debug for OneDemand<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.demand.as_ref().map(|demand| demand.limit.name());
        f.debug_struct("OneDemand")
            .field("limit", &limit)
            .finish_non_exhaustive()
    }
}

impl<'a, K: ToKey> Demands<'a> for OneDemand<'a, K> {
    #[inline(always)]
    fn with<T>(
        &self,
        rules: &Rules,
        then: impl FnOnce(&[Demand<'_>]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match &self.demand {
            Ok(demand) => with_one(demand, rules, then),
            Err(name) => Err(rules.unknown(name)),
        }
    }
}

impl<'a, K: ToKey> Demands<'a> for &'a Demand<'a, K> {
    #[inline(always)]
    fn with<T>(
        &self,
        rules: &Rules,
        then: impl FnOnce(&[Demand<'_>]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        with_one(self, rules, then)
    }
}

impl<'a, K: ToKey> ExtendDemands<'a> for OneDemand<'a, K> {
    #[inline]
    fn set_cost(&mut self, cost: u64) {
        if let Ok(demand) = &mut self.demand {
            demand.cost = cost;
        }
    }

    fn set_last(&mut self, cost: Option<u64>, quota: Option<Quota>) {
        if let Ok(demand) = &mut self.demand {
            demand.cost = cost.unwrap_or(demand.cost);
            demand.quota = quota.or(demand.quota);
        }
    }

    fn into_list(self) -> DemandList<'a> {
        let mut list = DemandList::default();
        list.add(self);
        list
    }
}

/// A request for several limits, each with a key of its own.
#[derive(Debug, Default)]
pub struct DemandList<'a> {
    demands: SmallVec<[Demand<'a, EncodedKey>; 4]>,
    /// The first mistake.
    error: Option<DemandError<'a>>,
}

impl<'a> DemandList<'a> {
    pub(super) fn add<K: ToKey>(&mut self, OneDemand { demand }: OneDemand<'a, K>) {
        let demand = demand
            .map_err(DemandError::UnknownLimit)
            .and_then(|demand| {
                let key = EncodedKey::new(&demand.key)
                    .map_err(|error| DemandError::Key(demand.limit, error))?;
                Ok(Demand::new(demand.limit, key)
                    .with_cost(demand.cost)
                    .with_quota(demand.quota))
            });

        match demand {
            // One demand too many is enough to reject the request, so no more are kept.
            Ok(demand) if self.demands.len() <= DEMANDS_MAX => self.demands.push(demand),
            Ok(_) => {}
            Err(error) => _ = self.error.get_or_insert(error),
        }
    }
}

impl<'a> Demands<'a> for DemandList<'a> {
    fn with<T>(
        &self,
        rules: &Rules,
        then: impl FnOnce(&[Demand<'_>]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match self.error {
            Some(error) => Err(error.into_error(rules)),
            None => with_list(&self.demands, then),
        }
    }
}

impl<'a> ExtendDemands<'a> for DemandList<'a> {
    fn set_cost(&mut self, cost: u64) {
        for demand in &mut self.demands {
            demand.cost = cost;
        }
    }

    fn set_last(&mut self, cost: Option<u64>, quota: Option<Quota>) {
        if let Some(demand) = self.demands.last_mut() {
            demand.cost = cost.unwrap_or(demand.cost);
            demand.quota = quota.or(demand.quota);
        }
    }

    fn into_list(self) -> DemandList<'a> {
        self
    }
}

impl<'a> Demands<'a> for &'a [Demand<'a, EncodedKey>] {
    #[inline]
    fn with<T>(
        &self,
        rules: &Rules,
        then: impl FnOnce(&[Demand<'_>]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match self {
            // The usual case.
            [demand] => with_one(demand, rules, then),
            _ => with_list(self, then),
        }
    }
}

/// Demands that have been checked.
impl<'a> Demands<'a> for &'a [DemandBuf] {
    fn with<T>(
        &self,
        _: &Rules,
        then: impl FnOnce(&[Demand<'_>]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let demands: SmallVec<[Demand<'_>; 4]> = self.iter().map(DemandBuf::as_demand).collect();
        then(&demands)
    }
}

/// Calls `then` with one demand, unless its key is invalid or its quota does not fit its limit.
#[inline(always)]
fn with_one<T, K: ToKey>(
    demand: &Demand<'_, K>,
    rules: &Rules,
    then: impl FnOnce(&[Demand<'_>]) -> Result<T, Error>,
) -> Result<T, Error> {
    if !demand.has_shape_of_limit() {
        return Err(quota_mismatch(demand));
    }

    let mut buffer = KeyBuffer::new();
    match demand.encode(&mut buffer) {
        // Borrowed, because copying values that were just written stalls the processor.
        Ok(demand) => then(slice::from_ref(&demand)),
        Err(error) => Err(DemandError::Key(demand.limit, error).into_error(rules)),
    }
}

/// Calls `then` with the demands, unless there are too many, two on the same counter, or one with a
/// quota that does not fit its limit.
fn with_list<T>(
    list: &[Demand<'_, EncodedKey>],
    then: impl FnOnce(&[Demand<'_>]) -> Result<T, Error>,
) -> Result<T, Error> {
    if list.len() > DEMANDS_MAX {
        return Err(Error::TooManyLimits);
    }

    let mut demands: SmallVec<[Demand<'_>; 4]> = SmallVec::new();
    for demand in list {
        if !demand.has_shape_of_limit() {
            return Err(quota_mismatch(demand));
        }
        let demand = demand.as_demand();
        if demands.iter().any(|other| other.key == demand.key) {
            return Err(duplicate_limit(demand.limit));
        }
        demands.push(demand);
    }
    then(&demands)
}

#[cold]
fn quota_mismatch<K>(demand: &Demand<'_, K>) -> Error {
    Error::QuotaMismatch {
        limit: demand.limit.name().to_string(),
        expected: demand.limit.quota().algorithm(),
        found: demand.quota().algorithm(),
    }
}

#[cold]
fn duplicate_limit(limit: &Rule) -> Error {
    Error::DuplicateLimit {
        limit: limit.name().to_string(),
    }
}
