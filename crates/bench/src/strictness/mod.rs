//! The strictness experiment: what replicas admit together. Processes of the real server share a
//! real store, under an open-loop load that does not wait for responses.
//!
//! - `cells`: the cells of the experiment, from `series.json`, the bound of each by formula, and the
//!   limits that are configured.
//! - `schedule`: when each request is due.
//! - `store`, `fleet`: the processes that are started, and whether their retry times are correct.
//! - `figures`: the figures of a cell, also relative to an ideal limiter.
//! - `testbed`: runs all cells.
//! - `report`: the tables with the goals, the picture and what is wrong.
//!
//! `tollgate-load` sends the requests, and `tollgate-audit` judges by how much a limit was exceeded.
//! Nothing here depends on how a mode is implemented: replicas get the same requests as from any
//! client.

mod cells;
mod figures;
mod fleet;
mod report;
mod schedule;
mod store;
mod testbed;

use clap::builder::RangedU64ValueParser;

use self::cells::{Mode, cells};
use crate::harness::prelude::*;

#[derive(Debug, clap::Args)]
pub(crate) struct StrictnessArguments {
    #[command(flatten)]
    bench: BenchArguments,
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
pub(crate) fn run(arguments: &StrictnessArguments) -> Result<()> {
    let tollgate = arguments.bench.tollgate()?;
    let cells = cells(arguments);
    let mut bench = Bench::new(&arguments.bench, [(1, 0); 2]);
    let broken = testbed::measure(&cells, &tollgate, &mut bench);

    let report = bench.publish("strictness", |report| report::complete(report, &cells))?;
    let exceeded = report::exceeded(&report);
    ensure!(
        exceeded == 0,
        "more was admitted than the bound allows in {}",
        counted(exceeded, "cell")
    );
    let cells = counted(broken, "cell");
    ensure!(broken == 0, "{cells} could not be measured");
    Ok(())
}
