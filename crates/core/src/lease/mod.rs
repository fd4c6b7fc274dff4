//! Decisions without a trip: units taken from a shared store in advance, and denials it has given.
//!
//! For stores that must travel. A process takes a batch of units of a key in one trip and spends
//! them here; what it holds counts as spent at the store, so that all processes together never pass
//! more than the limit. A denial is believed until it can change, so that an attack does not become
//! load on the store.
//!
//! | consistency | promise for any interval s, with any number of processes | decided |
//! |---|---|---|
//! | [`Strict`](Consistency::Strict) | what the algorithm promises | at the store |
//! | [`Leased`](Consistency::Leased) | the same: admitted <= capacity + rate x s | here, from prepaid units |
//! | [`Eventual`](Consistency::Eventual) | the same and N x q more, N processes running | here, told within 50 ms |
//!
//! with q = [`quantum`]`(limit, expected replicas)`, a tenth of the limit shared among those
//! expected.
//!
//! **Why leased is never above.** The store keeps, beside a bucket's level, how many units are out,
//! and refills only up to the capacity less those: level + out <= capacity. Time adds at most the
//! rate to that sum, every admission takes from it, and giving back moves units from one side to
//! the other. What a process that died held counts as spent when it has certainly ended: a process
//! stops spending a lease 900 ms after the moment *before* it asked, the store counts it for a
//! second at least, by generations. In a window units count as spent when they are taken, and end
//! with the window.
//!
//! This module owns what a process knows and holds, and the rules by which it takes, keeps and
//! returns. It makes no trips and has no tasks: a store asks it first ([`LeaseTable::spend`]), makes
//! the [`LeaseCall`]s it is handed, and looks for idle units every [`SWEEP_EVERY`].

mod call;
mod entry;
mod pace;
mod pending;
mod shard;
mod table;

pub use call::{CallFailure, CallPurpose, LeaseCall, LeaseGrant, LeaseRequest};
pub use pace::{HOLD_MOST, SWEEP_EVERY, quantum};
pub use pending::{CallCompletion, PendingCall};
pub use table::{LeaseOutcome, LeaseStep, LeaseTable};

#[cfg(doc)]
use crate::consistency::Consistency;

#[cfg(test)]
mod tests;
