//! Tests of the real service: one process per test, on free ports.

mod admin;
mod answers;
mod audit_paths;
mod bad_requests;
mod caddy;
mod check;
mod cli;
mod dashboard;
mod deploy;
mod deployments;
mod drain;
mod envoy;
mod golden;
mod grpc;
mod harness;
mod leases;
mod load;
mod load_command;
mod monitoring;
mod nginx;
mod openapi;
mod overload;
#[path = "../cli/page.rs"]
mod page;
mod raw;
mod redis;
mod reload;
mod spoofing;
mod stacks;
mod traces;
mod traefik;
