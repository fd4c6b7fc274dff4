//! The real service, started as its users start it: one process a test, on free ports.

mod check;
mod cli;
mod harness;
#[path = "../cli/page.rs"]
mod page;
