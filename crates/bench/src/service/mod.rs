//! `tollgate serve` compared with servers that return a constant response, all under the same load
//! generator.
//!
//! Every subject is a separate process, so that subjects share no threads, allocator or caches.

mod bare;
mod call;
mod entrant;
mod entrants;
mod picture;
mod ratios;
mod report;
mod request;
mod response;
mod run;
mod table;
mod viewer;

use std::env;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use self::bare::{BareArguments, run_bare};
use self::request::{Case, Protocol};
use crate::output;
use crate::progress::Progress;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run fewer and shorter rounds, as a smoke test; do not quote its numbers
    #[arg(long)]
    quick: bool,
    /// Output for the numbers: a .json file, or a directory in which service.json is written. The
    /// chart is written to the same directory
    #[arg(long, default_value = "target/bench/service.json")]
    out: PathBuf,
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
    /// Measure only this protocol; can be repeated
    #[arg(long, value_enum)]
    protocol: Vec<Protocol>,
    /// Measure only this case; can be repeated
    #[arg(long, value_enum)]
    case: Vec<Case>,
}

/// What is measured, and for how long.
#[derive(Debug)]
struct Settings {
    rounds: usize,
    round: Duration,
    tollgate: PathBuf,
    beside: Vec<PathBuf>,
    dashboard: bool,
    protocols: Vec<Protocol>,
    cases: Vec<Case>,
}

impl Settings {
    fn new(arguments: &Arguments) -> io::Result<Self> {
        let (rounds, round_ms) = if arguments.quick {
            (3, 300)
        } else {
            (7, 2_000)
        };
        let tollgate = match &arguments.tollgate {
            Some(program) => program.clone(),
            None => env::current_exe()?.with_file_name("tollgate"),
        };
        if !tollgate.is_file() {
            return Err(io::Error::other(format!(
                "{} not found; build it with `cargo build --release --package tollgate-server`, \
                 or pass another path with --tollgate",
                tollgate.display()
            )));
        }
        Ok(Self {
            rounds,
            round: Duration::from_millis(round_ms),
            tollgate,
            beside: arguments.beside.clone(),
            dashboard: arguments.dashboard,
            protocols: chosen(Protocol::ALL, &arguments.protocol),
            cases: chosen(Case::ALL, &arguments.case),
        })
    }

    /// All combinations to measure, in order.
    fn combinations(&self) -> Vec<(Protocol, Case)> {
        let protocols = self.protocols.iter();
        protocols
            .flat_map(|protocol| self.cases.iter().map(|case| (*protocol, *case)))
            .collect()
    }
}

fn chosen<T: PartialEq, const N: usize>(all: [T; N], named: &[T]) -> Vec<T> {
    all.into_iter()
        .filter(|one| named.is_empty() || named.contains(one))
        .collect()
}

/// Measures, prints the tables and writes the numbers and the chart.
pub(crate) fn run(arguments: &Arguments) -> io::Result<()> {
    let settings = Settings::new(arguments)?;
    let mut progress = Progress::new(settings.combinations().len());
    let report = run::measure(&settings, &mut progress)?;
    output::save(
        &output::file(&arguments.out, "service.json"),
        &report,
        &picture::draw(&report),
    )?;
    output::print(&report)
}

/// What a reader needs to know to interpret the numbers.
const NOTES: [&str; 7] = [
    "tollgate: `serve` of the release binary, in a separate process, on memory, or strict or \
     leased on a temporary Redis. Token buckets keyed by client_ip (three limits: also by tenant \
     and user) that never deny, or one that is used up. There is only one key, because the load \
     generator sends only one body.",
    "bare axum, bare tonic: the same library versions returning a constant with the same length \
     and status, without parsing the request; no headers except the content type, no fields \
     except the codes. With all headers or all fields they send the same headers or fields as \
     Tollgate, which separates the cost of sending them from the cost of deciding.",
    "throttlecrab-server: its HTTP mode on memory, with its own request format; it denies with \
     status 200 and sends no rate limit headers.",
    "Load: h2load with one thread. HTTP/1.1 over 32 connections with one request in flight on \
     each; gRPC over 4 connections with 32 in flight on each, as a proxy has a few connections \
     and many streams.",
    "All servers have Tokio's default of one worker per core, and the load generator needs a core \
     too: on two cores they compete. cpu us/request is the CPU time of the server's process, in \
     user and system mode, which depends less on the competition.",
    "p50 and p99 are those of an additional round in which the load generator logs every request, \
     which slows it down; at full load they are mostly queueing time.",
    "Each round begins with another subject. A ratio is that of the medians, followed by the \
     lowest and the highest ratio of the rounds.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_items_are_selected_and_all_by_default() {
        assert_eq!(chosen(Case::ALL, &[]), Case::ALL);
        assert_eq!(chosen(Case::ALL, &[Case::Denied]), [Case::Denied]);
    }
}
