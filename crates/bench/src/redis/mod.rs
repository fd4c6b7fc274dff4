//! The Redis store, redis-benchmark and plain clients, all of which run the same script on one
//! temporary server.

mod check_script;
mod entrant;
mod picture;
mod ratios;
mod report;
mod run;
mod subjects;
mod table;
mod target;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use testkit::servers::Flavor;

use self::subjects::SUBJECTS;
use crate::output;
use crate::progress::Progress;
use crate::server::Kind;

/// One hot key, and as many keys as a busy service has clients.
const KEYS: [u32; 2] = [1, 100_000];
/// One caller for the latency, and many for the throughput.
const CALLERS: [usize; 3] = [1, 64, CROWD];
/// The number of callers for the throughput target.
const CROWD: usize = 256;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run fewer and shorter rounds, as a smoke test; do not quote its numbers
    #[arg(long)]
    quick: bool,
    /// Output for the numbers: a .json file, or a directory in which redis.json is written. The
    /// chart is written to the same directory
    #[arg(long, default_value = "target/bench/redis.json")]
    out: PathBuf,
    /// The store server to start
    #[arg(long, value_enum, default_value = "redis")]
    flavor: Kind,
    /// Measure only this number of callers; can be repeated
    #[arg(long, value_parser = one_of_callers)]
    callers: Vec<usize>,
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
    callers: Vec<usize>,
    subjects: Vec<String>,
}

impl Settings {
    fn new(arguments: &Arguments) -> Self {
        let (rounds, round_ms) = if arguments.quick { (3, 120) } else { (7, 700) };
        let is_chosen =
            |callers: &usize| arguments.callers.is_empty() || arguments.callers.contains(callers);
        Self {
            flavor: arguments.flavor.flavor(),
            rounds,
            round: Duration::from_millis(round_ms),
            callers: CALLERS.into_iter().filter(is_chosen).collect(),
            subjects: arguments.subject.clone(),
        }
    }

    fn has(&self, subject: &str) -> bool {
        self.subjects.is_empty() || self.subjects.iter().any(|name| name == subject)
    }
}

fn one_of_callers(text: &str) -> Result<usize, String> {
    let callers = text
        .parse()
        .ok()
        .filter(|callers| CALLERS.contains(callers));
    callers.ok_or_else(|| format!("must be one of {CALLERS:?}"))
}

/// Measures, prints the tables and writes the numbers and the chart.
pub(crate) fn run(arguments: &Arguments) -> io::Result<()> {
    let settings = Settings::new(arguments);
    let mut progress = Progress::new(KEYS.len() * settings.callers.len());
    let report = run::measure(&settings, &mut progress)?;
    output::save(
        &output::file(&arguments.out, "redis.json"),
        &report,
        &picture::draw(&report),
    )?;
    output::print(&report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_measured_numbers_of_callers_can_be_chosen() {
        assert_eq!(one_of_callers("64"), Ok(64));
        assert!(one_of_callers("65").is_err() && one_of_callers("x").is_err());
    }
}
