//! Faults that the store survives. Each row of the fault table is a test that prints six figures
//! and asserts their bounds.
//!
//! - `fault_row` is a row of the table. Only one row runs at a time.
//! - `load` checks limits all the time, `recording_store` records what happened to each store call,
//!   and `noise` measures the delays that the machine adds.
//! - `subjects` are the limits and keys that are checked, `record` is the result of a load, and
//!   `observer` reads the counters on the servers.
//! - `figures` and `admission` compute the figures.
//! - `process`, `refusals`, `network`, `availability` and `cluster` are the groups of rows.
//! - `switchover` has several instances, which go from one primary to another.
//! - `exact` has a single caller, so that the charged units are known exactly.
//!
//! Rows that take long are ignored here and run by `cargo xtask faults`.

mod admission;
mod availability;
mod cluster;
mod exact;
mod fault_row;
mod figures;
mod load;
mod network;
mod noise;
mod observer;
mod process;
mod record;
mod recording_store;
mod refusals;
mod subjects;
mod switchover;
