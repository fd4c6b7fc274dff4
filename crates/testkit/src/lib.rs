//! Tools for testing Tollgate.
//!
//! - [`model`]: a slow and simple model of every algorithm, which defines the correct behaviour.
//! - [`lending`]: the same for units that instances lease from a store.
//! - [`fleet`]: a simulation of many instances on that store, with all faults that can occur
//!   between them.
//! - [`differential`]: random traces on which a store is compared with the model, operation by
//!   operation.
//! - [`conformance`]: the test cases that every store must pass, on a manual clock or in real time.
//! - [`overadmission`]: computes from a log of admissions by how much a limit was exceeded.
//! - [`servers`]: Redis and Valkey, standalone, under Sentinel and as a cluster, started for one
//!   test.
//! - [`fault_proxy`]: a TCP proxy that injects network faults.
//! - [`reverse_proxy`]: nginx, Caddy, Envoy and `HAProxy`, with an upstream server and an HTTP
//!   client.
//! - [`backends`]: web applications in JavaScript and Python, to put behind a proxy.
//! - [`certificates`]: authorities and the certificates they sign.
//! - [`browser`]: a real Chromium, for tests of web pages.
//! - [`processes`]: starts and ends the processes of servers, proxies and browsers.
//! - [`ports`]: reserved ports, for servers that are restarted on the same address.
//! - [`dice`]: seeded random numbers.
//! - [`volume`]: how much random testing a run does.
//! - [`wait`]: waits for a condition, never for a fixed time.
//!
//! This crate is not published, and the other crates use it only in tests.

pub mod backends;
pub mod browser;
pub mod certificates;
pub mod conformance;
pub mod dice;
pub mod differential;
pub mod fault_proxy;
pub mod fleet;
pub mod lending;
pub mod model;
pub mod ports;
pub mod processes;
pub mod reverse_proxy;
pub mod servers;
pub mod volume;
pub mod wait;

pub use tollgate_audit as overadmission;
