//! Benchmarks that measure Tollgate and other rate limiters in the same run, so that noise on the
//! machine affects all of them.

mod harness;
mod leases;
mod memory;
mod node;
mod redis;
mod scale;
mod service;
mod simulate;
mod strictness;
mod tower;

use clap::{Parser, Subcommand};

use self::harness::prelude::BenchArguments;

#[derive(Debug, Parser)]
#[command(about = "Compares Tollgate with other rate limiters")]
struct Arguments {
    #[command(subcommand)]
    what: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// Embedded store: time per decision, bytes per key, and a flood of new keys
    Memory(BenchArguments),
    /// Redis or Valkey store: throughput and latency, compared with redis-benchmark and plain
    /// clients
    Redis(BenchArguments),
    /// Leased and eventual limits on a shared store, compared with the embedded store and strict
    /// limits
    Leases(BenchArguments),
    /// `tollgate serve` over HTTP and gRPC, compared with servers that return a constant response
    Service(service::ServiceArguments),
    /// Cost of a rate limit in an Express application: Tollgate in the process and over HTTP, and
    /// the limiters that most applications use
    Node(BenchArguments),
    /// Cost of a rate limit in an axum application: Tollgate's layer and `tower_governor`
    Tower(BenchArguments),
    /// `tollgate simulate` on a large log: lines per second and core, and peak memory
    Simulate(BenchArguments),
    /// Strictness experiment: what replicas of `tollgate serve` admit together over one store,
    /// compared with what the limit allows
    Strictness(strictness::StrictnessArguments),
    /// Scale experiment: what large fleets, many keys and a large cluster cost, simulated with the
    /// real lease tables and the measured cost of a call
    Scale(scale::ScaleArguments),
    /// A bare server, started by `service` as a separate process
    #[command(hide = true)]
    Bare(service::BareArguments),
    /// An application, started by `tower` as a separate process
    #[command(hide = true)]
    Hello(tower::HelloArguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().what {
        Benchmark::Memory(arguments) => memory::run(&arguments),
        Benchmark::Redis(arguments) => redis::run(&arguments),
        Benchmark::Leases(arguments) => leases::run(&arguments),
        Benchmark::Service(arguments) => service::run(&arguments),
        Benchmark::Simulate(arguments) => simulate::run(&arguments),
        Benchmark::Strictness(arguments) => strictness::run(&arguments),
        Benchmark::Scale(arguments) => scale::run(&arguments),
        Benchmark::Node(arguments) => node::run(&arguments),
        Benchmark::Tower(arguments) => tower::run(&arguments),
        Benchmark::Bare(arguments) => service::run_bare(&arguments),
        Benchmark::Hello(arguments) => tower::run_hello(&arguments),
    }
}
