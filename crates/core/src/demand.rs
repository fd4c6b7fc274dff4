//! A demand: one limit, one key, a cost, and perhaps another quota.
//!
//! A front builds it once, and it travels unchanged to the store. A request is a list of demands
//! that pass together or not at all.

use crate::algorithm::Quota;
use crate::key::{EncodedKey, Key, KeyBuffer, KeyError, Parts, PartsBuf, ToKey};
use crate::limit::Rule;

/// What a request asks of one counter: the limit by its handle, a key and a cost, and perhaps
/// another quota, such as that of the caller's tier.
///
/// Callers build a demand with an [`EncodedKey`] or any other [`ToKey`] type; stores get it with an
/// encoded [`Key`].
///
/// ```
/// use std::time::Duration;
/// use tollgate::store::Intent;
/// use tollgate::{Demand, EncodedKey, Limit, Limiter};
///
/// let limit = Limit::sliding_log("api", 100, Duration::from_secs(60)).validate()?;
/// let limiter = Limiter::in_memory([])?;
///
/// let demands = [Demand::new(&limit, EncodedKey::new("user:42")?).with_cost(5)];
/// let decision = limiter.request(&demands, Intent::Spend).try_now()?;
/// assert_eq!(decision.remaining(), 95);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a, K = Key<'a>> {
    /// The limit.
    pub limit: &'a Rule,
    /// Identifies the counter among those of the limit.
    pub key: K,
    /// Units to spend. Cost 0 only reads the counter.
    pub cost: u64,
    /// A quota in place of the limit's own, with the same algorithm and window.
    pub quota: Option<Quota>,
}

impl<'a, K> Demand<'a, K> {
    /// A demand of one unit by the limit's own quota.
    #[inline]
    pub const fn new(limit: &'a Rule, key: K) -> Self {
        Self {
            limit,
            key,
            cost: 1,
            quota: None,
        }
    }

    /// The same demand with another cost.
    #[must_use]
    #[inline]
    pub fn with_cost(self, cost: u64) -> Self {
        Self { cost, ..self }
    }

    /// The same demand with another quota, or with the limit's own if there is none.
    #[must_use]
    #[inline]
    pub fn with_quota(self, quota: Option<Quota>) -> Self {
        Self { quota, ..self }
    }

    /// What the counter allows.
    #[inline]
    pub fn quota(&self) -> &Quota {
        self.quota.as_ref().unwrap_or_else(|| self.limit.quota())
    }

    /// True when the quota has the limit's algorithm and window, which give the counter's state its
    /// meaning.
    #[inline]
    pub(crate) fn has_shape_of_limit(&self) -> bool {
        self.quota
            .as_ref()
            .is_none_or(|quota| quota.shape() == self.limit.quota().shape())
    }

    /// True when the demand takes a permit, which must be released, if the request is allowed.
    #[inline]
    pub fn needs_permit(&self) -> bool {
        self.is_permit() && self.cost > 0
    }

    /// True when the demand is on a concurrency limit.
    #[inline]
    pub fn is_permit(&self) -> bool {
        matches!(self.quota(), Quota::Concurrency(_))
    }

    /// The same demand with its key encoded, as stores take it.
    #[inline(always)]
    pub(crate) fn with_parts<'s>(&self, parts: Parts<'s>) -> Demand<'s>
    where
        'a: 's,
    {
        Demand {
            limit: self.limit,
            key: Key::new(self.limit.prefix(), parts),
            cost: self.cost,
            // Through a reference, so that a demand without a quota copies only the tag: reading all
            // bytes of a value whose tag was just written stalls the processor.
            quota: self.quota.as_ref().copied(),
        }
    }
}

impl<K: ToKey> Demand<'_, K> {
    /// The same demand with its key encoded into `buffer` if necessary, as stores take it.
    #[inline(always)]
    pub(crate) fn encode<'s>(&'s self, buffer: &'s mut KeyBuffer) -> Result<Demand<'s>, KeyError> {
        Parts::from_key(&self.key, buffer).map(|parts| self.with_parts(parts))
    }
}

impl<K> Demand<'_, K> {
    /// The units that a reservation takes: the cost, or the largest share of the limit that one
    /// reservation may take.
    pub fn reserved_cost(&self) -> u64 {
        self.limit.reserved_units(self.quota(), self.cost)
    }

    /// The same demand with the [units that a reservation takes](Self::reserved_cost).
    #[must_use]
    pub fn reserved(self) -> Self {
        let cost = self.reserved_cost();
        Self { cost, ..self }
    }
}

impl Demand<'_, EncodedKey> {
    /// Borrows the demand in the form that stores take.
    #[inline]
    pub fn as_demand(&self) -> Demand<'_> {
        self.with_parts(self.key.as_parts())
    }
}

impl Demand<'_> {
    /// Copies the limit and the key, for a demand that outlives them.
    pub fn to_buf(&self) -> DemandBuf {
        DemandBuf {
            limit: *self.limit,
            parts: self.key.parts().to_buf(),
            cost: self.cost,
            quota: self.quota,
        }
    }
}

/// A [`Demand`] that owns its limit and its key.
#[derive(Clone, Debug)]
pub struct DemandBuf {
    /// The limit.
    pub limit: Rule,
    parts: PartsBuf,
    /// Units to spend. Cost 0 only reads the counter.
    pub cost: u64,
    /// A quota in place of the limit's own, with the same algorithm and window.
    pub quota: Option<Quota>,
}

impl DemandBuf {
    /// A demand by the limit's own quota, or why the key is invalid.
    pub fn new(limit: &Rule, key: impl ToKey, cost: u64) -> Result<Self, KeyError> {
        let mut buffer = KeyBuffer::new();
        let demand = Demand::new(limit, key).with_cost(cost);
        Ok(demand.encode(&mut buffer)?.to_buf())
    }

    /// The same demand with another cost.
    #[must_use]
    pub fn with_cost(self, cost: u64) -> Self {
        Self { cost, ..self }
    }

    /// What the counter allows.
    pub fn quota(&self) -> &Quota {
        self.quota.as_ref().unwrap_or_else(|| self.limit.quota())
    }

    /// Borrows the demand in the form that stores take.
    pub fn as_demand(&self) -> Demand<'_> {
        Demand {
            limit: &self.limit,
            key: Key::new(self.limit.prefix(), self.parts.as_parts()),
            cost: self.cost,
            quota: self.quota,
        }
    }
}
