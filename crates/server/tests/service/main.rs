//! The real service, started as its users start it: one process a test, on free ports.

mod check;
mod drain;
mod harness;
mod load;
mod overload;
mod redis;
mod reload;
mod traces;
