//! Turns a request's descriptors into demands that are decided together.

use smallvec::SmallVec;
use tollgate::store::DEMANDS_MAX;
use tollgate::{Demand, EncodedKey};
use tollgate_envoy::{RateLimitDescriptor, RateLimitRequest};
use tollgate_gate::ActiveConfig;
use tollgate_rules::{MissingKeyPolicy, SelectError, Selection, validate_cost};

use super::descriptor::DescriptorAttributes;
use super::error::GrpcError;
use super::overrides::{self, Override};

/// Everything a request asks for.
#[derive(Debug, Default)]
pub(super) struct RequestPlan<'r> {
    /// At most one per counter.
    pub(super) demands: Selection<'r>,
    /// Demands to refund, at most one per counter. Each is also in `demands`, with a cost of 0, so
    /// that the response reports its limit.
    pub(super) refunds: Selection<'r>,
    /// One per descriptor, in their order.
    pub(super) descriptors: SmallVec<[DescriptorPlan; 2]>,
    /// Why an entry with a number of tokens is ignored: no limit counts this kind.
    pub(super) unknown_tokens: Option<SelectError>,
    /// Indices of the demands that only ask whether a unit is left.
    peeks: SmallVec<[u16; 2]>,
}

/// What one descriptor asks for.
#[derive(Debug, Default)]
pub(super) struct DescriptorPlan {
    /// Indices into the demands of the request.
    pub(super) demands: SmallVec<[u16; 8]>,
    /// The override of this descriptor, if it allows 0 requests.
    pub(super) zero_limit: Option<Override>,
}

/// What a descriptor's hits do to the limits it selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HitsAction {
    /// Charge this cost, or the limit's own if none is given.
    Charge(Option<u64>),
    /// Ask whether a unit is left.
    Peek,
    /// Refund this cost, or the limit's own if none is given.
    Refund(Option<u64>),
}

impl HitsAction {
    /// The hits of a descriptor take precedence and may be 0. Those of the request are 0 when they
    /// are not set.
    fn new(request: &RateLimitRequest, descriptor: &RateLimitDescriptor) -> Self {
        let of_request = || {
            Some(request.hits_addend)
                .filter(|cost| *cost > 0)
                .map(u64::from)
        };

        match (descriptor.hits_addend, descriptor.is_negative_hits) {
            (Some(0), false) => Self::Peek,
            (own, false) => Self::Charge(own.or_else(of_request)),
            (own, true) => Self::Refund(own.or_else(of_request)),
        }
    }

    const fn cost(self) -> Option<u64> {
        match self {
            Self::Charge(cost) | Self::Refund(cost) => cost,
            Self::Peek => Some(0),
        }
    }
}

impl<'r> RequestPlan<'r> {
    pub(super) fn new(
        active: &'r ActiveConfig,
        request: &RateLimitRequest,
    ) -> Result<Self, GrpcError> {
        let mut plan = Self::default();

        for descriptor in &request.descriptors {
            let attributes = DescriptorAttributes::new(&request.domain, descriptor);
            let action = HitsAction::new(request, descriptor);
            validate_cost(action.cost())?;
            let unknown = descriptor.entries.iter().find_map(|entry| {
                let kind = entry.key.strip_prefix("tokens.")?;
                active.selector.token_kinds().find(kind).err()
            });
            plan.unknown_tokens = plan.unknown_tokens.or(unknown);
            let mut own = DescriptorPlan::default();

            match &descriptor.limit {
                None => {
                    let cost = action.cost();
                    let selector = &active.selector;
                    for demand in selector.select(&attributes, cost, MissingKeyPolicy::Skip)? {
                        own.demands.push(plan.add(demand, action)?);
                    }
                }
                Some(limit) => {
                    let limit = Override::decode(limit)?;
                    match overrides::demand(active, &attributes, limit, action.cost())? {
                        Some(demand) => own.demands.push(plan.add(demand, action)?),
                        None => own.zero_limit = Some(limit),
                    }
                }
            }
            plan.descriptors.push(own);
        }
        Ok(plan)
    }

    /// Fails if an entry has tokens that no limit counts: an amount that is known afterwards must
    /// not be lost.
    pub(super) fn require_known_tokens(&self) -> Result<(), GrpcError> {
        match &self.unknown_tokens {
            None => Ok(()),
            Some(error) => Err(error.clone().into()),
        }
    }

    /// True when a descriptor has an override of 0 requests: the request is denied whatever the
    /// other limits decide.
    pub(super) fn has_zero_limit(&self) -> bool {
        self.descriptors
            .iter()
            .any(|descriptor| descriptor.zero_limit.is_some())
    }

    /// True when nothing is charged.
    pub(super) fn is_free(&self) -> bool {
        self.demands.iter().all(|demand| demand.cost == 0)
    }

    /// The demands with a cost of at least 1 where a descriptor asks whether a unit is left. None
    /// when no descriptor does.
    pub(super) fn demands_with_peeks(&self) -> Option<Selection<'r>> {
        if self.peeks.is_empty() {
            return None;
        }

        let mut demands = self.demands.clone();
        for index in &self.peeks {
            let demand = &mut demands[usize::from(*index)];
            demand.cost = demand.cost.max(1);
        }
        Some(demands)
    }

    /// Adds a demand, or merges it with the one on the same counter. Returns its index.
    fn add(
        &mut self,
        mut demand: Demand<'r, EncodedKey>,
        action: HitsAction,
    ) -> Result<u16, GrpcError> {
        match action {
            HitsAction::Charge(_) => {}
            // The limit may configure a cost of its own, which does not apply here.
            HitsAction::Peek => demand.cost = 0,
            HitsAction::Refund(_) => {
                let free = demand.clone().with_cost(0);
                merge(&mut self.refunds, std::mem::replace(&mut demand, free));
            }
        }

        let index = merge(&mut self.demands, demand);
        let index = u16::try_from(index).ok();
        // Which descriptors are sent, and what they match, depends on the client's headers.
        let Some(index) = index.filter(|index| usize::from(*index) < DEMANDS_MAX) else {
            let reason = format_args!(
                "the descriptors match more than {DEMANDS_MAX} limits; send fewer descriptors, or \
                 narrow the conditions of the limits"
            );
            return Err(GrpcError::denied("too-many-limits", reason));
        };
        if action == HitsAction::Peek {
            self.peeks.push(index);
        }
        Ok(index)
    }
}

/// Adds a demand, or merges it with the one on the same counter: costs add up, and of two quotas
/// the stricter one applies. Returns its index.
fn merge<'r>(demands: &mut Selection<'r>, demand: Demand<'r, EncodedKey>) -> usize {
    let is_same = |other: &Demand<'r, EncodedKey>| {
        other.limit.position() == demand.limit.position() && other.key == demand.key
    };
    let Some(index) = demands.iter().position(is_same) else {
        demands.push(demand);
        return demands.len() - 1;
    };

    let merged = &mut demands[index];
    merged.cost = merged.cost.saturating_add(demand.cost);
    if let (Some(one), Some(other)) = (merged.quota, demand.quota) {
        merged.quota = Some(if other.limit() < one.limit() {
            other
        } else {
            one
        });
    }
    index
}
