//! The real service, started as its users start it: one process a test, on free ports.

mod bad_requests;
mod check;
mod harness;
mod openapi;
mod raw;
