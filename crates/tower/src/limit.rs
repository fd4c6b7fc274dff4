//! One limit of a layer: which requests it applies to, under which key, at which cost, and how the
//! response changes the cost.

use std::any::Any;
use std::sync::Arc;

use tollgate::{Demand, EncodedKey, KeyError, KeyParts, LeakyMode, Quota, Rule};

use crate::by::{ClientAddress, KeyExtractor, MissingKey};
use crate::rejection::RejectionCause;
use crate::request_head::RequestHead;
use crate::response::ResponseHead;

/// A function of the request.
pub(crate) type RequestFn<T> = Arc<dyn Fn(&RequestHead<'_>) -> T + Send + Sync>;
/// A function of the response.
pub(crate) type ResponseFn<T> = Arc<dyn Fn(&ResponseHead<'_>) -> T + Send + Sync>;

/// One limit of a layer.
#[derive(Clone)]
pub(crate) struct LayerLimit {
    /// The limit. Its position is its index in the layer.
    pub(crate) rule: Rule,
    key: Arc<dyn KeyExtractor>,
    /// The key, if it is the address of the peer. Most keys are, so it is not called dynamically.
    peer_key: Option<ClientAddress>,
    /// Which requests the limit applies to; `None` for all.
    pub(crate) when: Option<RequestFn<bool>>,
    /// What a request costs before its response is known; `None` for 1.
    pub(crate) cost: Option<RequestFn<u64>>,
    /// The quota for a request, in place of the limit's own.
    pub(crate) quota: Option<RequestFn<Option<Quota>>>,
    /// Which responses make a request free.
    pub(crate) refund_when: Option<ResponseFn<bool>>,
    pub(crate) settle: SettlementRule,
}

/// How the final cost of an admitted request becomes known.
#[derive(Clone)]
pub(crate) enum SettlementRule {
    /// The cost charged at admission is final.
    Never,
    /// The response head determines the cost; `None` leaves the estimate.
    ByResponse(ResponseFn<Option<u64>>),
    /// The application reports the cost before the response body ends.
    ByActualCost,
}

/// A demand by the index of its limit in the layer, for what outlives the borrow of the layer.
#[derive(Clone, Debug)]
pub(crate) struct OwnedDemand {
    pub(crate) limit_index: usize,
    pub(crate) key: EncodedKey,
    pub(crate) cost: u64,
    pub(crate) quota: Option<Quota>,
}

impl LayerLimit {
    pub(crate) fn new(rule: &Rule, key: impl KeyExtractor) -> Self {
        let address = (&key as &dyn Any).downcast_ref::<ClientAddress>();
        let peer_key = address.filter(|address| address.is_peer()).cloned();
        Self {
            rule: *rule,
            key: Arc::new(key),
            peer_key,
            when: None,
            cost: None,
            quota: None,
            refund_when: None,
            settle: SettlementRule::Never,
        }
    }

    /// Whether a request may have to wait for this limit, or needs a permit that must be released.
    pub(crate) fn may_wait(&self) -> bool {
        match self.rule.quota() {
            Quota::Concurrency(_) => true,
            Quota::LeakyBucket(bucket) => bucket.mode() == LeakyMode::Queue,
            _ => false,
        }
    }

    /// Whether the response may change what the request has cost.
    pub(crate) const fn depends_on_response(&self) -> bool {
        self.refund_when.is_some() || self.is_estimated()
    }

    /// Whether the cost at admission is an estimate. Permits are held, not settled.
    #[inline]
    pub(crate) const fn is_estimated(&self) -> bool {
        !matches!(self.settle, SettlementRule::Never) && !self.has_permits()
    }

    /// Whether every request that the limit applies to takes one unit of the limit's own quota.
    pub(crate) const fn takes_one_unit(&self) -> bool {
        self.cost.is_none() && self.quota.is_none() && !self.is_estimated()
    }

    /// Whether this is a concurrency limit.
    pub(crate) const fn has_permits(&self) -> bool {
        matches!(self.rule.quota(), Quota::Concurrency(_))
    }

    /// What a request asks of this limit; `None` if the limit does not apply to it.
    pub(crate) fn encoded_demand(
        &self,
        head: &RequestHead<'_>,
    ) -> Result<Option<Demand<'_, EncodedKey>>, Box<RejectionCause>> {
        let mut parts = KeyParts::default();
        if !self.write_key(head, &mut parts)? {
            return Ok(None);
        }
        let key = EncodedKey::new(&parts).map_err(|source| self.invalid_key(source))?;
        Ok(Some(self.demand(head, key)))
    }

    /// Writes the key of a request. Returns false if the limit does not apply to the request.
    #[inline]
    pub(crate) fn write_key(
        &self,
        head: &RequestHead<'_>,
        parts: &mut KeyParts,
    ) -> Result<bool, Box<RejectionCause>> {
        if self.when.as_ref().is_some_and(|applies| !applies(head)) {
            return Ok(false);
        }
        let peer_key = self.peer_key.as_ref();
        if peer_key.is_some_and(|address| address.try_write_peer(head, parts)) {
            return Ok(true);
        }
        match self.key.extract(head, parts) {
            Ok(()) => Ok(true),
            Err(missing) => without_key(missing),
        }
    }

    /// What a request with this key asks of the limit.
    #[inline]
    pub(crate) fn demand<K>(&self, head: &RequestHead<'_>, key: K) -> Demand<'_, K> {
        let cost = self.cost.as_ref().map_or(1, |cost| cost(head));
        let quota = self.quota.as_ref().and_then(|quota| quota(head));
        let mut demand = Demand {
            limit: &self.rule,
            key,
            cost,
            quota,
        };
        if self.is_estimated() {
            demand.cost = demand.reserved_cost();
        }
        demand
    }

    #[cold]
    pub(crate) fn invalid_key(&self, source: KeyError) -> Box<RejectionCause> {
        Box::new(RejectionCause::InvalidKey {
            limit: *self.rule.name(),
            source,
        })
    }
}

/// What becomes of a request without a key: the limit does not apply to it, or it is rejected.
#[cold]
fn without_key(missing: MissingKey) -> Result<bool, Box<RejectionCause>> {
    let cause = match missing {
        MissingKey::Skip => return Ok(false),
        MissingKey::Reject {
            status,
            description,
        } => RejectionCause::MissingKey {
            status,
            description,
        },
        MissingKey::Ambiguous { description } => RejectionCause::AmbiguousKey { description },
        MissingKey::Misconfigured { reason } => RejectionCause::Misconfigured { reason },
    };
    Err(Box::new(cause))
}

impl OwnedDemand {
    /// Copies a demand with the parts of its key, or returns why they are no key.
    pub(crate) fn from_parts(demand: &Demand<'_, &KeyParts>) -> Result<Self, KeyError> {
        Ok(Self {
            limit_index: demand.limit.position(),
            key: EncodedKey::new(demand.key)?,
            cost: demand.cost,
            quota: demand.quota,
        })
    }
}

impl From<Demand<'_, EncodedKey>> for OwnedDemand {
    fn from(demand: Demand<'_, EncodedKey>) -> Self {
        Self {
            limit_index: demand.limit.position(),
            key: demand.key,
            cost: demand.cost,
            quota: demand.quota,
        }
    }
}
