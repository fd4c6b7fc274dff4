//! What the store survives: every row of the fault table is a test that prints the six figures and
//! holds them.
//!
//! - `row` is a row of the table; it has the machine for itself.
//! - `load` asks all the time, `watched` notes what became of each question, `noise` what the
//!   machine added to it.
//! - `subjects` is what is asked about, `record` what a load has to show, `observer` what the
//!   servers say.
//! - `figures` and `admission` make the figures of it.
//! - `process` and `refusals` (the store's process), `network`, `availability` and `cluster` are
//!   the groups of rows.
//! - `exact` is for one caller, where the charge is known to the unit.
//!
//! Rows that take long are ignored here and run by `cargo xtask faults`.

mod admission;
mod availability;
mod cluster;
mod exact;
mod figures;
mod load;
mod network;
mod noise;
mod observer;
mod process;
mod record;
mod refusals;
mod row;
mod subjects;
mod watched;
