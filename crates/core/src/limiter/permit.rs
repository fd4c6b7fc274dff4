//! Places held under a concurrency limit.

use super::selection::Selection;
use super::{Error, Limiter};
use crate::algorithm::{LeaseId, Quota};
use crate::decision::Decision;
use crate::store::Checks;

/// The answer to a wish for a place.
#[derive(Debug)]
#[must_use = "a place that nobody keeps is given back at once"]
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
    checks: Checks,
    lease: LeaseId,
    decision: Decision,
}

impl Permit {
    pub(super) fn new(selection: Selection<'_>, lease: LeaseId, decision: Decision) -> Self {
        let limiter = selection.limiter().clone();
        let in_flight = selection.checks().iter().filter(|check| matches!(check.quota, Quota::Concurrency(_)));
        Self { limiter, checks: in_flight.cloned().collect(), lease, decision }
    }

    /// The decision that granted it.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Starts the lease's time again, for work that takes longer. False when the place was already lost.
    pub async fn renew(&self) -> Result<bool, Error> {
        let mut held = true;
        for check in &self.checks {
            held &= self.limiter.inner.store.renew(check, self.lease).await?;
        }
        Ok(held)
    }

    /// Gives the place back and waits until the store knows. False when it was already lost.
    pub async fn release(mut self) -> Result<bool, Error> {
        let mut held = true;
        for check in &std::mem::take(&mut self.checks) {
            held &= self.limiter.inner.store.release(check, self.lease).await?;
        }
        Ok(held)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        for check in &self.checks {
            // A release takes effect even when nobody waits for its answer.
            drop(self.limiter.inner.store.release(check, self.lease));
        }
    }
}
