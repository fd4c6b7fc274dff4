//! What runs now, on standard error, so that standard output holds the result alone.

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

    /// The next of the steps begins.
    pub(crate) fn step(&mut self, what: &str) {
        self.done += 1;
        self.clear();
        eprintln!("[{}/{}] {what}", self.done, self.steps);
    }

    /// Something worth knowing that is not a step.
    pub(crate) fn note(&self, what: &str) {
        self.clear();
        eprintln!("      {what}");
    }

    /// Rounds are many; they are shown where they can replace each other.
    pub(crate) fn round(&self, round: usize, rounds: usize, subject: &str) {
        if self.is_terminal {
            eprint!("\r\x1b[K      round {} of {rounds}: {subject}", round + 1);
            // A progress line that cannot be shown is no reason to stop measuring.
            drop(stderr().flush());
        }
    }

    /// What goes on until the next step is done, where it can be replaced by that.
    pub(crate) fn now(&self, what: &str) {
        if self.is_terminal {
            eprint!("\r\x1b[K[{}/{}] {what} ..", self.done + 1, self.steps);
            drop(stderr().flush());
        }
    }

    pub(crate) fn clear(&self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }
}
