//! A discrete-event simulation of many replicas on one store: the real lease table of every
//! replica, the model of the store, and a faulty network and faulty clocks.
//!
//! A run is determined by its [`Plan`] alone, and a plan by its seed: nothing here reads a clock or
//! starts a thread. Messages are delayed, reordered, and lost in either direction; replicas crash,
//! shut down, restart and pause; clocks run fast and slow; the store loses its data; another client
//! counts units at the store, which may leave it in debt. What was admitted, and when in true time,
//! is then compared with what the limit allows.

mod arrivals;
mod audit;
mod clock;
mod events;
mod lifecycle;
mod plan;
mod replica;
mod schedule;
mod world;

pub use audit::Audit;
pub use plan::{Faults, Load, Plan};
pub use world::{Run, run};

#[cfg(test)]
mod tests;
