//! Limits on a shared server that are decided from memory: leased and eventual limits compared with
//! the embedded store, with strict limits and with the trypema crate, in speed and in accuracy.

mod accuracy;
mod case;
mod crowd;
mod entrant;
mod picture;
mod ratios;
mod report;
mod run;
mod subjects;
mod table;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use testkit::servers::Flavor;

use self::case::Case;
use self::subjects::SUBJECTS;
use crate::output;
use crate::progress::Progress;
use crate::server::Kind;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run fewer and shorter rounds, as a smoke test; do not quote its numbers
    #[arg(long)]
    quick: bool,
    /// Output for the numbers: a .json file, or a directory in which leases.json is written. The
    /// chart is written to the same directory
    #[arg(long, default_value = "target/bench/leases.json")]
    out: PathBuf,
    /// The store server to start
    #[arg(long, value_enum, default_value = "redis")]
    flavor: Kind,
    /// Measure only this subject; can be repeated
    #[arg(long, value_parser = SUBJECTS)]
    subject: Vec<String>,
}

/// What is measured, and for how long.
#[derive(Debug)]
struct Settings {
    flavor: Flavor,
    rounds: usize,
    round: Duration,
    subjects: Vec<String>,
}

impl Settings {
    fn new(arguments: &Arguments) -> Self {
        let (rounds, round_ms) = if arguments.quick { (3, 60) } else { (7, 250) };
        Self {
            flavor: arguments.flavor.flavor(),
            rounds,
            round: Duration::from_millis(round_ms),
            subjects: arguments.subject.clone(),
        }
    }

    fn has(&self, subject: &str) -> bool {
        self.subjects.is_empty() || self.subjects.iter().any(|name| name == subject)
    }
}

/// Measures, prints the tables and writes the numbers and the chart.
pub(crate) fn run(arguments: &Arguments) -> io::Result<()> {
    let settings = Settings::new(arguments);
    let mut progress = Progress::new(Case::ALL.len() + 1);
    let report = run::measure(&settings, &mut progress)?;
    output::save(
        &output::file(&arguments.out, "leases.json"),
        &report,
        &picture::draw(&report),
    )?;
    output::print(&report)
}
