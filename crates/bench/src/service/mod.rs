//! `tollgate serve` beside servers that answer without deciding, all asked by the same load
//! generator.
//!
//! Everybody is a process of its own, so that nobody's threads, allocator or caches are another's.

mod answer;
mod bare;
mod call;
mod entrant;
mod entrants;
mod picture;
mod question;
mod ratios;
mod report;
mod run;
mod table;
mod viewer;

use std::env;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use self::bare::{BareArguments, run_bare};
use self::question::{Case, Protocol};
use crate::output;
use crate::progress::Progress;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Fewer and shorter rounds: to see that everything runs, not to quote.
    #[arg(long)]
    quick: bool,
    /// Where the numbers go, a .json file or a directory for service.json; the chart goes beside
    /// them.
    #[arg(long, default_value = "target/bench/service.json")]
    out: PathBuf,
    /// The tollgate that is measured; if nothing is said, the one beside this program.
    #[arg(long)]
    tollgate: Option<PathBuf>,
    /// Another build of tollgate to measure in the same run, on memory. May be given several times.
    #[arg(long)]
    beside: Vec<PathBuf>,
    /// What the dashboard costs: Tollgate with it open beside Tollgate with it closed, and nobody
    /// else.
    #[arg(long)]
    dashboard: bool,
    /// Only this protocol. May be given several times.
    #[arg(long, value_enum)]
    protocol: Vec<Protocol>,
    /// Only this case. May be given several times.
    #[arg(long, value_enum)]
    case: Vec<Case>,
}

/// How much is measured.
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
                "there is no {}; build it with `cargo build --release --package tollgate-server`, or name another with --tollgate",
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

    /// What is asked, one after the other.
    fn questions(&self) -> Vec<(Protocol, Case)> {
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
    let mut progress = Progress::new(settings.questions().len());
    let report = run::measure(&settings, &mut progress)?;
    output::save(
        &output::file(&arguments.out, "service.json"),
        &report,
        &picture::draw(&report),
    )?;
    output::print(&report)
}

/// What a reader has to know to judge the numbers.
const NOTES: [&str; 7] = [
    "tollgate: the release binary's `serve`, in its own process, on memory, or strict or leased on a throwaway Redis. Token \
     buckets keyed by client_ip (three limits: also by tenant and user) that never refuse, or one that is used up. One key, \
     because the load generator knows one body.",
    "bare axum, bare tonic: the same library versions answering a constant of the same length and status without looking \
     at the question: no header beside the kind of the body, no field beside the codes. With all headers or all fields \
     they tell what Tollgate tells, so that the cost of telling stands apart from the cost of deciding.",
    "throttlecrab-server: its HTTP mode on memory, asked in its own words; it refuses with status 200 and tells no headers.",
    "Load: h2load with one thread. HTTP/1.1 over 32 connections with one request on its way on each; gRPC over 4 \
     connections with 32 on each, as a proxy has a few connections and many streams.",
    "Everybody has Tokio's default of one worker for each core, and the load generator wants a core too: on two cores they \
     share. cpu us/request is what the server's process used, in the system too; it depends less on who shares.",
    "p50 and p99 are those of one more round in which the load generator writes every request down, which slows it; at full \
     load they are mostly waiting in line.",
    "Each round begins with another subject. A ratio is that of the medians; in brackets, of the rounds, the lowest and the \
     highest.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_chosen_and_nothing_named_is_all() {
        assert_eq!(chosen(Case::ALL, &[]), Case::ALL);
        assert_eq!(chosen(Case::ALL, &[Case::Denied]), [Case::Denied]);
    }
}
