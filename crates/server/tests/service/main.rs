//! The real service, started as its users start it: one process a test, on free ports.

mod admin;
mod check;
mod harness;
