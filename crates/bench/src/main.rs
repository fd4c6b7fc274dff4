//! Benchmarks: Tollgate beside its peers, in the same process and the same run, so that a noisy machine is noisy for all.

mod allocator;
mod chart;
mod machine;
mod memory;
mod random;
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
}

fn main() -> ExitCode {
    let What::Memory(arguments) = Arguments::parse().what;
    match memory::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tollgate-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
