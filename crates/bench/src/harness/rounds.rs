//! Measures subjects in turn, so that noise on the machine affects all of them.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::others::Usage;
use super::output::{self, OutputArguments};
use super::panels::Picture;
use super::report::Report;
use super::row::{Figures, Row};

/// A benchmark that is running.
pub(crate) struct Bench {
    pub(crate) rounds: usize,
    /// The length of a round.
    pub(crate) length: Duration,
    /// A warm-up round is shorter than a measured one by this factor; absent for subjects that need
    /// no warm-up.
    pub(crate) warm_up: Option<u32>,
    pub(crate) progress: Progress,
    output: OutputArguments,
    pub(crate) report: Report,
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
    /// A benchmark with this number of steps. The pairs are the number of rounds and their length in
    /// milliseconds: with `--quick`, and without.
    pub(crate) fn new(
        arguments: &OutputArguments,
        steps: usize,
        [quick, full]: [(usize, u64); 2],
    ) -> Self {
        let (rounds, length_ms) = if arguments.quick { quick } else { full };
        let length = Duration::from_millis(length_ms);
        Self {
            rounds,
            length,
            warm_up: Some(4),
            progress: Progress::new(steps),
            output: arguments.clone(),
            report: Report::new(rounds, length),
        }
    }

    /// Names the servers and programs that take part, with their versions.
    pub(crate) fn uses(&mut self, programs: Vec<String>) {
        self.progress.note(&programs.join(", "));
        self.report.programs = programs;
    }

    /// Completes the report, writes the numbers and a picture with a panel for each title and
    /// figure to files, and prints the tables.
    pub(crate) fn publish(
        self,
        name: &str,
        title: &str,
        panels: &[(&str, &str)],
        complete: impl FnOnce(Report) -> Report,
    ) -> Result<()> {
        let picture = |report: &Report| report.picture(title, panels);
        self.publish_picture(name, complete, picture).map(drop)
    }

    /// The same with a picture of its own. Returns the report.
    pub(crate) fn publish_picture(
        self,
        name: &str,
        complete: impl FnOnce(Report) -> Report,
        picture: impl FnOnce(&Report) -> Picture,
    ) -> Result<Report> {
        self.progress.clear();
        let report = complete(self.report);
        let numbers = self.output.file(name);
        output::save(&numbers, &report, &picture(&report))?;
        output::print(&report)?;
        Ok(report)
    }

    /// Reports what is wrong, once.
    pub(crate) fn remark(&mut self, remark: String) {
        if !self.report.remarks.contains(&remark) {
            self.progress.note(&remark);
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
        if let Some(factor) = self.warm_up {
            for entrant in &mut entrants {
                entrant.round(self.length / factor)?;
            }
        }

        let before = Usage::read(pids);
        let mut rounds = vec![Vec::with_capacity(self.rounds); entrants.len()];
        for number in 0..self.rounds {
            for index in order_of_round(number, entrants.len()) {
                let entrant = &mut entrants[index];
                self.progress.round(number, self.rounds, &entrant.subject);
                rounds[index].push(entrant.round(self.length)?);
            }
        }
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
}

/// The order of subjects in a round. Each round begins with another subject, so that no subject
/// always runs after the same one.
fn order_of_round(round: usize, subjects: usize) -> impl Iterator<Item = usize> {
    (0..subjects).map(move |index| (index + round) % subjects)
}

/// Progress messages on standard error, so that standard output holds only the result.
#[derive(Debug)]
pub(crate) struct Progress {
    done: usize,
    steps: usize,
    is_terminal: bool,
}

impl Progress {
    pub(crate) fn new(steps: usize) -> Self {
        Self {
            done: 0,
            steps,
            is_terminal: stderr().is_terminal(),
        }
    }

    /// Announces the next step.
    pub(crate) fn step(&mut self, what: &str) {
        self.done += 1;
        self.clear();
        eprintln!("[{}/{}] {what}", self.done, self.steps);
    }

    /// Prints a note that is not a step.
    pub(crate) fn note(&self, what: &str) {
        self.clear();
        eprintln!("      {what}");
    }

    /// Shows the current round on a terminal, replacing the previous one.
    pub(crate) fn round(&self, round: usize, rounds: usize, subject: &str) {
        if self.is_terminal {
            eprint!("\r\x1b[K      round {} of {rounds}: {subject}", round + 1);
            // A progress line that cannot be shown does not stop the benchmark.
            drop(stderr().flush());
        }
    }

    pub(crate) fn clear(&self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
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
        let mut bench = Bench::new(&OutputArguments::default(), 1, [(1, 9), (2, 40)]);
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
        let mut bench = Bench::new(&OutputArguments::default(), 1, [(1, 1), (1, 1)]);
        let error = bench.measure("hot", &[], vec![entrant]).unwrap_err();
        assert_eq!(format!("{error:#}"), "a, 1 thread: it denied");
    }
}
