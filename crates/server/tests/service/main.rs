//! The real service, started as its users start it: one process a test, on free ports.

mod check;
mod envoy;
mod grpc;
mod harness;
