//! How far a replay is, on one line of a terminal that is written over again and again, and gone at
//! the end.

use std::io::{self, IsTerminal as _, Write as _};

use tollgate::{Clock, Micros, SystemClock};
use tollgate_simulate::Progress;
use tollgate_simulate::text::grouped;

/// How often the line is written.
const EVERY: Micros = Micros::from_millis(100);
const WIDTH: u64 = 24;

/// The line, if there is somebody to see it.
pub(super) struct Bar {
    what: &'static str,
    size: Option<u64>,
    clock: Option<SystemClock>,
    began: Micros,
    shown: Micros,
    lines_before: Option<u64>,
}

impl Bar {
    /// A line on standard error, if that is a terminal.
    pub(super) fn for_stderr(what: &'static str, size: Option<u64>) -> Self {
        let is_terminal = io::stderr().is_terminal();
        let clock = is_terminal.then(SystemClock::new);
        let began = clock.as_ref().map_or(Micros::ZERO, Clock::now);
        Self {
            what,
            size,
            clock,
            began,
            shown: began,
            lines_before: None,
        }
    }

    /// Writes the line, unless that was a moment ago.
    pub(super) fn show(&mut self, progress: Progress) {
        let Some(now) = self.clock.as_ref().map(Clock::now) else {
            return;
        };
        let before = *self.lines_before.get_or_insert(progress.lines);
        if now.since(self.shown) < EVERY {
            return;
        }
        self.shown = now;
        let line = line(
            self.what,
            progress,
            before,
            self.size,
            now.since(self.began),
        );
        write(&format!("\r\x1b[K{line}"));
    }

    /// Takes the line away.
    pub(super) fn clear(&self) {
        if self.clock.is_some() {
            write("\r\x1b[K");
        }
    }
}

/// When nobody reads standard error, there is nobody to tell.
fn write(text: &str) {
    let mut output = io::stderr().lock();
    drop(
        output
            .write_all(text.as_bytes())
            .and_then(|()| output.flush()),
    );
}

fn line(what: &str, progress: Progress, before: u64, size: Option<u64>, since: Micros) -> String {
    let lines = progress.lines.saturating_sub(before);
    let rate = u128::from(lines) * 1_000_000 / u128::from(since.get().max(1));
    let rate = grouped(u64::try_from(rate).unwrap_or(u64::MAX));
    let told = format!("{} lines, {rate}/s", grouped(progress.lines));
    let Some(size) = size.filter(|size| *size > 0) else {
        return format!(
            "{what}  {} MB  {told}",
            grouped(progress.bytes_read / 1_000_000)
        );
    };
    let part = |whole: u64| progress.bytes_read.min(size) * whole / size;
    let full = usize::try_from(part(WIDTH)).unwrap_or_default();
    let bar = format!(
        "{}{}",
        "#".repeat(full),
        "-".repeat(usize::try_from(WIDTH).unwrap_or_default() - full)
    );
    format!("{what}  [{bar}] {:>3}%  {told}", part(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_and_how_fast() {
        let progress = Progress {
            bytes_read: 50,
            lines: 3_000_000,
        };
        let second = Micros::from_secs(2);
        assert_eq!(
            line("replaying", progress, 0, Some(200), second),
            "replaying  [######------------------]  25%  3,000,000 lines, 1,500,000/s"
        );
        let pipe = Progress {
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
                Progress {
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
