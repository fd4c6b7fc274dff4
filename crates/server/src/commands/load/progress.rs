//! How a load goes, on standard error: one line that is redrawn, or where that cannot be, a line
//! every few seconds.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::time::Duration;

use tollgate_load::Progress;

use super::super::terminal::{complain, plain};
use super::lines::{millis, number};

/// How often a line is written where it cannot be redrawn.
const EVERY: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Line {
    is_quiet: bool,
    is_terminal: bool,
    duration: Duration,
    next: Duration,
}

impl Line {
    pub(super) fn new(is_quiet: bool, duration: Duration) -> Self {
        let is_terminal =
            stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        Self {
            is_quiet,
            is_terminal,
            duration,
            next: EVERY,
        }
    }

    pub(super) fn show(&mut self, progress: &Progress) {
        if self.is_quiet {
            return;
        }
        if self.is_terminal {
            draw(&format!("\r\x1b[K{}", said(progress, self.duration)));
        } else if progress.elapsed >= self.next {
            self.next = progress.elapsed + EVERY;
            complain(&said(progress, self.duration));
        }
    }

    /// Leaves the place to what comes then.
    pub(super) fn clear(&self) {
        if !self.is_quiet && self.is_terminal {
            draw("\r\x1b[K");
        }
    }
}

/// Progress that cannot be shown is no reason to stop.
fn draw(text: &str) {
    let mut output = stderr().lock();
    drop(
        output
            .write_all(text.as_bytes())
            .and_then(|()| output.flush()),
    );
}

/// `3.2s of 10.0s  allowed 100  denied 3,100  p99 0.21ms`, as short as possible: a line that wraps
/// cannot be redrawn.
fn said(progress: &Progress, duration: Duration) -> String {
    let requests = progress.requests;
    let of = duration.as_secs_f64();
    let mut parts = vec![match progress.elapsed.as_secs_f64() {
        elapsed if elapsed <= of => format!("{elapsed:.1}s of {of:.1}s"),
        _ => "last answers".to_owned(),
    }];
    parts.push(format!("allowed {}", number(requests.allowed)));
    parts.push(format!("denied {}", number(requests.denied)));
    for (name, count) in [("errors", requests.errors), ("unsent", requests.unsent)] {
        if count > 0 {
            parts.push(format!("{name} {}", number(count)));
        }
    }
    if let Some(p99_us) = progress.p99_us {
        parts.push(format!("p99 {}", millis(p99_us)));
    }
    if let Some(name) = progress.exceeded.first() {
        parts.push(format!("EXCEEDED: {}", plain(name)));
    }
    parts.join("  ")
}

#[cfg(test)]
mod tests {
    use tollgate_load::Requests;

    use super::*;

    #[test]
    fn a_line_says_what_matters_and_fits() {
        let requests = Requests {
            allowed: 12_345_678,
            denied: 100,
            errors: 3,
            unsent: 7,
            ..Requests::default()
        };
        let exceeded = vec!["a\x1b".to_owned()];
        let elapsed = Duration::from_millis(3_240);
        let progress = Progress {
            elapsed,
            requests,
            p99_us: Some(1_234),
            exceeded,
        };
        let line = said(&progress, Duration::from_secs(10));
        assert_eq!(
            line,
            "3.2s of 10.0s  allowed 12,345,678  denied 100  errors 3  unsent 7  p99 1.23ms  EXCEEDED: a\\u{1b}"
        );
        let quiet = Progress {
            elapsed,
            requests: Requests::default(),
            p99_us: None,
            exceeded: Vec::new(),
        };
        assert_eq!(
            said(&quiet, Duration::from_secs(1)),
            "last answers  allowed 0  denied 0"
        );
    }
}
