//! Places held under a concurrency limit.

use smallvec::SmallVec;

use super::failure::{Local, Settled};
use super::{Error, Limiter};
use crate::algorithm::PermitId;
use crate::decision::Decision;
use crate::store::{Demand, DemandBuf, StoreFuture};

/// The answer to a wish for a place.
#[derive(Debug)]
#[must_use = "a place that nobody keeps is given back at once"]
#[expect(
    clippy::large_enum_variant,
    reason = "a permit is made once per unit of work and not kept in numbers"
)]
pub enum Acquisition {
    /// Here it is.
    Held(Permit),
    /// There is none.
    Denied(Decision),
}

impl Acquisition {
    /// The permit, if there is one.
    pub fn permit(self) -> Option<Permit> {
        match self {
            Self::Held(permit) => Some(permit),
            Self::Denied(_) => None,
        }
    }

    /// The decision either way.
    pub fn decision(&self) -> &Decision {
        match self {
            Self::Held(permit) => permit.decision(),
            Self::Denied(decision) => decision,
        }
    }
}

/// A place under a concurrency limit. Dropping it gives the place back. One that a limit's failure
/// policy let through holds nothing.
#[derive(Debug)]
#[must_use = "a permit that is dropped gives its place back"]
pub struct Permit {
    limiter: Limiter,
    places: SmallVec<[DemandBuf; 1]>,
    lease: PermitId,
    decision: Decision,
    /// Where the places are, if not in the limiter's store.
    local: Option<Local>,
}

impl Permit {
    pub(super) fn new(limiter: &Limiter, checks: &[Demand<'_>], settled: Settled) -> Self {
        let Settled { decision, local } = settled;
        // Not what only looked, not what a shadow limit would have refused, and not what a policy
        // let through.
        let both = checks.iter().zip(decision.limits());
        let charged = both.filter(|(check, status)| check.needs_permit() && status.counts());
        let places = charged.map(|(check, _)| check.to_buf()).collect();
        let lease = decision.permit_id().unwrap_or(PermitId::NONE);
        Self {
            limiter: limiter.clone(),
            places,
            lease,
            decision,
            local,
        }
    }

    /// The decision that granted it.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Starts the lease's time again, for work that takes longer. False when the place was already
    /// lost.
    pub async fn renew(&self) -> Result<bool, Error> {
        let mut held = true;
        for place in &self.places {
            let check = place.as_demand();
            held &= match &self.local {
                Some(local) => local.renew(&check, self.lease),
                None => self
                    .limiter
                    .inner
                    .noted(self.limiter.inner.store.renew(&check, self.lease).await)?,
            };
        }
        Ok(held)
    }

    /// Gives the place back and waits until the store knows. False when it was already lost.
    pub async fn release(mut self) -> Result<bool, Error> {
        let mut held = true;
        while let Some(place) = self.places.last() {
            let answer = self.give_back(place).await;
            held &= self.limiter.inner.noted(answer)?;
            self.places.pop();
        }
        Ok(held)
    }

    fn give_back(&self, place: &DemandBuf) -> StoreFuture<'_, bool> {
        let check = place.as_demand();
        match &self.local {
            Some(local) => StoreFuture::ready(Ok(local.release(&check, self.lease))),
            None => self.limiter.inner.store.release(&check, self.lease),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        for place in &self.places {
            // A release takes effect even when nobody waits for its answer.
            drop(self.give_back(place));
        }
    }
}
