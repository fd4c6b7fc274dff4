//! Shows the progress of a load on standard error: one line that is redrawn on a terminal, and a
//! line every few seconds elsewhere.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::time::Duration;

use tollgate_load::LoadProgress;

use super::super::terminal::{plain, print_error};
use super::format::{millis, number};

/// The interval between lines where they cannot be redrawn.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct LoadProgressLine {
    is_quiet: bool,
    is_terminal: bool,
    /// Duration of the load.
    duration: Duration,
    /// When to print the next line where it cannot be redrawn.
    next: Duration,
}

impl LoadProgressLine {
    pub(super) fn new(is_quiet: bool, duration: Duration) -> Self {
        let is_terminal =
            stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        Self {
            is_quiet,
            is_terminal,
            duration,
            next: LINE_INTERVAL,
        }
    }

    pub(super) fn show(&mut self, progress: &LoadProgress) {
        if self.is_quiet {
            return;
        }

        if self.is_terminal {
            draw(&format!("\r\x1b[K{}", text(progress, self.duration)));
        } else if progress.elapsed >= self.next {
            self.next = progress.elapsed + LINE_INTERVAL;
            print_error(&text(progress, self.duration));
        }
    }

    /// Clears the line, so that the report can be printed.
    pub(super) fn clear(&self) {
        if !self.is_quiet && self.is_terminal {
            draw("\r\x1b[K");
        }
    }
}

/// Writes to standard error. Errors are ignored, as progress is not worth stopping for.
fn draw(text: &str) {
    let mut output = stderr().lock();
    drop(
        output
            .write_all(text.as_bytes())
            .and_then(|()| output.flush()),
    );
}

/// For example `3.2s of 10.0s  allowed 100  denied 3,100  p99 0.21ms`. Kept short, because a line
/// that wraps cannot be redrawn.
fn text(progress: &LoadProgress, duration: Duration) -> String {
    let requests = progress.requests;
    let total = duration.as_secs_f64();
    let mut parts = vec![match progress.elapsed.as_secs_f64() {
        elapsed if elapsed <= total => format!("{elapsed:.1}s of {total:.1}s"),
        _ => "last responses".to_owned(),
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
    use tollgate_load::RequestCounts;

    use super::*;

    #[test]
    fn the_line_has_only_counts_that_matter() {
        let requests = RequestCounts {
            allowed: 12_345_678,
            denied: 100,
            errors: 3,
            unsent: 7,
            ..RequestCounts::default()
        };
        let exceeded = vec!["a\x1b".to_owned()];
        let elapsed = Duration::from_millis(3_240);
        let progress = LoadProgress {
            elapsed,
            requests,
            p99_us: Some(1_234),
            exceeded,
        };
        let line = text(&progress, Duration::from_secs(10));
        assert_eq!(
            line,
            "3.2s of 10.0s  allowed 12,345,678  denied 100  errors 3  unsent 7  p99 1.23ms  \
             EXCEEDED: a\\u{1b}"
        );
        let quiet = LoadProgress {
            elapsed,
            requests: RequestCounts::default(),
            p99_us: None,
            exceeded: Vec::new(),
        };
        assert_eq!(
            text(&quiet, Duration::from_secs(1)),
            "last responses  allowed 0  denied 0"
        );
    }
}
