//! `tollgate serve` compared with servers that return a constant response, all under the same load
//! generator.
//!
//! Every subject is a separate process, so that subjects share no threads, allocator or caches.

mod bare;
mod bodies;
mod oncall;
mod report;
mod request;
mod resp;
mod servers;
mod spread;
mod throttlecrab;
mod viewer;

use std::iter;
use std::path::PathBuf;

pub(crate) use self::bare::{BareArguments, run_bare};
use self::request::{Case, Exchange, Protocol};
use self::servers::Servers;
use self::viewer::Viewer;
use crate::harness::h2load::RATE;
use crate::harness::{Bench, H2load, OutputArguments, chosen_values, tollgate_program};
use anyhow::{Result, ensure};

/// `tollgate serve` with the embedded store.
const MEMORY: &str = "tollgate, memory";
/// The same with 1,000 limits, as many of which apply as with [`MEMORY`].
const MANY_LIMITS: &str = "tollgate, 1,000 limits";
/// The same with its dashboard open.
const DASHBOARD: &str = "tollgate, dashboard open";
/// `tollgate serve` with a Redis store and strict limits.
const REDIS: &str = "tollgate, Redis";
/// `tollgate serve` with a Redis store and leased limits.
const LEASED: &str = "tollgate, Redis, leased";
/// A server that returns a constant response, as short as possible.
const BARE: &str = "bare";
/// The same with all headers that Tollgate sends.
const BARE_WITH_HEADERS: &str = "bare, same headers";
/// throttlecrab-server, which always stores in memory.
const THROTTLECRAB: &str = "throttlecrab-server";

/// Measures what only some servers can do. The first of the programs is the one to measure.
type Extra = fn(&mut Bench, &H2load, &[PathBuf]) -> Result<()>;

#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: OutputArguments,
    /// Path of the tollgate binary to measure; defaults to the one in the directory of this program
    #[arg(long)]
    tollgate: Option<PathBuf>,
    /// Path of another tollgate binary to measure in the same run, with the embedded store; can be
    /// repeated
    #[arg(long)]
    beside: Vec<PathBuf>,
    /// Measure only the cost of the dashboard: Tollgate with it open and with it closed
    #[arg(long)]
    dashboard: bool,
    /// Measure only the RESP port beside HTTP
    #[arg(long)]
    resp: bool,
    /// Measure only single checks, inline limits and batches over HTTP
    #[arg(long)]
    bodies: bool,
    /// Measure only what the audit log and actions of operators cost
    #[arg(long)]
    on_call: bool,
    /// Measure only this protocol; can be repeated
    #[arg(long, value_enum)]
    protocol: Vec<Protocol>,
    /// Measure only this case; can be repeated
    #[arg(long, value_enum)]
    case: Vec<Case>,
}

/// Measures, prints the tables and writes the numbers and the picture.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let tollgate = tollgate_program(arguments.tollgate.as_ref())?;
    let beside = arguments.beside.iter().cloned();
    let programs: Vec<PathBuf> = iter::once(tollgate).chain(beside).collect();
    let extras: [(bool, &str, Extra); 4] = [
        (arguments.resp, resp::NAME, resp::measure),
        (arguments.bodies, bodies::NAME, bodies::measure),
        (arguments.on_call, oncall::NAME, oncall::measure),
        (arguments.on_call, spread::NAME, spread::measure),
    ];
    let is_extra = extras.iter().any(|(is_chosen, ..)| *is_chosen);
    let has_extras = arguments.protocol.is_empty() && !arguments.dashboard;
    let extras = extras.into_iter();
    let extras = extras.filter(|(is_chosen, ..)| has_extras && (*is_chosen || !is_extra));
    let extras: Vec<_> = extras.collect();

    let mut protocols = chosen_values(&arguments.protocol);
    protocols.retain(|_| !is_extra);
    let cases = chosen_values(&arguments.case);
    let steps = protocols.len() * cases.len() + extras.len();
    let mut bench = Bench::new(&arguments.output, steps, [(3, 300), (7, 2_000)]);
    let h2load = H2load::find();
    bench.uses(vec![h2load.version()?]);

    for protocol in protocols {
        for case in cases.iter().copied() {
            let step = format!("{}: {}", protocol.name(), case.name());
            bench.progress.step(&step);
            let exchange = Exchange { protocol, case };
            let servers = Servers::start(&mut bench, arguments.dashboard, &programs, exchange)?;
            let length = bench.length;
            let rows =
                h2load.measure(&mut bench, protocol.name(), case.name(), &servers.present)?;
            let is_open = servers.viewers.iter().all(Viewer::is_open);
            ensure!(is_open, "the dashboard's event stream was closed");
            for (row, server) in rows.iter_mut().zip(&servers.present) {
                row.add(h2load.latencies(&server.target, length)?);
            }
        }
    }

    for (_, name, measure) in extras {
        bench.progress.step(name);
        measure(&mut bench, &h2load, &programs)?;
    }

    let panels = [("Requests per second: taller is better", RATE)];
    let title = "Requests per second, to one server";
    bench.publish("service", title, &panels, report::complete)
}
