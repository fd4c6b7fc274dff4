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
mod viewer;

use std::iter;
use std::path::{Path, PathBuf};

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

#[derive(Debug, clap::Args)]
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
    let is_only = [arguments.resp, arguments.bodies, arguments.on_call];
    let has_extras = arguments.protocol.is_empty() && !arguments.dashboard;
    let is_included = |is_chosen| has_extras && (is_chosen || is_only == [false; 3]);
    let protocols = if is_only.contains(&true) {
        Vec::new()
    } else {
        chosen_values(&arguments.protocol)
    };
    let cases = chosen_values(&arguments.case);
    let [resp, bodies, on_call] = is_only.map(is_included);
    let extras = [resp, bodies, on_call]
        .into_iter()
        .filter(|is_included| *is_included);
    let steps = protocols.len() * cases.len() + extras.count();
    let mut bench = Bench::new(&arguments.output, steps, [(3, 300), (7, 2_000)]);
    let h2load = H2load::find();
    bench.uses(vec![h2load.version()?]);

    for protocol in protocols {
        for case in cases.iter().copied() {
            let step = format!("{}: {}", protocol.name(), case.name());
            bench.progress.step(&step);
            let exchange = Exchange { protocol, case };
            let mut servers = Servers::start(arguments, &tollgate, exchange)?;
            for reason in servers.absent.drain(..) {
                bench.remark(reason);
            }

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

    if resp {
        bench.progress.step(resp::NAME);
        resp::measure(&mut bench, &h2load, &tollgate)?;
    }
    if bodies {
        bench.progress.step(bodies::NAME);
        bodies::measure(&mut bench, &h2load, &tollgate)?;
    }
    if on_call {
        bench.progress.step(oncall::NAME);
        let beside = arguments.beside.iter().map(PathBuf::as_path);
        let programs: Vec<&Path> = iter::once(tollgate.as_path()).chain(beside).collect();
        oncall::measure(&mut bench, &h2load, &programs)?;
        bench.progress.step(spread::NAME);
        spread::measure(&mut bench, &tollgate)?;
    }

    let panels = [("Requests per second: taller is better", RATE)];
    let title = "Requests per second, to one server";
    bench.publish("service", title, &panels, report::complete)
}
