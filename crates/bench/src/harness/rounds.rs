//! Measures subjects in turn, so that noise on the machine affects all of them, and publishes the
//! result: numbers and a picture to files, tables to standard output.

use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::others::Usage;
use super::report::Report;
use super::row::{Figures, Row};

/// The options that every benchmark has.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct BenchArguments {
    /// Measure less and in shorter rounds, as a smoke test; do not quote its numbers
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure only cases whose name contains this text; can be repeated
    #[arg(long)]
    case: Vec<String>,
    /// Output for the numbers: a .json file, or a directory for a file with the name of the
    /// benchmark. The picture is written to the same directory
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
    /// Path of the tollgate binary, for benchmarks that run it; defaults to the one in the directory
    /// of this program
    #[arg(long)]
    tollgate: Option<PathBuf>,
}

impl BenchArguments {
    /// Whether a case is to be measured: all are, unless some are named.
    pub(crate) fn has(&self, case: &str) -> bool {
        self.case.is_empty() || self.case.iter().any(|text| case.contains(text))
    }

    /// The file for the numbers of the benchmark with this name.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        match self.out.extension() {
            Some(extension) if extension == "json" => self.out.clone(),
            _ => self.out.join(name).with_extension("json"),
        }
    }

    /// The tollgate binary.
    pub(crate) fn tollgate(&self) -> Result<PathBuf> {
        let program = match &self.tollgate {
            Some(program) => program.clone(),
            None => std::env::current_exe()?.with_file_name("tollgate"),
        };
        ensure!(
            program.is_file(),
            "{} not found; build it with `cargo build --release --package tollgate-server`, \
             or pass another path with --tollgate",
            program.display()
        );
        Ok(program)
    }
}

/// A benchmark that is running.
pub(crate) struct Bench {
    arguments: BenchArguments,
    pub(crate) rounds: usize,
    /// The length of a round.
    pub(crate) length: Duration,
    /// Whether subjects need a shorter round before the first one that is measured.
    pub(crate) is_warmed_up: bool,
    pub(crate) report: Report,
    /// The names of the cases so far, measured or not.
    cases: Vec<String>,
}

/// A subject that is ready to be measured under a load.
pub(crate) struct Entrant<'a> {
    subject: String,
    load: String,
    round: Box<dyn FnMut(Duration) -> Result<Figures> + 'a>,
}

impl<'a> Entrant<'a> {
    /// `round` makes decisions for about the given time and returns the figures of the round.
    pub(crate) fn new(
        subject: impl Into<String>,
        load: impl Into<String>,
        round: impl FnMut(Duration) -> Result<Figures> + 'a,
    ) -> Self {
        Self {
            subject: subject.into(),
            load: load.into(),
            round: Box::new(round),
        }
    }

    fn round(&mut self, length: Duration) -> Result<Figures> {
        (self.round)(length).with_context(|| format!("{}, {}", self.subject, self.load))
    }
}

impl Bench {
    /// The pairs are the number of rounds and their length in milliseconds: with `--quick`, and
    /// without.
    pub(crate) fn new(arguments: &BenchArguments, [quick, full]: [(usize, u64); 2]) -> Self {
        let (rounds, length_ms) = if arguments.quick { quick } else { full };
        let length = Duration::from_millis(length_ms);
        Self {
            arguments: arguments.clone(),
            rounds,
            length,
            is_warmed_up: true,
            report: Report::new(rounds, length),
            cases: Vec::new(),
        }
    }

    /// Names the servers and programs that take part, with their versions.
    pub(crate) fn uses(&mut self, programs: Vec<String>) {
        eprintln!("{}", programs.join(", "));
        self.report.programs = programs;
    }

    /// Announces a case on standard error; standard output holds only the result. Returns false if
    /// the case is not to be measured.
    pub(crate) fn begins(&mut self, case: &str) -> bool {
        self.cases.push(case.to_owned());
        let is_chosen = self.arguments.has(case);
        if is_chosen {
            eprintln!("- {case}");
        }
        is_chosen
    }

    /// Reports what is wrong, once.
    pub(crate) fn remark(&mut self, remark: String) {
        if !self.report.remarks.contains(&remark) {
            eprintln!("  {remark}");
            self.report.remarks.push(remark);
        }
    }

