//! Decisions without a store call: units leased from a shared store in advance, and cached denials.
//!
//! This is for stores on the network. An instance leases a batch of a key's units with one store
//! call and spends them locally. The store counts leased units as spent, so that all instances
//! together never allow more than the limit. A denial is cached until it can change, so that an
//! attack does not become load on the store.
//!
//! | consistency | bound for any interval s, with any number of instances | decided |
//! |---|---|---|
//! | [`Strict`](Consistency::Strict) | the bound of the algorithm | at the store |
//! | [`Leased`](Consistency::Leased) | the same: at most capacity + rate x s | locally, prepaid |
//! | [`Eventual`](Consistency::Eventual) | the same plus N x q | locally, reported later |
//!
//! Here N is the number of instances, and q = [`quantum`]`(limit, expected replicas)` is a tenth of
//! the limit divided by the expected replicas. Under eventual consistency an instance reports to
//! the store within 50 ms what it has spent.
//!
//! **Why leases never exceed the limit.** The store keeps, next to a bucket's level, how many units
//! are lent out, and refills the bucket only up to the capacity minus those: level + lent <=
//! capacity. Time adds at most the rate to that sum, every allowed request takes from it, and
//! returning a lease moves units from one side to the other. The units of an instance that crashed
//! count as spent, which is safe once their lease has certainly expired: an instance stops spending
//! a lease after nine tenths of its length, counted from the moment *before* it sent the call,
//! while the store counts the lease for at least its whole length, by generations. In a window,
//! units count as spent when they are leased, and the lease expires with the window.
//!
//! **How much is lent.** The store lends by what is left, see [`LeaseTerms`].
//!
//! This module owns what an instance holds and knows, and the rules by which it leases, keeps and
//! returns units. It makes no store calls and has no tasks. A store first calls
//! [`LeaseTable::spend`], makes the [`LeaseCall`]s that it returns, and sweeps for idle units every
//! [`SWEEP_EVERY`].

mod call;
mod entry;
mod pending;
mod policy;
mod request;
mod shard;
mod table;

pub use call::{LeaseCall, LeaseOutcome};
pub use pending::{CallCompletion, PendingCall};
pub use policy::{LeaseTerms, SWEEP_EVERY, TURN_MAX, quantum};
pub use request::{CallFailure, LeaseGrant, LeaseRequest};
pub use table::{LeaseStep, LeaseTable};

#[cfg(doc)]
use crate::consistency::Consistency;

#[cfg(test)]
mod tests;
