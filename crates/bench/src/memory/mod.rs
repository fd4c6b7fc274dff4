//! The embedded store compared with other in-process rate limiters: time per decision by kind of
//! traffic, bytes per key, and a flood of new keys.

mod allocator;
mod cases;
mod footprint;
mod report;
mod subjects;
mod timed;

use anyhow::Result;
use clap::builder::PossibleValuesParser;

use self::cases::{Case, STAGES};
use self::footprint::KEYS_MAX;
use self::subjects::{ATOMIC_COUNTER, FLOODED, KEYED, Kind, SINGLE, Setup, SubjectQuota};
use self::timed::{Filled, Load};
use crate::harness::{Bench, Entrant, OutputArguments, Row, calibrate, counted, is_chosen, word};

/// The numbers of threads that are measured.
const THREADS: [usize; 2] = [1, 2];
/// The cases of rows about memory.
const FOOTPRINT: &str = "bytes per key";
const FLOOD: &str = "flood";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: OutputArguments,
    /// Measure only this case, without bytes per key and the flood; can be repeated
    #[arg(long)]
    case: Vec<Case>,
    /// Measure only this subject; can be repeated
    #[arg(long, value_parser = PossibleValuesParser::new(subjects::names()))]
    subject: Vec<String>,
}

impl Arguments {
    const fn keys(&self) -> u32 {
        if self.output.quick {
            100_000
        } else {
            1_000_000
        }
    }

    /// The bound on keys is measured by the flood; elsewhere it is too high to matter.
    const fn setup(&self, quota: SubjectQuota) -> Setup {
        Setup {
            quota,
            keys_max: self.keys() * 2,
        }
    }

    fn has(&self, case: Case) -> bool {
        is_chosen(&self.case, &case)
    }

    fn chosen(&self, kinds: &[Kind]) -> Vec<Kind> {
        let is_chosen = |kind: &&Kind| is_chosen(&self.subject, &kind.name);
        kinds.iter().filter(is_chosen).copied().collect()
    }

    fn steps(&self) -> usize {
        let cases = STAGES.into_iter().flatten();
        let timed = cases.filter(|case| self.has(**case)).count();
        let memory = if self.case.is_empty() { 2 } else { 0 };
        timed * THREADS.len() + usize::from(self.has(Case::Insert)) + memory
    }
}

/// Measures, prints the tables and writes the numbers and the picture.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut bench = Bench::new(&arguments.output, arguments.steps(), [(5, 20), (7, 250)]);
    bench.warm_up = None;

    for stage in STAGES {
        if stage.iter().any(|case| arguments.has(*case)) {
            measure_stage(arguments, stage, &mut bench)?;
        }
    }
    if arguments.has(Case::Insert) {
        measure_insert(arguments, &mut bench)?;
    }
    if arguments.case.is_empty() {
        measure_memory(arguments, &mut bench);
    }

    let panels = [("Nanoseconds per decision: shorter is better", timed::NS)];
    let title = "Nanoseconds per decision, in one process";
    bench.publish("memory", title, &panels, report::complete)
}

/// Measures the cases of a stage with every number of threads.
fn measure_stage(arguments: &Arguments, stage: &[Case], bench: &mut Bench) -> Result<()> {
    let Some(case) = stage.first() else {
        return Ok(());
    };
    let count = case.keys(arguments.keys());
    let names = cases::names(count);
    let setup = arguments.setup(case.quota());
    let use_up = !case.is_allowed();
    let mut kinds = arguments.chosen(if count == 1 { &SINGLE } else { &KEYED });
    if !use_up {
        kinds.extend(arguments.chosen(&[ATOMIC_COUNTER]));
    }

    bench.progress.note(&format!(
        "filling {} subjects with {count} keys",
        kinds.len()
    ));
    let fill = |kind: &Kind| (kind.name, (kind.fill)(&setup, &names, use_up));
    let mut filled: Vec<_> = kinds.iter().map(fill).collect();
    for case in stage.iter().filter(|case| arguments.has(**case)) {
        let order = cases::order(&case.distribution(count));
        for threads in THREADS {
            let load = Load {
                keys: &names,
                order: &order,
                start: 0,
                operations: 0,
                threads,
                case: *case,
            };
            measure_load(load, &mut filled, bench)?;
        }
    }
    Ok(())
}

fn measure_load(
    mut load: Load<'_>,
    filled: &mut [(&'static str, Filled)],
    bench: &mut Bench,
) -> Result<()> {
    let (case, crowd) = (word(&load.case), counted(load.threads, "thread"));
    bench.progress.step(&format!("{case}, {crowd}"));
    // Measured with the first subject, then the same for all.
    if let Some((_, first)) = filled.first_mut() {
        load.operations = calibrate(bench.length, |operations| {
            Ok(first(&Load { operations, ..load })[timed::NS])
        })?;
    }

    let entrants = filled.iter_mut().map(|(name, filled)| {
        let mut load = load;
        Entrant::new(*name, &crowd, move |_| {
            let figures = filled(&load);
            load.start += load.operations as usize;
            Ok(figures)
        })
    });
    bench.measure(&case, &[], entrants.collect())?;
    Ok(())
}

/// Measures inserting new keys into an empty subject. No calibration is needed: every key is
/// inserted once.
fn measure_insert(arguments: &Arguments, bench: &mut Bench) -> Result<()> {
    let names = cases::names(arguments.keys());
    let setup = arguments.setup(SubjectQuota::AMPLE);
    let case = word(&Case::Insert);
    bench.progress.step(&case);

    let kinds = arguments.chosen(&KEYED);
    let entrants = kinds
        .iter()
        .map(|kind| Entrant::new(kind.name, "1 thread", |_| Ok((kind.insert)(&setup, &names))));
    bench.measure(&case, &[], entrants.collect())?;
    Ok(())
}

/// Measures bytes per key, and the flood for the subjects where it is meaningful.
fn measure_memory(arguments: &Arguments, bench: &mut Bench) {
    let keys = arguments.keys();
    bench.progress.step("bytes per key");
    let (setup, names) = (arguments.setup(SubjectQuota::AMPLE), cases::names(keys));
    let load = counted(names.len(), "key");
    for kind in arguments.chosen(&KEYED) {
        let figures = (kind.footprint)(&setup, &names);
        let row = Row::new(FOOTPRINT, &load, kind.name, vec![figures]);
        bench.report.rows.push(row);
    }

    bench.progress.step("flood of new keys");
    let setup = Setup {
        quota: SubjectQuota::SCARCE,
        keys_max: keys,
    };
    let sent = keys * 10;
    let load = counted(sent as usize, "key");
    for kind in arguments.chosen(&FLOODED) {
        bench.progress.note(kind.name);
        let mut figures = (kind.flood)(&setup, sent);
        if kind.name.starts_with("tollgate") {
            figures.insert(KEYS_MAX, f64::from(setup.keys_max));
        }
        let row = Row::new(FLOOD, &load, kind.name, vec![figures]);
        bench.report.rows.push(row);
    }
}
