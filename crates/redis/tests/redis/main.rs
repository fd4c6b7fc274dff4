//! The shared store on real servers. One program for all of it: linking takes longer than most of
//! the tests.

mod access;
mod across;
mod common;
mod conformance;
mod counters;
mod faults;
mod leases;
mod lending;
mod model;
mod strict;
