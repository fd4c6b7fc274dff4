//! Shows the progress of a replay as one line that is redrawn, if standard error is a terminal.

use std::io::{self, IsTerminal as _, Write as _};

use tollgate::{Clock, Micros, SystemClock};
use tollgate_simulate::SimulationProgress;
use tollgate_simulate::text::grouped;

/// The minimum interval between redraws.
const INTERVAL: Micros = Micros::from_millis(100);
/// The width of the bar in characters.
const WIDTH: u64 = 24;

/// The progress line of one input.
pub(super) struct ReplayProgressBar {
    activity: &'static str,
    /// Size of the input in bytes, if known.
    size: Option<u64>,
    /// `None` without a terminal.
    clock: Option<SystemClock>,
    started: Micros,
    drawn: Micros,
    /// Number of lines read before this input.
    lines_before: Option<u64>,
}

impl ReplayProgressBar {
    /// A line on standard error, if that is a terminal.
    pub(super) fn for_stderr(activity: &'static str, size: Option<u64>) -> Self {
        let is_terminal = io::stderr().is_terminal();
        let clock = is_terminal.then(SystemClock::new);
        let started = clock.as_ref().map_or(Micros::ZERO, Clock::now);

        Self {
            activity,
            size,
            clock,
            started,
            drawn: started,
            lines_before: None,
        }
    }

    /// Redraws the line, unless that was done within the last interval.
    pub(super) fn show(&mut self, progress: SimulationProgress) {
        let Some(now) = self.clock.as_ref().map(Clock::now) else {
            return;
        };
        let before = *self.lines_before.get_or_insert(progress.lines);
        if now.since(self.drawn) < INTERVAL {
            return;
        }

        self.drawn = now;
        let line = line(
            self.activity,
            progress,
            before,
            self.size,
            now.since(self.started),
        );
        write(&format!("\r\x1b[K{line}"));
    }

    /// Clears the line.
    pub(super) fn clear(&self) {
        if self.clock.is_some() {
            write("\r\x1b[K");
        }
    }
}

/// Writes to standard error. Errors are ignored, as progress is not worth stopping for.
fn write(text: &str) {
    let mut output = io::stderr().lock();
    drop(
        output
            .write_all(text.as_bytes())
            .and_then(|()| output.flush()),
    );
}

fn line(
    activity: &str,
    progress: SimulationProgress,
    lines_before: u64,
    size: Option<u64>,
    elapsed: Micros,
) -> String {
    let lines = progress.lines.saturating_sub(lines_before);
    let rate = u128::from(lines) * 1_000_000 / u128::from(elapsed.get().max(1));
    let rate = grouped(u64::try_from(rate).unwrap_or(u64::MAX));
    let counts = format!("{} lines, {rate}/s", grouped(progress.lines));

    let Some(size) = size.filter(|size| *size > 0) else {
        let megabytes = grouped(progress.bytes_read / 1_000_000);
        return format!("{activity}  {megabytes} MB  {counts}");
    };
    let part = |whole: u64| progress.bytes_read.min(size) * whole / size;
    let full = usize::try_from(part(WIDTH)).unwrap_or_default();
    let empty = usize::try_from(WIDTH).unwrap_or_default() - full;
    let bar = format!("{}{}", "#".repeat(full), "-".repeat(empty));
    format!("{activity}  [{bar}] {:>3}%  {counts}", part(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_progress_and_rate() {
        let progress = SimulationProgress {
            bytes_read: 50,
            lines: 3_000_000,
        };
        let second = Micros::from_secs(2);
        assert_eq!(
            line("replaying", progress, 0, Some(200), second),
            "replaying  [######------------------]  25%  3,000,000 lines, 1,500,000/s"
        );
        let pipe = SimulationProgress {
            bytes_read: 12_345_678,
            lines: 10,
        };
        assert_eq!(
            line("replaying", pipe, 0, None, second),
            "replaying  12 MB  10 lines, 5/s"
        );
        // A file that grows while it is read.
        assert!(
            line(
                "x",
                SimulationProgress {
                    bytes_read: 300,
                    lines: 1
                },
                0,
                Some(200),
                Micros::ZERO
            )
            .contains("100%")
        );
    }
}
