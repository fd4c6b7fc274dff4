//! One limit of a layer: which requests it applies to, under which key, at which cost, and how the
//! response changes the cost.

use std::fmt;
use std::sync::Arc;

use tollgate::{EncodedKey, Error, KeyError, LeakyMode, Limiter, Quota};

use crate::by::{KeyExtractor, MissingKey};
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
    pub(crate) name: Arc<str>,
    key: Arc<dyn KeyExtractor>,
    /// Which requests the limit applies to; `None` for all.
    pub(crate) when: Option<RequestFn<bool>>,
    pub(crate) cost: CostRule,
    /// The quota for a request, in place of the limit's own.
    pub(crate) quota: Option<RequestFn<Option<Quota>>>,
    /// Which responses make a request free.
    pub(crate) refund_when: Option<ResponseFn<bool>>,
    pub(crate) settle: SettlementRule,
    pub(crate) kind: LimitKind,
}

/// What a request costs, before its response is known.
#[derive(Clone)]
pub(crate) enum CostRule {
    Fixed(u64),
    ByRequest(RequestFn<u64>),
}

/// How the final cost of an admitted request becomes known.
#[derive(Clone)]
pub(crate) enum SettlementRule {
    /// The cost charged at admission is final.
    Never,
    /// The response head determines the cost; `None` leaves it as charged.
    ByResponse(ResponseFn<Option<u64>>),
    /// The application reports the cost before the response body ends.
    ByActualCost,
}

/// How the layer must check a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitKind {
    /// The limit allows or denies a request without waiting.
    Rate,
    /// The request may have to wait in the queue.
    Queue,
    /// The request needs a permit, which must be released.
    Concurrency,
}

/// What one request asks of one limit of the layer.
#[derive(Clone, Debug)]
pub(crate) struct LayerDemand {
    /// The position of the limit in the policy.
    pub(crate) limit_index: usize,
    pub(crate) key: EncodedKey,
    pub(crate) cost: u64,
    /// The quota in place of the limit's own. Boxed because it is large and rare.
    pub(crate) quota: Option<Box<Quota>>,
}

impl LayerLimit {
    pub(crate) fn new(
        limiter: &Limiter,
        name: &str,
        key: impl KeyExtractor,
    ) -> Result<Self, Error> {
        let kind = match limiter.rule(name)?.quota() {
            Quota::Concurrency(_) => LimitKind::Concurrency,
            Quota::LeakyBucket(bucket) if bucket.mode() == LeakyMode::Queue => LimitKind::Queue,
            _ => LimitKind::Rate,
        };

        Ok(Self {
            name: name.into(),
            key: Arc::new(key),
            when: None,
            cost: CostRule::Fixed(1),
            quota: None,
            refund_when: None,
            settle: SettlementRule::Never,
            kind,
        })
    }

    /// Whether the response may change what the request has cost.
    pub(crate) const fn depends_on_response(&self) -> bool {
        self.refund_when.is_some() || !matches!(self.settle, SettlementRule::Never)
    }

    /// What a request asks of this limit, which is at position `limit_index` in the policy; `None`
    /// if the limit does not apply to the request.
    #[inline]
    pub(crate) fn demand(
        &self,
        limit_index: usize,
        head: &RequestHead<'_>,
    ) -> Result<Option<LayerDemand>, Box<RejectionCause>> {
        if self.when.as_ref().is_some_and(|applies| !applies(head)) {
            return Ok(None);
        }

        let mut missing = None;
        let key = EncodedKey::from_writer(|parts| missing = self.key.extract(head, parts).err());
        if let Some(missing) = missing {
            // Without a cause for rejection, the limit does not apply to the request.
            return rejection_cause(missing).map_or(Ok(None), |cause| Err(Box::new(cause)));
        }
        let key = key.map_err(|error| self.invalid_key(&error))?;

        let cost = match &self.cost {
            CostRule::Fixed(cost) => *cost,
            CostRule::ByRequest(cost) => cost(head),
        };
        let quota = self.quota.as_ref().and_then(|quota| quota(head));
        Ok(Some(LayerDemand {
            limit_index,
            key,
            cost,
            quota: quota.map(Box::new),
        }))
    }

    #[cold]
    fn invalid_key(&self, error: &KeyError) -> Box<RejectionCause> {
        Box::new(RejectionCause::InvalidKey {
            limit: self.name.clone(),
            reason: error.to_string(),
        })
    }
}

/// Why a request without a key is rejected; `None` if the limit is skipped instead.
fn rejection_cause(missing: MissingKey) -> Option<RejectionCause> {
    match missing {
        MissingKey::Skip => None,
        MissingKey::Reject {
            status,
            description,
        } => Some(RejectionCause::MissingKey {
            status,
            description,
        }),
        MissingKey::Misconfigured { reason } => Some(RejectionCause::Misconfigured { reason }),
    }
}

/// Leaves out the functions, which have nothing to show.
impl fmt::Debug for LayerLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayerLimit")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