    /// Measures the entrants of a case in turn, and returns the rows that the report now has for
    /// them. `pids` are the processes that work for them.
    pub(crate) fn measure(
        &mut self,
        case: &str,
        pids: &[u32],
        mut entrants: Vec<Entrant<'_>>,
    ) -> Result<&mut [Row]> {
        if self.is_warmed_up {
            for entrant in &mut entrants {
                entrant.round(self.length / 4)?;
            }
        }

        let before = Usage::read(pids);
        let mut rounds = vec![Vec::with_capacity(self.rounds); entrants.len()];
        for number in 0..self.rounds {
            Self::show_progress(&format!("  round {} of {}", number + 1, self.rounds));
            for index in order_of_round(number, entrants.len()) {
                rounds[index].push(entrants[index].round(self.length)?);
            }
        }
        Self::show_progress("");
        self.report.others = self.report.others.max(Usage::share_since(before, pids));

        let measured = entrants.iter().zip(rounds);
        let rows = &mut self.report.rows;
        let first = rows.len();
        rows.extend(
            measured
                .map(|(entrant, rounds)| Row::new(case, &entrant.load, &entrant.subject, rounds)),
        );
        Ok(&mut rows[first..])
    }

    /// Replaces the last line of a terminal.
    fn show_progress(text: &str) {
        if io::stderr().is_terminal() {
            eprint!("\r\x1b[K{text}");
        }
    }

    /// Completes the report, writes the numbers and the picture to files, prints the tables and
    /// returns the report.
    pub(crate) fn publish(
        mut self,
        name: &str,
        complete: impl FnOnce(&mut Report),
    ) -> Result<Report> {
        ensure!(
            !self.report.rows.is_empty(),
            "no case has a name that contains {:?}; the cases are: {}",
            self.arguments.case.join(" or "),
            self.cases.join("; ")
        );
        complete(&mut self.report);

        let numbers = self.arguments.file(name);
        let picture = numbers.with_extension("svg");
        fs::create_dir_all(numbers.parent().unwrap_or(&numbers))?;
        serde_json::to_writer_pretty(File::create(&numbers)?, &self.report)?;
        fs::write(&picture, self.report.picture.to_string())?;
        eprintln!("wrote {} and {}", numbers.display(), picture.display());

        match write!(io::stdout(), "{}", self.report) {
            // The reader may close the pipe early, as `head` does.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(self.report),
        }
    }
}

/// The order of subjects in a round. Each round begins with another subject, so that no subject
/// always runs after the same one.
fn order_of_round(round: usize, subjects: usize) -> impl Iterator<Item = usize> {
    (0..subjects).map(move |index| (index + round) % subjects)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_subject_runs_once_and_another_one_first() {
        assert_eq!(order_of_round(0, 3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(order_of_round(4, 3).collect::<Vec<_>>(), [1, 2, 0]);
    }

    #[test]
    fn entrants_are_warmed_up_and_measured_in_turn() {
        let calls = std::cell::RefCell::new(Vec::new());
        let entrant = |name: &'static str| {
            let calls = &calls;
            Entrant::new(name, "1 thread", move |length: Duration| {
                calls.borrow_mut().push((name, length.as_millis()));
                Ok(Figures::from([("ms", length.as_secs_f64() * 1e3)]))
            })
        };
        let mut bench = Bench::new(&BenchArguments::default(), [(1, 9), (2, 40)]);
        let entrants = vec![entrant("a"), entrant("b")];
        let rows = bench.measure("hot", &[], entrants).unwrap();
        let order = [
            ("a", 10),
            ("b", 10),
            ("a", 40),
            ("b", 40),
            ("b", 40),
            ("a", 40),
        ];
        assert_eq!(*calls.borrow(), order);
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.subject.as_str(), row.rounds.len(), row.median("ms")))
            .collect();
        assert_eq!(found, [("a", 2, 40.0), ("b", 2, 40.0)]);
    }

    #[test]
    fn an_error_names_the_subject() {
        let entrant = Entrant::new("a", "1 thread", |_| Err(anyhow::anyhow!("it denied")));
        let mut bench = Bench::new(&BenchArguments::default(), [(1, 1), (1, 1)]);
        let error = bench.measure("hot", &[], vec![entrant]).unwrap_err();
        assert_eq!(format!("{error:#}"), "a, 1 thread: it denied");
    }

    #[test]
    fn named_cases_are_measured_and_all_by_default() {
        let named = BenchArguments {
            case: vec!["hot".to_owned(), "zipf".to_owned()],
            ..BenchArguments::default()
        };
        assert!(named.has("denied-hot") && named.has("zipf") && !named.has("uniform"));
        assert!(BenchArguments::default().has("uniform"));

        let mut bench = Bench::new(&named, [(1, 1), (1, 1)]);
        assert!(!bench.begins("uniform") && !bench.begins("new keys"));
        let error = bench.publish("x", |_| ()).map(drop).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no case has a name that contains \"hot or zipf\"; the cases are: uniform; new keys"
        );
    }

    #[test]
    fn a_directory_means_the_file_of_this_name_in_it() {
        let file = |out: &str| {
            let out = PathBuf::from(out);
            let arguments = BenchArguments {
                out,
                ..BenchArguments::default()
            };
            arguments.file("redis")
        };
        assert_eq!(file("a/b.json"), Path::new("a/b.json"));
        assert_eq!(file("a/b"), Path::new("a/b/redis.json"));
    }
}
