//! The real service, started as its users start it: one process a test, on free ports.

mod answers;
mod bad_requests;
mod caddy;
mod check;
mod deploy;
mod deployments;
mod golden;
mod harness;
mod nginx;
mod openapi;
mod raw;
mod spoofing;
mod traefik;
