//! What a layer costs an axum application: a hello by itself, behind Tollgate's layer and behind
//! `tower_governor`'s, asked over sockets as processes of their own, and called without sockets in
//! this one.

mod calls;
mod entrant;
mod hello;
mod layers;
mod picture;
mod ratios;
mod report;
mod run;
mod subject;
mod table;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use self::hello::{HelloArguments, run_hello};
use self::subject::Case;
use crate::output;
use crate::progress::Progress;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Fewer and shorter rounds: to see that everything runs, not to quote.
    #[arg(long)]
    quick: bool,
    /// Output for the numbers: a .json file or a directory for tower.json; the chart goes next to
    /// them.
    #[arg(long, default_value = "target/bench/tower.json")]
    out: PathBuf,
    /// Only this case. May be given several times.
    #[arg(long, value_enum)]
    case: Vec<Case>,
}

/// How much is measured.
#[derive(Debug)]
struct Settings {
    rounds: usize,
    /// Of a server.
    round: Duration,
    /// Of calls.
    calling: Duration,
    cases: Vec<Case>,
}

impl Settings {
    fn new(arguments: &Arguments) -> Self {
        let (rounds, round_ms, calling_ms) = if arguments.quick {
            (3, 300, 20)
        } else {
            (11, 1_500, 200)
        };
        let is_chosen = |case: &Case| arguments.case.is_empty() || arguments.case.contains(case);
        Self {
            rounds,
            round: Duration::from_millis(round_ms),
            calling: Duration::from_millis(calling_ms),
            cases: Case::ALL.into_iter().filter(is_chosen).collect(),
        }
    }
}

/// Measures, prints the tables and writes the numbers and the picture.
pub(crate) fn run(arguments: &Arguments) -> io::Result<()> {
    let settings = Settings::new(arguments);
    let mut progress = Progress::new(settings.cases.len() * 2);
    let report = run::measure(&settings, &mut progress)?;
    output::save(
        &output::file(&arguments.out, "tower.json"),
        &report,
        &picture::draw(&report),
    )?;
    output::print(&report)
}

/// What a reader must know to judge the numbers.
const NOTES: [&str; 6] = [
    "bare axum: a route that returns 13 bytes; when all requests are denied, 429 and 17 bytes. \
     Nothing is decided. axum has its default features, which `tower_governor` requires.",
    "tollgate: the same route behind `RateLimitLayer` on memory, one token bucket by client \
     address, with the five header fields that it sends by default; no fields: without them. \
     leased, strict: the same with all fields, on a temporary Redis.",
    "tower_governor 0.8: the same bucket by peer address. With default settings it sends no fields \
     on success, with `use_headers` two. It denies with a line of text, Tollgate with a problem \
     document.",
    "Load: h2load with one thread, 32 connections, one request in flight on each; so one hot \
     client. Every server is a separate process with Tokio's default of one worker per core, and \
     shares the cores with the load generator: cpu us/request depends less on the competition.",
    "Calls: one thread calls a clone of the service with a request of three headers, and drops the \
     response. What a layer adds is the difference to the bare call of the same round.",
    "Each round begins with another subject. A ratio is the median of the rounds' ratios, followed \
     by the lowest and the highest.",
];
