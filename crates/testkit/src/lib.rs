//! What Tollgate is tested with.
//!
//! - [`model`]: the slow obvious model of every algorithm, the definition of right.
//! - [`lending`]: the same for units that processes take in advance.
//! - [`fleet`]: many processes on that store, simulated with everything that can go wrong between
//!   them.
//! - [`differential`]: random traces on which a store is compared with the model, operation by
//!   operation.
//! - [`conformance`]: the stories that every store must pass, on a clock set by hand or in real
//!   time.
//! - [`overadmission`]: from a log of what was let through, by how much the limit was ever
//!   exceeded.
//! - [`servers`]: Redis and Valkey, alone, under Sentinel and as a cluster, started for one test.
//! - [`fault_proxy`]: a TCP proxy that does to a connection what networks do to connections.
//! - [`reverse_proxy`]: nginx, Caddy, Envoy and `HAProxy`, something for them to stand in front of and a
//!   client to ask them.
//! - [`browser`]: a real Chromium, for tests of pages.
//! - `processes`: what servers, proxies and browsers are made of.
//! - [`dice`]: random numbers that a seed repeats.
//! - [`wait`]: waiting for something to become true, and never for a fixed time.
//!
//! Nothing here is published, and nothing in the other crates needs it to work.

pub mod browser;
pub mod conformance;
pub mod dice;
pub mod differential;
pub mod fault_proxy;
pub mod fleet;
pub mod lending;
pub mod model;
mod ports;
mod processes;
pub mod reverse_proxy;
pub mod servers;
pub mod wait;

pub use tollgate_audit as overadmission;
