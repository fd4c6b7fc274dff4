//! Benchmarks: Tollgate beside its peers in the same run, so that a noisy machine is noisy for all.

mod allocator;
mod chart;
mod h2load;
mod leases;
mod machine;
mod memory;
mod others;
mod output;
mod panels;
mod percentiles;
mod process;
mod progress;
mod random;
mod redis;
mod rounds;
mod server;
mod service;
mod simulate;
mod stats;
mod strictness;
mod text;
mod timing;
mod tower;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "Measures Tollgate beside other rate limiters")]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Decisions in one process: speed, bytes per key, and a flood of new keys.
    Memory(memory::Arguments),
    /// Decisions on a Redis or Valkey server: throughput and latency beside redis-benchmark and
    /// plain clients.
    Redis(redis::Arguments),
    /// Decisions from memory on a shared server: leased and eventual limits beside the embedded
    /// store and strict ones.
    Leases(leases::Arguments),
    /// Requests to `tollgate serve`, over HTTP and over gRPC, beside servers that answer without
    /// deciding.
    Service(service::Arguments),
    /// What a rate limit costs an axum application, with this layer and with `tower_governor`.
    Tower(tower::Arguments),
    /// `tollgate simulate` on a large log: lines a second and a core, and memory.
    Simulate(simulate::Arguments),
    /// What replicas of `tollgate serve` admit together over one store, against what the limit
    /// allows.
    Strictness(strictness::Arguments),
    /// One of those servers, which `service` starts as a process of its own.
    #[command(hide = true)]
    Bare(service::BareArguments),
    /// One of the applications, which `tower` starts as a process of its own.
    #[command(hide = true)]
    Hello(tower::HelloArguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().what {
        What::Memory(arguments) => memory::run(&arguments),
        What::Redis(arguments) => redis::run(&arguments),
        What::Leases(arguments) => leases::run(&arguments),
        What::Service(arguments) => service::run(&arguments),
        What::Simulate(arguments) => simulate::run(&arguments),
        What::Strictness(arguments) => strictness::run(&arguments),
        What::Tower(arguments) => tower::run(&arguments),
        What::Bare(arguments) => service::run_bare(&arguments),
        What::Hello(arguments) => tower::run_hello(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tollgate-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
