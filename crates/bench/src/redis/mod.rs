//! The Redis store beside redis-benchmark and plain clients, all asking one throwaway server the
//! same question.

mod entrant;
mod picture;
mod question;
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

/// One key that everybody wants, and as many as a busy service has callers.
const KEYS: [u32; 2] = [1, 100_000];
/// A lone caller for the latency, and crowds for the throughput.
const CALLERS: [usize; 3] = [1, 64, CROWD];
/// The crowd that the throughput is judged by.
const CROWD: usize = 256;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Fewer and shorter rounds: to see that everything runs, not to quote.
    #[arg(long)]
    quick: bool,
    /// Where the numbers go, a .json file or a directory for redis.json; the chart goes beside
    /// them.
    #[arg(long, default_value = "target/bench/redis.json")]
    out: PathBuf,
    /// Whose server is asked.
    #[arg(long, value_enum, default_value = "redis")]
    flavor: Kind,
    /// Only so many callers. May be given several times.
    #[arg(long, value_parser = one_of_callers)]
    callers: Vec<usize>,
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
    callers.ok_or_else(|| format!("the numbers of callers are {CALLERS:?}"))
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
