//! All or nothing over the parts of a request.
//!
//! Some requests cannot be spent in one step: local and shared limits, leases and the store, the
//! slots of a cluster, the counters of an outage. Their demands are split into parts, each of which
//! one backend spends in one step. The parts are spent in order. Once a part denies, the later ones
//! are only peeked at, and the charges of the earlier ones are undone. Until then, other requests
//! may be denied that would have been allowed, but no request is allowed that should have been
//! denied. A later limit with a lockout still counts its own denial.

use std::future::Future;

use smallvec::SmallVec;

use super::{Intent, SpendReply, StoreError, StoreFuture};
use crate::algorithm::{CounterView, Outcome, PermitId};
use crate::demand::{Demand, DemandBuf};
use crate::store::Source;
use crate::time::Micros;

/// Spends the demands of one part in one step.
pub trait Part: Send {
    /// Spends or peeks at the demands, all or none.
    fn spend<'p>(
        &'p mut self,
        demands: &'p [Demand<'p>],
        intent: Intent,
        permit_id: PermitId,
    ) -> impl Future<Output = Result<SpendReply, StoreError>> + Send + 'p;

    /// Takes back what [`spend`](Self::spend) has charged, without waiting: what takes longer
    /// happens in the background. Returns the reply as it would be for a peek.
    fn undo(
        &mut self,
        demands: &[Demand<'_>],
        reply: &SpendReply,
        intent: Intent,
        permit_id: PermitId,
    ) -> SpendReply;
}

/// The parts of a request. If it is dropped before the request is decided, what the parts have
/// charged is undone.
#[derive(Debug)]
pub struct PartList<P: Part> {
    parts: SmallVec<[PartState<P>; 2]>,
    permit_id: PermitId,
}

#[derive(Debug)]
struct PartState<P> {
    part: P,
    /// The demands, each with its index in the request.
    demands: SmallVec<[(usize, DemandBuf); 4]>,
    reply: Option<SpendReply>,
    /// How the part was charged, until the whole request is decided.
    charged: Option<Intent>,
}

impl<P: Part> PartList<P> {
    /// A request without parts. Its permits are taken under `permit_id`.
    pub fn new(permit_id: PermitId) -> Self {
        Self {
            parts: SmallVec::new(),
            permit_id,
        }
    }

    /// Adds a part with its demands and their indexes in the request, to be spent after the parts
    /// added so far.
    pub fn push<'d>(
        &mut self,
        part: P,
        demands: impl IntoIterator<Item = (usize, &'d Demand<'d>)>,
    ) {
        let demands = demands.into_iter();
        self.parts.push(PartState {
            part,
            demands: demands
                .map(|(index, demand)| (index, demand.to_buf()))
                .collect(),
            reply: None,
            charged: None,
        });
    }

    /// Spends or peeks at all parts. The result is ready if no part has to wait.
    pub fn spend<'a>(self, intent: Intent) -> StoreFuture<'a, SpendReply>
    where
        P: 'a,
    {
        StoreFuture::start(self.run(intent))
    }

    async fn run(mut self, intent: Intent) -> Result<SpendReply, StoreError> {
        let permit_id = self.permit_id;
        let mut is_allowed = true;

        for state in &mut self.parts {
            let demands: SmallVec<[Demand<'_>; 4]> = borrow(&state.demands).collect();
            let has_lockout = demands
                .iter()
                .any(|demand| demand.limit.lockout().is_some());
            let intent = match intent {
                Intent::Spend | Intent::Reserve { .. } if !is_allowed && has_lockout => {
                    Intent::Refuse
                }
                Intent::Spend | Intent::Reserve { .. } if !is_allowed => Intent::Peek,
                intent => intent,
            };
            let reply = state.part.spend(&demands, intent, permit_id).await?;

            let is_denied = reply.is_denied(&demands);
            let is_charged = intent.is_charge() && (!is_denied || intent == Intent::Count);
            state.charged = is_charged.then_some(intent);
            state.reply = Some(reply);
            is_allowed &= !is_denied;
        }

        if is_allowed || intent == Intent::Count {
            self.commit();
        } else {
            self.undo();
        }
        Ok(self.merge())
    }

    fn commit(&mut self) {
        for state in &mut self.parts {
            state.charged = None;
        }
    }

    fn undo(&mut self) {
        for state in &mut self.parts {
            let Some(intent) = state.charged.take() else {
                continue;
            };
            let demands: SmallVec<[Demand<'_>; 4]> = borrow(&state.demands).collect();
            if let Some(reply) = &mut state.reply {
                *reply = state.part.undo(&demands, reply, intent, self.permit_id);
            }
        }
    }

    /// The outcomes of all parts, in the order of the request.
    fn merge(&mut self) -> SpendReply {
        let mut rows: SmallVec<[(usize, (Outcome, Source)); 4]> = SmallVec::new();
        let mut counters: Vec<(usize, CounterView)> = Vec::new();
        let mut at = Micros::ZERO;

        for state in &mut self.parts {
            let Some(reply) = state.reply.take() else {
                continue;
            };
            at = at.max(reply.at);
            let indexes = state.demands.iter().map(|(index, _)| *index);
            counters.extend(indexes.clone().zip(reply.counters));
            rows.extend(indexes.zip(reply.outcomes));
        }

        rows.sort_unstable_by_key(|(index, _)| *index);
        // The counters of some demands would be taken for those of others.
        if counters.len() < rows.len() {
            counters.clear();
        }
        counters.sort_unstable_by_key(|(index, _)| *index);
        SpendReply {
            outcomes: rows.into_iter().map(|(_, outcome)| outcome).collect(),
            counters: counters.into_iter().map(|(_, counter)| counter).collect(),
            at,
        }
    }
}

fn borrow(demands: &[(usize, DemandBuf)]) -> impl Iterator<Item = Demand<'_>> {
    demands.iter().map(|(_, demand)| demand.as_demand())
}

/// Undoes the charges of a request whose caller no longer waits, or that failed.
impl<P: Part> Drop for PartList<P> {
    fn drop(&mut self) {
        self.undo();
    }
}

#[cfg(test)]
mod tests;
