//! Limits on a shared server that are decided from memory: leased and eventual ones beside the
//! embedded store, strict ones and the trypema crate, in speed and in truth.

mod case;
mod crowd;
mod entrant;
mod picture;
mod ratios;
mod report;
mod run;
mod subjects;
mod table;
mod truth;

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
    /// Fewer and shorter rounds: to see that everything runs, not to quote.
    #[arg(long)]
    quick: bool,
    /// Where the numbers go, a .json file or a directory for leases.json; the chart goes beside
    /// them.
    #[arg(long, default_value = "target/bench/leases.json")]
    out: PathBuf,
    /// Whose server is asked.
    #[arg(long, value_enum, default_value = "redis")]
    flavor: Kind,
    /// Only this subject. May be given several times.
    #[arg(long, value_parser = SUBJECTS)]
    subject: Vec<String>,
}

/// How much is measured.
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
