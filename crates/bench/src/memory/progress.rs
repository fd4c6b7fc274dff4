//! What runs now, on standard error, so that standard output holds the result alone.

use std::io::{IsTerminal as _, Write as _, stderr};

#[derive(Debug)]
pub(super) struct Progress {
    done: usize,
    steps: usize,
    is_terminal: bool,
}

impl Progress {
    pub(super) fn new(steps: usize) -> Self {
        Self { done: 0, steps, is_terminal: stderr().is_terminal() }
    }

    /// The next of the steps begins.
    pub(super) fn step(&mut self, what: &str, threads: usize) {
        self.done += 1;
        self.clear();
        eprintln!(
            "[{}/{}] {what}, {threads} {}",
            self.done,
            self.steps,
            if threads == 1 { "thread" } else { "threads" }
        );
    }

    /// Something worth knowing that is not a step.
    pub(super) fn note(&self, what: &str) {
        self.clear();
        eprintln!("      {what}");
    }

    /// Rounds are many; they are shown where they can replace each other.
    pub(super) fn round(&self, round: usize, rounds: usize, subject: &str) {
        if self.is_terminal {
            eprint!("\r\x1b[K      round {} of {rounds}: {subject}", round + 1);
            // A progress line that cannot be shown is no reason to stop measuring.
            drop(stderr().flush());
        }
    }

    pub(super) fn clear(&self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }
}
