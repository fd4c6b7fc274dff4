//! The Redis store on real servers. All tests are in one program, because linking takes longer than
//! most of the tests.
#![expect(
    clippy::incompatible_msrv,
    reason = "tests need only run with the current toolchain"
)]

mod bounds;
mod common;
mod conformance;
mod counters;
mod cross_slot;
mod eviction;
mod example;
mod faults;
mod garbage;
mod layout;
mod lease_script;
mod leases;
mod model;
mod opening;
mod read_only;
mod records;
mod settings;
mod slow_link;
mod starved;
mod strict;
