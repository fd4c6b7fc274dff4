//! Places held under a concurrency limit.

use smallvec::SmallVec;

use super::{Error, Limiter};
use crate::algorithm::{LeaseId, Quota};
use crate::decision::Decision;
use crate::store::{Check, CheckBuf};

/// The answer to a wish for a place.
#[derive(Debug)]
#[must_use = "a place that nobody keeps is given back at once"]
#[expect(
    clippy::large_enum_variant,
    reason = "a permit is made once per unit of work and not kept in numbers"
)]
pub enum Acquired {
    /// Here it is.
    Held(Permit),
    /// There is none.
    Denied(Decision),
}

impl Acquired {
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

/// A place under a concurrency limit. Dropping it gives the place back.
#[derive(Debug)]
#[must_use = "a permit that is dropped gives its place back"]
pub struct Permit {
    limiter: Limiter,
    places: SmallVec<[CheckBuf; 1]>,
    lease: LeaseId,
    decision: Decision,
}

impl Permit {
    pub(super) fn new(limiter: &Limiter, checks: &[Check<'_>], lease: LeaseId, decision: Decision) -> Self {
        // Not what only looked, and not what a shadow limit would have refused.
        let charged = checks.iter().zip(decision.limits()).filter(|(check, status)| {
            matches!(check.quota, Quota::Concurrency(_)) && check.cost > 0 && status.retry().is_none()
        });
        let places = charged.map(|(check, _)| check.to_buf()).collect();
        Self { limiter: limiter.clone(), places, lease, decision }
    }

    /// The decision that granted it.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Starts the lease's time again, for work that takes longer. False when the place was already lost.
    pub async fn renew(&self) -> Result<bool, Error> {
        let mut held = true;
        for place in &self.places {
            held &= self.limiter.inner.store.renew(&place.as_check(), self.lease).await?;
        }
        Ok(held)
    }

    /// Gives the place back and waits until the store knows. False when it was already lost.
    pub async fn release(mut self) -> Result<bool, Error> {
        let mut held = true;
        while let Some(place) = self.places.last() {
            held &= self.limiter.inner.store.release(&place.as_check(), self.lease).await?;
            self.places.pop();
        }
        Ok(held)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        for place in &self.places {
            // A release takes effect even when nobody waits for its answer.
            drop(self.limiter.inner.store.release(&place.as_check(), self.lease));
        }
    }
}
