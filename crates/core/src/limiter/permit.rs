//! Permits of concurrency limits.

use std::sync::Arc;

use smallvec::SmallVec;

use super::engine::Engine;
use super::error::Error;
use crate::algorithm::PermitId;
use crate::decision::Decision;
use crate::demand::{Demand, DemandBuf};
use crate::store::StoreFuture;

/// The result of acquiring a permit: see [`Limiter::acquire`](crate::Limiter::acquire).
#[derive(Debug)]
#[must_use = "a permit is released when it is dropped"]
#[expect(
    clippy::large_enum_variant,
    reason = "a permit is created once per unit of work and not stored in large numbers"
)]
pub enum Acquisition {
    /// The permit was acquired.
    Acquired(Permit),
    /// The request was denied.
    Denied(Decision),
}

impl Acquisition {
    /// The permit; `None` if the request was denied.
    pub fn permit(self) -> Option<Permit> {
        match self {
            Self::Acquired(permit) => Some(permit),
            Self::Denied(_) => None,
        }
    }

    /// The decision that granted or denied the permit.
    pub fn decision(&self) -> &Decision {
        match self {
            Self::Acquired(permit) => permit.decision(),
            Self::Denied(decision) => decision,
        }
    }
}

/// A slot of a concurrency limit, released when dropped. If the request covers several concurrency
/// limits, the permit holds a slot of each.
///
/// A permit that was allowed by [`FailurePolicy::Allow`](crate::FailurePolicy::Allow) while the
/// store was unavailable holds no slot.
#[derive(Debug)]
#[must_use = "a permit is released when it is dropped"]
pub struct Permit {
    engine: Arc<Engine>,
    /// The demands that hold a slot.
    demands: SmallVec<[DemandBuf; 1]>,
    id: PermitId,
    decision: Decision,
}

impl Permit {
    pub(super) fn new(engine: &Arc<Engine>, demands: &[Demand<'_>], decision: Decision) -> Self {
        // Demands with cost 0, shadow limits that deny and limits whose fallback is to allow hold
        // no slot.
        let pairs = demands.iter().zip(decision.limits());
        let held = pairs.filter(|(demand, limit)| demand.needs_permit() && limit.is_charged());
        let demands = held.map(|(demand, _)| demand.to_buf()).collect();

        Self {
            engine: engine.clone(),
            demands,
            id: decision.permit_id().unwrap_or(PermitId::NONE),
            decision,
        }
    }

    /// The decision that granted the permit.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Restarts the permit timeout, for work that takes longer. Returns false if the permit has
    /// already timed out.
    pub async fn renew(&self) -> Result<bool, Error> {
        let engine = &self.engine;
        let mut is_held = true;

        for demand in &self.demands {
            let demand = demand.as_demand();
            let store = engine.charged_store(demand.limit, &self.decision);
            let renewed = store.renew(&demand, self.id).await;
            is_held &= renewed.map_err(|error| engine.record_error(error, &[demand]))?;
        }
        Ok(is_held)
    }

    /// Releases the permit and waits until the store confirms it. Returns false if the permit had
    /// already timed out.
    pub async fn release(mut self) -> Result<bool, Error> {
        let mut was_held = true;
        while let Some(demand) = self.demands.last() {
            let result = self.release_one(demand).await;
            let demands = [demand.as_demand()];
            was_held &= result.map_err(|error| self.engine.record_error(error, &demands))?;
            self.demands.pop();
        }
        Ok(was_held)
    }

    fn release_one(&self, demand: &DemandBuf) -> StoreFuture<'_, bool> {
        let demand = demand.as_demand();
        let store = self.engine.charged_store(demand.limit, &self.decision);
        store.release(&demand, self.id)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        for demand in &self.demands {
            // A release takes effect even if its future is dropped.
            drop(self.release_one(demand));
        }
    }
}
