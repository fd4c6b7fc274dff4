//! Concurrency limit: a bound on the units in flight per key. Each permit times out by itself, so
//! that a holder that crashed does not block the limit for good.

use std::fmt;
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

/// Identifies a permit among all permits of all replicas.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PermitId(u128);

impl PermitId {
    /// The id for requests that acquire no permit.
    pub const NONE: Self = Self(0);

    /// A permit with this number. It must be unguessable where untrusted clients can release
    /// permits.
    pub const fn new(id: u128) -> Self {
        Self(id)
    }

    /// The number.
    pub const fn get(self) -> u128 {
        self.0
    }
}

/// Hides the number, which lets anyone release the permit.
impl fmt::Debug for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PermitId(..)")
    }
}

/// One acquired permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PermitEntry {
    pub(crate) id: PermitId,
    pub(crate) cost: u64,
    /// The timeout with which the permit was acquired or renewed. The limit's own timeout may have
    /// changed since.
    pub(crate) timeout: Micros,
    pub(crate) expires: Micros,
}

impl PermitEntry {
    /// A permit whose timeout starts now.
    pub(crate) fn new(id: PermitId, cost: u64, timeout: Micros, now: Micros) -> Self {
        Self {
            id,
            cost,
            timeout,
            expires: now.after(timeout),
        }
    }
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
        totals.spend(self.limit, self.permit_timeout, cost, now).1
    }
}
