//! Many processes on one store, simulated event by event: the real lease table of every process,
//! the model of the store, and a network and clocks that do what networks and clocks do.
//!
//! A run follows from its [`Plan`] alone, and a plan from its seed: nothing here reads a clock or
//! starts a thread. Messages are delayed, overtake each other, and are lost on the way there or on
//! the way back; processes crash, leave, start anew and are stopped for a while; clocks run fast
//! and slow; the store forgets everything. What was let through, and when in true time, is then
//! held against what the limit promises.

mod arrivals;
mod audit;
mod clock;
mod events;
mod lives;
mod plan;
mod replica;
mod schedule;
mod world;

pub use audit::Audit;
pub use plan::{Faults, Load, Plan};
pub use world::{Run, run};

#[cfg(test)]
mod tests;
