//! The Redis store, redis-benchmark and plain clients, all of which run the same script on one
//! temporary server.

mod check_script;
mod clients;
mod report;
mod target;

use self::check_script::LIMITS;
use self::target::Target;
use crate::harness::callers::RATE;
use crate::harness::server::{Kind, version};
use crate::harness::{Bench, Entrant, OutputArguments, chosen, counted, is_chosen};
use crate::harness::{Caller, ConnectedCallers, RedisBenchmark, Runtime, in_process};
use anyhow::Result;

/// One hot key, and as many keys as a busy service has clients.
const KEYS: [u32; 2] = [1, 100_000];
/// One caller for the latency, and many for the throughput.
const CALLERS: [&str; 3] = ["1", "64", "256"];
/// The number of callers for the throughput target.
const CROWD: usize = 256;
/// The default of redis-benchmark.
const CLIENTS: usize = 50;

const TOLLGATE: &str = "tollgate";
const THREE_LIMITS: &str = "tollgate, 3 limits";
const BARE: &str = "bare";
const REDIS_RS: &str = "redis-rs";
const PIPELINED: &str = "redis-benchmark -P 16";
const UNPIPELINED: &str = "redis-benchmark";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: OutputArguments,
    /// The store server to start
    #[arg(long, value_enum, default_value = "redis")]
    flavor: Kind,
    /// Measure only this number of callers; can be repeated
    #[arg(long, value_parser = CALLERS)]
    callers: Vec<String>,
    /// Measure only this subject; can be repeated
    #[arg(long, value_parser = [TOLLGATE, THREE_LIMITS, BARE, REDIS_RS, UNPIPELINED])]
    subject: Vec<String>,
}

/// Measures, prints the tables and writes the numbers and the picture.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let callers = chosen(&arguments.callers, CALLERS);
    let steps = KEYS.len() * callers.len();
    let mut bench = Bench::new(&arguments.output, steps, [(3, 120), (7, 700)]);
    let target = Target::start(arguments.flavor.flavor())?;
    bench.uses(vec![version(&target.server), RedisBenchmark::version()?]);

    for keys in KEYS {
        target.fill(keys)?;
        let case = counted(keys as usize, "key");
        for callers in &callers {
            let callers = callers.parse()?;
            bench
                .progress
                .step(&format!("{}, {case}", counted(callers, "caller")));
            let entrants = entrants(arguments, &target, keys, callers)?;
            bench.measure(&case, &[target.server.pid()], entrants)?;
        }
    }

    let panels = [("Decisions per second: taller is better", RATE)];
    let title = "Decisions per second, on one server";
    bench.publish("redis", title, &panels, report::complete)
}

/// The name of a subject on a runtime.
fn name(subject: &str, runtime: Runtime) -> String {
    format!("{subject}, {}", runtime.name())
}

/// All subjects for a number of callers and keys. redis-benchmark brings its own callers and is
/// measured once, together with the largest number of callers.
fn entrants(
    arguments: &Arguments,
    target: &Target,
    keys: u32,
    callers: usize,
) -> Result<Vec<Entrant<'static>>> {
    let mut entrants = Vec::new();
    for subject in chosen(&arguments.subject, [TOLLGATE, THREE_LIMITS, BARE, REDIS_RS]) {
        entrants.extend(match subject {
            TOLLGATE => on_runtimes(subject, keys, || {
                clients::tollgate(target, &LIMITS[..1], keys, callers)
            }),
            THREE_LIMITS => on_runtimes(subject, keys, || {
                clients::tollgate(target, &LIMITS, keys, callers)
            }),
            BARE => on_runtimes(subject, keys, || clients::bare(target, callers)),
            _ => on_runtimes(subject, keys, || clients::redis_rs(target, keys, callers)),
        }?);
    }
    if is_chosen(&arguments.subject, &UNPIPELINED) && callers == CROWD {
        entrants.push(redis_benchmark(PIPELINED, 16, target, keys)?);
        entrants.push(redis_benchmark(UNPIPELINED, 1, target, keys)?);
    }
    Ok(entrants)
}

/// A subject on each runtime.
fn on_runtimes<C: Caller, F: Future<Output = Result<ConnectedCallers<C>>>>(
    subject: &str,
    keys: u32,
    connect: impl Fn() -> F,
) -> Result<Vec<Entrant<'static>>> {
    let entrant = |runtime| in_process(&name(subject, runtime), keys, runtime, connect());
    Runtime::ALL.into_iter().map(entrant).collect()
}

/// redis-benchmark, calling the same script.
fn redis_benchmark(
    name: &str,
    pipeline: usize,
    target: &Target,
    keys: u32,
) -> Result<Entrant<'static>> {
    let load = match pipeline {
        1 => format!("{CLIENTS} callers"),
        _ => format!("{CLIENTS} x {pipeline} callers"),
    };
    let is_drawn = ["-r", &keys.to_string()];
    let (options, key) = match keys {
        1 => (&is_drawn[..0], check_script::key(LIMITS[0], 0)),
        _ => (&is_drawn[..], check_script::key_to_draw()),
    };
    let key = String::from_utf8(key)?;
    let call = ["EVALSHA", &target.script_with_arguments, "1", &key];
    let command = [options, &call].concat();

    let mut program = RedisBenchmark::new(target.server.addr(), CLIENTS, pipeline, &command);
    Ok(Entrant::new(name, load, move |length| {
        let (_, figures) = program.round(length)?;
        Ok(figures)
    }))
}
