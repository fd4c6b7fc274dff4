//! Concurrency: at most so many units in flight per key. Each holder has a lease that runs out by
//! itself, so that one that dies frees its place.

use std::fmt;
use std::time::Duration;

use super::outcome::{Outcome, Verdict};
use super::{CLOCK_SLACK, window};
use crate::limit::LimitError;
use crate::time::Micros;

/// The most that may be in flight for one key. Every holder is remembered, so this bounds memory
/// too.
pub const IN_FLIGHT_MAX: u64 = 65_536;

/// The numbers of a concurrency limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Concurrency {
    pub(crate) limit: u64,
    pub(crate) permit_timeout: Micros,
}

/// Names one holder among all holders of all replicas.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PermitId(u128);

impl PermitId {
    /// Stands where no lease is taken.
    pub const NONE: Self = Self(0);

    /// A lease known by this number, which must be unguessable where strangers can release leases.
    pub const fn new(id: u128) -> Self {
        Self(id)
    }

    /// The number.
    pub const fn get(self) -> u128 {
        self.0
    }
}

impl fmt::Debug for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PermitId(..)")
    }
}

/// One holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) id: PermitId,
    pub(crate) cost: u64,
    /// How long the lease is, which may not be what the limit says by now.
    pub(crate) length: Micros,
    pub(crate) expires: Micros,
}

impl Held {
    /// A lease that begins now.
    pub(crate) fn new(id: PermitId, cost: u64, length: Micros, now: Micros) -> Self {
        Self {
            id,
            cost,
            length,
            expires: now.after(length),
        }
    }
}

/// The holders of one key, soonest to expire first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Permits {
    held: Vec<Held>,
}

impl Concurrency {
    /// At most `limit` units in flight; a holder that does not come back frees its place after
    /// `lease`.
    pub fn new(limit: u64, permit_timeout: Duration) -> Result<Self, LimitError> {
        if limit == 0 || limit > IN_FLIGHT_MAX {
            return Err(LimitError::InFlight { found: limit });
        }
        Ok(Self {
            limit,
            permit_timeout: window(permit_timeout)?,
        })
    }

    /// The most that may be in flight at once.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// How long a holder keeps its place without a word.
    pub const fn permit_timeout(&self) -> Micros {
        self.permit_timeout
    }

    /// What would happen to `cost` now. The leases must have been [settled](Self::settle) at the
    /// same moment.
    pub(crate) fn look(&self, leases: &Permits, cost: u64, now: Micros) -> Outcome {
        let sum = leases.sum();
        let verdict = if cost > self.limit {
            Verdict::Never
        } else if cost == 0 || cost <= self.limit.saturating_sub(sum) {
            Verdict::ALLOW
        } else {
            let retry_after = leases
                .frees_at(sum.saturating_add(cost).saturating_sub(self.limit))
                .since(now);
            Verdict::Deny { retry_after }
        };
        let taken = if verdict.is_allowed() { cost } else { 0 };
        let last = if taken > 0 {
            leases.full_at().max(now.after(self.permit_timeout))
        } else {
            leases.full_at()
        };
        Outcome {
            verdict,
            limit: self.limit,
            remaining: self.limit.saturating_sub(sum.saturating_add(taken)),
            reset_after: last.since(now),
        }
    }

    /// Forgets leases that have run out, and pulls in those stamped before the clock was set back.
    pub(crate) fn settle(leases: &mut Permits, now: Micros) {
        let mut pulled_in = false;
        leases.held.retain_mut(|held| {
            let latest = now.after(held.length);
            if held.expires.since(latest) > CLOCK_SLACK {
                held.expires = latest;
                pulled_in = true;
            }
            held.expires > now
        });
        if pulled_in {
            leases.held.sort_by_key(|held| held.expires);
        }
    }
}

impl Permits {
    /// Units in flight.
    pub(crate) fn sum(&self) -> u64 {
        self.held
            .iter()
            .fold(0, |sum, held| sum.saturating_add(held.cost))
    }

    /// The holders, soonest to expire first.
    pub(crate) fn held(&self) -> impl ExactSizeIterator<Item = Held> + '_ {
        self.held.iter().copied()
    }

    /// Adds a holder that was found to fit.
    pub(crate) fn push(&mut self, held: Held) {
        let at = self
            .held
            .partition_point(|other| other.expires <= held.expires);
        self.held.insert(at, held);
    }

    /// Takes a holder out; `None` when its lease has already run out or been released.
    pub(crate) fn take(&mut self, id: PermitId) -> Option<Held> {
        let at = self.held.iter().position(|held| held.id == id)?;
        Some(self.held.remove(at))
    }

    /// The moment at which the last lease runs out.
    pub(crate) fn full_at(&self) -> Micros {
        self.held.last().map_or(Micros::ZERO, |held| held.expires)
    }

    /// The moment at which the leases that have run out make `missing` units of room.
    fn frees_at(&self, mut missing: u64) -> Micros {
        let last = self.held.iter().find(|held| {
            missing = missing.saturating_sub(held.cost);
            missing == 0
        });
        last.map_or(Micros::ZERO, |held| held.expires)
    }
}
