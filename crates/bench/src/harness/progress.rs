//! Progress messages on standard error, so that standard output holds only the result.

use std::io::{IsTerminal as _, Write as _, stderr};

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
