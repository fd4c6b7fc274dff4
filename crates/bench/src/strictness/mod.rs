//! What replicas admit together: processes of the real server over a real store, under load that
//! does not wait.
//!
//! - `cells`, `plan`: what is tried, and the bound of each cell by formula.
//! - `limits`, `schedule`: what is configured, and which request is due when.
//! - `store`, `fleet`, `faketime`: what is started.
//! - `client`, `load`, `record`: how requests are sent, and what became of each.
//! - `excess`, `windows`: by how much a limit was exceeded, proven from those records.
//! - `ideal`, `retry`, `row`: what else is said about a cell.
//! - `run`, `report`, `table`, `picture`: all cells, and how they are shown.
//!
//! Nothing here knows how a mode does what it promises: replicas are asked as any client asks them.

mod cells;
mod client;
mod excess;
mod faketime;
mod fleet;
mod ideal;
mod limits;
mod load;
mod picture;
mod plan;
mod record;
mod report;
mod retry;
mod row;
mod run;
mod schedule;
mod store;
mod table;
mod windows;

use std::env;
use std::io;
use std::path::PathBuf;

use self::cells::{Choice, cells};
use self::plan::{Case, Mode};
use crate::output;
use crate::progress::Progress;
use crate::text::counted;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Fewer and shorter cells: to see that everything runs, not to quote.
    #[arg(long)]
    quick: bool,
    /// Only this case. May be given several times.
    #[arg(long, value_enum)]
    case: Vec<Case>,
    /// Only this mode. May be given several times.
    #[arg(long, value_enum)]
    mode: Vec<Mode>,
    /// These numbers of replicas instead of those of each case: 2,4.
    #[arg(long, value_delimiter = ',', value_parser = replicas)]
    replicas: Vec<usize>,
    /// These loads instead of those of each case, in multiples of the limit: 0.5,10. Cases whose
    /// load is no rate keep theirs.
    #[arg(long, value_delimiter = ',', value_parser = multiple)]
    load: Vec<f64>,
    /// Where the numbers go, a .json file; the picture goes beside it.
    #[arg(long, default_value = "target/bench/strictness.json")]
    out: PathBuf,
    /// The tollgate that is tried; if nothing is said, the one beside this program.
    #[arg(long)]
    tollgate: Option<PathBuf>,
}

const REPLICAS_MAX: usize = 64;
const LOAD_MAX: f64 = 100.0;

fn replicas(text: &str) -> Result<usize, String> {
    let count = text
        .trim()
        .parse()
        .ok()
        .filter(|count| (1..=REPLICAS_MAX).contains(count));
    count.ok_or_else(|| format!("write a number from 1 to {REPLICAS_MAX}"))
}

fn multiple(text: &str) -> Result<f64, String> {
    let load = text
        .trim()
        .parse()
        .ok()
        .filter(|load| *load > 0.0 && *load <= LOAD_MAX);
    load.ok_or_else(|| format!("write a multiple of the limit above 0, at most {LOAD_MAX}"))
}

/// Tries everything, prints the table and writes the numbers and the picture. It is an error when a
/// bound was exceeded, or a cell could not be measured.
pub(crate) fn run(arguments: &Arguments) -> io::Result<()> {
    let tollgate = tollgate(arguments)?;
    let cells = cells(&Choice {
        quick: arguments.quick,
        cases: arguments.case.clone(),
        modes: arguments.mode.clone(),
        replicas: arguments.replicas.clone(),
        loads: arguments.load.clone(),
    });
    let mut progress = Progress::new(cells.len());
    let report = run::measure(&cells, &tollgate, &mut progress)?;
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

fn tollgate(arguments: &Arguments) -> io::Result<PathBuf> {
    let tollgate = match &arguments.tollgate {
        Some(program) => program.clone(),
        None => env::current_exe()?.with_file_name("tollgate"),
    };
    if tollgate.is_file() {
        return Ok(tollgate);
    }
    Err(io::Error::other(format!(
        "there is no {}; build it with `cargo build --release --package tollgate-server`, or name another with --tollgate",
        tollgate.display()
    )))
}

/// What a reader has to know to judge the numbers.
const NOTES: [&str; 8] = [
    "Replicas are processes of `tollgate serve` over one Redis or a cluster of three; N is their number. Every request is due at a \
     moment of its own and sent whether or not others were answered; latency counts from that moment.",
    "over: units above what the limit allows, in the worst of all intervals (of the store's windows, for window limits). A request \
     counts in an interval only if it was both sent and answered in it, so delays cannot cause an excess.",
    "bound: 0 for strict and leased; N x max(1, limit / (10 x N)) for eventual; one burst more when the store comes back empty. \
     `local` counts in each replica for itself: wrong on purpose, to compare with, and not judged.",
    "used: units admitted, in relation to one central limiter that would have answered every request at its moment.",
    "calls: script calls that the store itself has counted during the load; all of them, divided by all requests, by those admitted \
     and by those denied. Among them are two a second with which each replica looks whether the store is there.",
    "by itself: answers that a replica gave without asking the store. by policy: answers while the store was away, all refusals.",
    "retry true: afterwards, on every replica, of those who were denied, waited as long as they were told and asked again, how many \
     passed. Where that takes more than 1.5 s it is not tried.",
    "Load generator, replicas and store share the machine, so latencies say how the modes compare, not how fast the service is.",
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
