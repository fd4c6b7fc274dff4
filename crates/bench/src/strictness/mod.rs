//! The strictness experiment: what replicas admit together. Processes of the real server share a
//! real store, under an open-loop load that does not wait for responses.
//!
//! - `cells`: the cells of the experiment, and the bound of each by formula.
//! - `limits`, `schedule`: the limits that are configured, and when each request is due.
//! - `store`, `fleet`, `faketime`: the processes that are started.
//! - `ideal`, `retry`, `row`: the figures of a cell.
//! - `run`, `table`, `picture`: all cells, and how they are shown.
//!
//! `tollgate-load` sends the requests, and `tollgate-audit` judges by how much a limit was exceeded.
//! Nothing here depends on how a mode is implemented: replicas get the same requests as from any
//! client.

mod cells;
mod faketime;
mod fleet;
mod ideal;
mod limits;
mod picture;
mod retry;
mod row;
mod run;
mod schedule;
mod store;
mod table;

use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use self::cells::{Case, Mode, cells};
use crate::harness::output;
use crate::harness::process::tollgate_program;
use crate::harness::progress::Progress;
use crate::harness::text::counted;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run fewer and shorter cells, as a smoke test; do not quote its numbers
    #[arg(long)]
    quick: bool,
    /// Run only this case; can be repeated
    #[arg(long, value_enum)]
    case: Vec<Case>,
    /// Run only this mode; can be repeated
    #[arg(long, value_enum)]
    mode: Vec<Mode>,
    /// Numbers of replicas, instead of those of each case: 2,4
    #[arg(long, value_delimiter = ',', value_parser = replicas)]
    replicas: Vec<usize>,
    /// Loads in multiples of the limit, instead of those of each case: 0.5,10. Cases whose load is
    /// not a rate keep theirs
    #[arg(long, value_delimiter = ',', value_parser = multiple)]
    load: Vec<f64>,
    /// Output .json file for the numbers; the picture is written to the same directory
    #[arg(long, default_value = "target/bench/strictness.json")]
    out: PathBuf,
    /// Path of the tollgate binary to test; defaults to the one in the directory of this program
    #[arg(long)]
    tollgate: Option<PathBuf>,
}

const REPLICAS_MAX: usize = 64;
const LOAD_MAX: f64 = 100.0;

fn replicas(text: &str) -> Result<usize, String> {
    let count = parse(text, |count| (1..=REPLICAS_MAX).contains(count));
    count.ok_or_else(|| format!("must be a number from 1 to {REPLICAS_MAX}"))
}

fn multiple(text: &str) -> Result<f64, String> {
    let load = parse(text, |load| *load > 0.0 && *load <= LOAD_MAX);
    load.ok_or_else(|| format!("must be a multiple of the limit above 0, at most {LOAD_MAX}"))
}

fn parse<T: FromStr>(text: &str, is_valid: impl Fn(&T) -> bool) -> Option<T> {
    text.trim().parse().ok().filter(is_valid)
}

/// Runs all cells, prints the table and writes the numbers and the picture. Returns an error if a
/// bound was exceeded or a cell could not be measured.
pub(crate) fn run(arguments: &Arguments) -> io::Result<()> {
    let tollgate = tollgate_program(arguments.tollgate.as_ref())?;
    let cells = cells(arguments);
    let mut progress = Progress::new(cells.len());
    let report = run::measure(&cells, &tollgate, &mut progress);
    output::save(&arguments.out, &report, &picture::draw(&report))?;
    output::print(&report)?;

    match (report.exceeded().count(), report.broken.len()) {
        (0, 0) => Ok(()),
        (0, broken) => Err(io::Error::other(format!(
            "{} could not be measured",
            counted(broken, "cell")
        ))),
        (exceeded, _) => Err(io::Error::other(format!(
            "more was admitted than the bound allows in {}",
            counted(exceeded, "cell")
        ))),
    }
}

/// What a reader needs to know to interpret the numbers.
const NOTES: [&str; 8] = [
    "Replicas are processes of `tollgate serve` over one Redis or a cluster of three; N is their \
     number. Every request has a due time and is sent whether or not others were answered; \
     latency counts from the due time.",
    "over: units admitted above what the limit allows, in the worst of all intervals (for window \
     limits: of the store's windows). A request counts in an interval only if it was both sent \
     and answered in it, so delays cannot cause an excess.",
    "bound: 0 for strict and leased; N x max(1, limit / (10 x N)) for eventual; one burst more \
     when the store restarts empty. `local` counts in each replica separately: it is wrong on \
     purpose, for comparison, and not judged.",
    "used: units admitted, relative to one central limiter without latency.",
    "calls: script calls counted by the store itself during the load, divided by all requests, by \
     admitted and by denied ones. They include two health checks per second and replica.",
    "local: responses that a replica gave without a store call. fallback: responses while the \
     store was unavailable, all of them denials.",
    "retry ok: after the load, on every replica: how many denied requests were admitted when sent \
     again after exactly the reported retry time. Retry times above 1.5 s are not tried.",
    "The load generator, the replicas and the store share the machine, so latencies show how the \
     modes compare, not how fast the service is.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_checked() {
        assert_eq!(replicas("16"), Ok(16));
        assert!(replicas("0").is_err() && replicas("65").is_err() && replicas("x").is_err());
        assert_eq!(multiple("0.5"), Ok(0.5));
        assert!(multiple("0").is_err() && multiple("NaN").is_err() && multiple("-1").is_err());
    }
}
