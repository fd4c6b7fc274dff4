//! The scale experiment: what large fleets, many keys and a large cluster cost. The lease tables
//! are the real ones; time, the network and the store are simulated.
//!
//! - `cost`: the CPU time of a script call, measured on a real server.
//! - `traffic`: the kinds of traffic, and their keys in strata of similar rates.
//! - `forecast`: simulates a key of each stratum, and adds up what all keys cost.
//! - `report`: the table and the picture.

mod cost;
mod forecast;
mod report;
mod traffic;

use anyhow::{Result, ensure};
use testkit::servers::{Flavor, Server};

use self::forecast::{Effort, Forecast};
use self::traffic::TRAFFIC;
use crate::harness::server::version;
use crate::harness::{Bench, Figures, OutputArguments, Row, counted};

/// The numbers of replicas that are simulated.
const REPLICAS: [u32; 6] = [1, 4, 16, 32, 100, 1_000];

const STRICT: &str = "strict";
const LEASED: &str = "leased";

const CALLS_PER_S: &str = "calls_per_s";
const CALLS_PER_REQUEST: &str = "calls_per_request";
/// The same of the simulated key that has most.
const WORST_KEY: &str = "worst_key_calls_per_request";
/// Script calls per second of the busiest shard.
const BUSIEST_SHARD: &str = "busiest_shard_calls_per_s";
/// The share of a core that the busiest shard needs.
const BUSIEST_CPU: &str = "busiest_shard_cpu";
/// The share of requests that a replica decides without a store call.
const LOCAL_SHARE: &str = "local_share";
/// Units admitted, relative to one central counter.
const UTILISATION: &str = "utilisation";
/// Denials of keys that one central counter never denies, per million requests.
const FALSE_DENIALS: &str = "false_denials_per_million";
/// The most units of any key above what the limit allows, over any interval; at least 0.
const OVER: &str = "over";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: OutputArguments,
    /// Numbers of replicas: 4,1000
    #[arg(long, value_delimiter = ',', default_values_t = REPLICAS,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    replicas: Vec<u32>,
    /// The seed of all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Measures the cost of a call, simulates, prints the table and writes the numbers and the picture.
/// Returns an error if a limit was exceeded.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let steps = 1 + TRAFFIC.len() * arguments.replicas.len();
    let mut bench = Bench::new(&arguments.output, steps, [(1, 0), (5, 0)]);

    bench.progress.step("CPU time of a script call");
    let server = Server::start(Flavor::Redis);
    let [strict_us, leased_us] = cost::measure(&mut bench, &server)?;
    let costs = format!("a call takes {strict_us:.0} us (strict) or {leased_us:.0} us (leased)");
    bench.uses(vec![version(&server), costs]);

    let effort = Effort::new(arguments.output.quick, arguments.seed);
    for traffic in &TRAFFIC {
        let keys = traffic.keys();
        for replicas in &arguments.replicas {
            let load = counted(*replicas as usize, "replica");
            bench.progress.step(&format!("{}, {load}", traffic.name));

            let (strict, leased) = (
                Forecast::strict(),
                Forecast::leased(&keys, *replicas, effort),
            );
            for (subject, forecast, call_us) in
                [(STRICT, strict, strict_us), (LEASED, leased, leased_us)]
            {
                let figures = forecast.figures(&keys, call_us);
                let row = Row::new(traffic.name, &load, subject, vec![figures]);
                bench.report.rows.push(row);
            }
        }
    }

    let report = bench.publish_picture("scale", report::complete, report::picture)?;
    let exceeded = report::exceeded(&report);
    ensure!(
        exceeded == 0,
        "a limit was exceeded in {}",
        counted(exceeded, "row")
    );
    Ok(())
}
