//! Concurrency limit: a bound on the units in flight per key. Each permit times out by itself, so
//! that a holder that crashed does not block the limit for good.

use std::time::Duration;

use super::entries::EntryTotals;
use super::outcome::Outcome;
use super::permits::Permits;
use crate::limit_error::{IN_FLIGHT_MAX, LimitError, validate_window};
use crate::time::Micros;

/// The parameters of a concurrency limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Concurrency {
    pub(crate) limit: u64,
    pub(crate) permit_timeout: Micros,
}

impl Concurrency {
    /// At most `limit` units in flight; a permit that is neither released nor renewed expires after
    /// `permit_timeout`.
    pub fn new(limit: u64, permit_timeout: Duration) -> Result<Self, LimitError> {
        if limit == 0 || limit > IN_FLIGHT_MAX {
            return Err(LimitError::InFlight { found: limit });
        }
        Ok(Self {
            limit,
            permit_timeout: validate_window(permit_timeout)?,
        })
    }

    /// The most units that may be in flight at the same time.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// How long a permit lasts without being renewed.
    pub const fn permit_timeout(&self) -> Micros {
        self.permit_timeout
    }

    /// The outcome of acquiring `cost` units at `now`. Prunes the permits.
    pub(crate) fn evaluate(&self, permits: &mut Permits, cost: u64, now: Micros) -> Outcome {
        permits.prune(now);
        let expiries = permits.entries().map(|entry| (entry.expires, entry.cost));
        let totals = EntryTotals::new(permits.sum(), self.limit, cost, expiries);
        self.spend(totals, cost, now).1
    }

    /// Acquires `cost` units if they fit. It is unknown when more will be left: permits end when
    /// they are released, which is hardly ever as late as they time out.
    pub(super) fn spend(
        &self,
        totals: EntryTotals,
        cost: u64,
        now: Micros,
    ) -> (EntryTotals, Outcome) {
        let (next, outcome) = totals.spend(self.limit, self.permit_timeout, cost, now);
        let more_after = Micros::ZERO;
        let outcome = Outcome {
            more_after,
            ..outcome
        };
        (next, outcome)
    }
}
