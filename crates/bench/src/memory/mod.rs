//! The embedded store compared with other in-process rate limiters: time per decision by kind of
//! traffic, bytes per key, and a flood of new keys.

mod bytes;
mod cap;
mod cases;
mod entrant;
mod keys;
mod picture;
mod report;
mod run;
mod subjects;
mod table;

use std::io;
use std::path::PathBuf;

use self::cap::Flood;
use self::cases::{Case, STAGES};
use self::entrant::Entrant;
use self::report::Report;
use self::subjects::{Setup, SubjectQuota};
use crate::machine::Machine;
use crate::output;
use crate::progress::Progress;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Use fewer keys and shorter rounds, as a smoke test; do not quote its numbers
    #[arg(long)]
    quick: bool,
    /// Output .json file for the numbers; the chart is written to the same directory
    #[arg(long, default_value = "target/bench/memory.json")]
    out: PathBuf,
    /// Measure only this case, without bytes per key and the flood; can be repeated
    #[arg(long)]
    case: Vec<Case>,
    /// Measure only this subject; can be repeated
    #[arg(long)]
    subject: Vec<String>,
}

/// What is measured, and for how long.
#[derive(Debug)]
struct Settings {
    keys: u32,
    offender_keys: u32,
    rounds: usize,
    round_ns: f64,
    flood: Flood,
    cases: Vec<Case>,
    subjects: Vec<String>,
}

impl Settings {
    fn new(arguments: &Arguments) -> Self {
        let (keys, round_ns) = if arguments.quick {
            (100_000, 20e6)
        } else {
            (1_000_000, 250e6)
        };
        Self {
            keys,
            offender_keys: 10_000,
            rounds: if arguments.quick { 5 } else { 7 },
            round_ns,
            flood: Flood {
                keys: keys * 10,
                offenders: 1_000,
            },
            cases: arguments.case.clone(),
            subjects: arguments.subject.clone(),
        }
    }

    /// The bound on keys is measured by the flood; here it is too high to matter.
    fn setup(&self, quota: SubjectQuota) -> Setup {
        Setup {
            quota,
            keys_max: self.keys * 2,
        }
    }

    fn has(&self, case: Case) -> bool {
        self.cases.is_empty() || self.cases.contains(&case)
    }

    fn chosen(&self, mut entrants: Vec<Box<dyn Entrant>>) -> Vec<Box<dyn Entrant>> {
        entrants.retain(|entrant| {
            self.subjects.is_empty() || self.subjects.iter().any(|name| name == entrant.name())
        });
        entrants
    }

    fn steps(&self) -> usize {
        let timed = STAGES
            .iter()
            .flat_map(|stage| stage.cases)
            .filter(|case| self.has(**case))
            .count();
        let memory = if self.cases.is_empty() { 2 } else { 0 };
        timed * run::THREADS.len() + usize::from(self.has(Case::Insert)) + memory
    }
}

/// Measures, prints the tables and writes the numbers and the chart.
pub(crate) fn run(arguments: &Arguments) -> io::Result<()> {
    let settings = Settings::new(arguments);
    if settings.chosen(subjects::keyed()).is_empty() {
        let known: Vec<_> = subjects::keyed()
            .iter()
            .map(|entrant| entrant.name())
            .collect();
        return Err(io::Error::other(format!(
            "unknown subject; expected one of: {}",
            known.join(", ")
        )));
    }
    let report = measure(&settings);
    output::save(&arguments.out, &report, &picture::draw(&report))?;
    output::print(&report)
}

fn measure(settings: &Settings) -> Report {
    let mut progress = Progress::new(settings.steps());
    let mut rows = Vec::new();
    for stage in STAGES
        .iter()
        .filter(|stage| stage.cases.iter().any(|case| settings.has(*case)))
    {
        rows.extend(run::stage(stage, settings, &mut progress));
    }
    if settings.has(Case::Insert) {
        rows.extend(run::insert(settings, &mut progress));
    }
    let with_memory = settings.cases.is_empty();
    let bytes_per_key = if with_memory {
        run::bytes(settings, &mut progress)
    } else {
        Vec::new()
    };
    let cap = if with_memory {
        run::floods(settings, &mut progress)
    } else {
        Vec::new()
    };
    progress.clear();
    Report {
        machine: Machine::this(),
        rounds: settings.rounds,
        rows,
        bytes_per_key,
        cap,
    }
}
