//! The embedded store compared with other in-process rate limiters: time per decision by kind of
//! traffic, bytes per key, and a flood of new keys.

mod allocator;
mod footprint;
mod report;
mod subjects;
mod timed;

use clap::ValueEnum as _;

use self::subjects::{ATOMIC_COUNTER, FLOODED, KEYED, SINGLE, Setup};
use self::timed::{Case, Filled, Load, NS, names, order};
use crate::harness::prelude::*;

/// The cases of rows about memory.
const FOOTPRINT: &str = "bytes per key";
const FLOOD: &str = "flood";

/// Measures, prints the tables and writes the numbers and the picture.
pub(crate) fn run(arguments: &BenchArguments) -> Result<()> {
    let keys = if arguments.quick { 100_000 } else { 1_000_000 };
    // The bound on keys is measured by the flood; elsewhere it is too high to matter.
    let ample = Setup::ample(keys * 2);
    let mut bench = Bench::new(arguments, [(5, 20), (7, 250)]);
    bench.is_warmed_up = false;

    for case in Case::value_variants() {
        let name = word(case);
        if !bench.begins(&name) {
            continue;
        }
        if *case != Case::Insert {
            measure_case(&mut bench, *case, &name, keys)?;
            continue;
        }
        // No calibration is needed: every key is inserted once.
        let names = names(keys);
        let entrants = KEYED
            .iter()
            .map(|kind| Entrant::new(kind.name, "1 thread", |_| Ok((kind.insert)(ample, &names))));
        bench.measure(&name, &[], entrants.collect())?;
    }

    if bench.begins(FOOTPRINT) {
        let names = names(keys);
        for kind in KEYED {
            let figures = (kind.footprint)(ample, &names);
            add_row(&mut bench, FOOTPRINT, keys, kind.name, figures);
        }
    }
    if bench.begins("flood of new keys") {
        let scarce = Setup::scarce(keys);
        for kind in FLOODED {
            let mut figures = (kind.flood)(scarce, keys * 10);
            if kind.name.starts_with("tollgate") {
                figures.insert("keys_max", f64::from(keys));
            }
            add_row(&mut bench, FLOOD, keys * 10, kind.name, figures);
        }
    }
    bench.publish("memory", report::complete).map(drop)
}

/// Adds a row of figures that were measured once.
fn add_row(bench: &mut Bench, case: &str, keys: u32, subject: &str, figures: Figures) {
    let row = Row::new(case, &counted(keys as usize, "key"), subject, vec![figures]);
    bench.report.rows.push(row);
}

/// Measures a case with every number of threads, on subjects that contain all of its keys.
fn measure_case(bench: &mut Bench, case: Case, name: &str, keys: u32) -> Result<()> {
    let count = case.keys(keys);
    let (names, order) = (names(count), order(case, count));
    let mut kinds = if count == 1 { SINGLE } else { KEYED }.to_vec();
    let setup = if case.is_allowed() {
        kinds.push(ATOMIC_COUNTER);
        Setup::ample(keys * 2)
    } else {
        Setup::scarce(keys * 2)
    };
    let filled = kinds.iter();
    let filled = filled.map(|kind| (kind.name, (kind.fill)(setup, &names, !case.is_allowed())));
    let mut filled: Vec<(&str, Filled)> = filled.collect();

    for threads in [1, 2] {
        let mut load = Load {
            keys: &names,
            order: &order,
            start: 0,
            operations: 0,
            threads,
            case,
        };
        // Measured with the first subject, then the same for all.
        load.operations = calibrate(bench.length, |operations| {
            Ok(filled[0].1(&Load { operations, ..load })[NS])
        })?;
        let crowd = counted(threads, "thread");
        let entrants = filled.iter_mut().map(|(subject, filled)| {
            let mut load = load;
            Entrant::new(*subject, &crowd, move |_| {
                let figures = filled(&load);
                load.start += load.operations as usize;
                Ok(figures)
            })
        });
        bench.measure(name, &[], entrants.collect())?;
    }
    Ok(())
}
