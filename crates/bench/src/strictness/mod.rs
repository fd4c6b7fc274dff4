//! The strictness experiment: what replicas admit together. Processes of the real server share a
//! real store, under an open-loop load that does not wait for responses.
//!
//! - `cells`: the cells of the experiment, from `series.json`, and the bound of each by formula.
//! - `limits`, `schedule`: the limits that are configured, and when each request is due.
//! - `store`, `fleet`: the processes that are started.
//! - `figures`, `ideal`, `retry`: the figures of a cell.
//! - `testbed`: runs all cells.
//! - `report`, `goals`: the tables, the picture and what is wrong.
//!
//! `tollgate-load` sends the requests, and `tollgate-audit` judges by how much a limit was exceeded.
//! Nothing here depends on how a mode is implemented: replicas get the same requests as from any
//! client.

mod cells;
mod figures;
mod fleet;
mod goals;
mod ideal;
mod limits;
mod report;
mod retry;
mod schedule;
mod store;
mod testbed;

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::builder::RangedU64ValueParser;

use self::cells::{Case, Mode, cells};
use crate::harness::{Bench, OutputArguments, counted, tollgate_program};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: OutputArguments,
    /// Run only this case; can be repeated
    #[arg(long, value_enum)]
    case: Vec<Case>,
    /// Run only this mode; can be repeated
    #[arg(long, value_enum)]
    mode: Vec<Mode>,
    /// Numbers of replicas, instead of those of each case: 2,4
    #[arg(long, value_delimiter = ',', value_parser = RangedU64ValueParser::<usize>::new().range(1..=REPLICAS_MAX))]
    replicas: Vec<usize>,
    /// Loads in multiples of the limit, instead of those of each case: 0.5,10. Cases whose load is
    /// not a rate keep theirs
    #[arg(long, value_delimiter = ',', value_parser = multiple)]
    load: Vec<f64>,
    /// Path of the tollgate binary to test; defaults to the one in the directory of this program
    #[arg(long)]
    tollgate: Option<PathBuf>,
}

const REPLICAS_MAX: u64 = 64;
const LOAD_MAX: f64 = 100.0;

fn multiple(text: &str) -> Result<f64, String> {
    let load = text.parse().ok();
    load.filter(|load| *load > 0.0 && *load <= LOAD_MAX)
        .ok_or_else(|| format!("must be a multiple of the limit above 0, at most {LOAD_MAX}"))
}

/// Runs all cells, prints the table and writes the numbers and the picture. Returns an error if a
/// bound was exceeded or a cell could not be measured.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let tollgate = tollgate_program(arguments.tollgate.as_ref())?;
    let cells = cells(arguments);
    let mut bench = Bench::new(&arguments.output, cells.len(), [(1, 0); 2]);
    let broken = testbed::measure(&cells, &tollgate, &mut bench);

    let complete = |report| report::complete(report, &cells);
    let report = bench.publish_picture("strictness", complete, report::picture)?;

    let failure = match (report::exceeded(&report), broken) {
        (0, 0) => return Ok(()),
        (0, broken) => format!("{} could not be measured", counted(broken, "cell")),
        (exceeded, _) => format!(
            "more was admitted than the bound allows in {}",
            counted(exceeded, "cell")
        ),
    };
    Err(anyhow!(failure))
}
