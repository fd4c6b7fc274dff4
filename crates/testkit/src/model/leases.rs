//! Concurrency: who holds how much, and until when.

use tollgate::PermitId;

use super::{Counter, SLACK};

#[derive(Clone, Debug)]
pub(super) struct Leases {
    pub(super) limit: i128,
    pub(super) lease: i128,
    held: Vec<Held>,
}

#[derive(Clone, Debug)]
struct Held {
    id: PermitId,
    cost: i128,
    /// How long the lease is, by the numbers it was taken or renewed with.
    length: i128,
    expires: i128,
}

impl Leases {
    pub(super) fn new(limit: i128, lease: i128) -> Self {
        Self {
            limit,
            lease,
            held: Vec::new(),
        }
    }

    /// Ends a lease; false when it has already ended.
    pub(super) fn release(&mut self, id: PermitId, now: i128) -> bool {
        self.see(now);
        let before = self.held.len();
        self.held.retain(|held| held.id != id);
        self.held.len() < before
    }

    /// Starts a lease's time again; false when it has already ended.
    pub(super) fn renew(&mut self, id: PermitId, now: i128) -> bool {
        self.see(now);
        let found = self.held.iter_mut().find(|held| held.id == id);
        found
            .map(|held| (held.length, held.expires) = (self.lease, now + self.lease))
            .is_some()
    }

    fn sum(&self, at: i128) -> i128 {
        self.held
            .iter()
            .filter(|held| held.expires > at)
            .map(|held| held.cost)
            .sum()
    }
}

impl Counter for Leases {
    fn see(&mut self, now: i128) {
        for held in self
            .held
            .iter_mut()
            .filter(|held| held.expires - (now + held.length) > SLACK)
        {
            held.expires = now + held.length;
        }
        self.held.retain(|held| held.expires > now);
    }

    fn fits(&self, cost: i128, at: i128) -> bool {
        self.sum(at) + cost <= self.limit
    }

    fn remaining(&self, at: i128) -> i128 {
        self.limit - self.sum(at)
    }

    fn is_fresh(&self, at: i128) -> bool {
        self.sum(at) == 0
    }

    fn add(&mut self, cost: i128, now: i128, lease: PermitId) {
        self.held.push(Held {
            id: lease,
            cost,
            length: self.lease,
            expires: now + self.lease,
        });
    }

    fn refund(&mut self, _: i128, _: i128) {}
}
