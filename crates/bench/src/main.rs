//! Benchmarks: Tollgate beside its peers in the same run, so that a noisy machine is noisy for all.

mod allocator;
mod chart;
mod machine;
mod memory;
mod output;
mod progress;
mod random;
mod redis;
mod rounds;
mod stats;
mod text;
mod timing;

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
    /// Decisions on a Redis or Valkey server: throughput and latency beside redis-benchmark and plain clients.
    Redis(redis::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().what {
        What::Memory(arguments) => memory::run(&arguments),
        What::Redis(arguments) => redis::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tollgate-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
