//! Counts the lines of a log by result.

use std::collections::BTreeMap;

use tollgate::Micros;

use crate::log::LineError;
use crate::report::BadLineExample;

/// How many invalid lines of each kind are kept as examples.
const EXAMPLES_PER_KIND: u64 = 2;
/// Examples are truncated to this number of characters.
const EXAMPLE_CHARS_MAX: usize = 120;

/// The lines of a log by result.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineCounts {
    /// All lines.
    pub(crate) all: u64,
    /// Lines with a request.
    pub(crate) read: u64,
    /// Invalid lines by kind.
    pub(crate) bad: BTreeMap<LineError, u64>,
    /// The first invalid lines of each kind.
    pub(crate) examples: Vec<BadLineExample>,
    /// Lines with an earlier time than a line before them.
    pub(crate) late: u64,
    /// The largest such time difference.
    pub(crate) late_max: Micros,
    /// Time of the first request.
    pub(crate) first: Option<Micros>,
    /// Time of the last request.
    pub(crate) last: Option<Micros>,
}

impl LineCounts {
    /// Counts an invalid line, and keeps it if it is among the first of its kind.
    #[cold]
    pub(crate) fn record_bad(&mut self, kind: LineError, line: &[u8]) {
        let count = self.bad.entry(kind).or_default();
        *count += 1;

        if *count <= EXAMPLES_PER_KIND {
            let bytes = &line[..line.len().min(4 * EXAMPLE_CHARS_MAX)];
            let text = String::from_utf8_lossy(bytes)
                .chars()
                .take(EXAMPLE_CHARS_MAX)
                .collect();
            self.examples.push(BadLineExample {
                line: self.all,
                kind,
                text,
            });
        }
    }

    /// The time at which a request is replayed: its own time, or that of an earlier line if that is
    /// later. Like the clock of the service, the replay never goes back in time.
    #[inline]
    pub(crate) fn replay_time(&mut self, time: Micros) -> Micros {
        self.first.get_or_insert(time);

        let now = match self.last {
            Some(last) if time < last => {
                self.late += 1;
                self.late_max = self.late_max.max(last.since(time));
                last
            }
            _ => time,
        };

        self.last = Some(now);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_goes_back() {
        let mut lines = LineCounts::default();
        let times = [10, 12, 11, 5, 13]
            .map(|secs| lines.replay_time(Micros::from_secs(secs)).get() / 1_000_000);
        assert_eq!(times, [10, 12, 12, 12, 13]);
        assert_eq!((lines.late, lines.late_max), (2, Micros::from_secs(7)));
    }

    #[test]
    fn the_first_invalid_lines_of_each_kind_are_kept() {
        let mut lines = LineCounts::default();
        for number in 1..=5 {
            lines.all = number;
            lines.record_bad(LineError::Layout, "\u{e9}".repeat(1_000).as_bytes());
        }
        lines.record_bad(LineError::Time, b"\xff");
        assert_eq!(
            lines
                .examples
                .iter()
                .map(|example| example.line)
                .collect::<Vec<_>>(),
            [1, 2, 5]
        );
        assert!(
            lines
                .examples
                .iter()
                .all(|example| example.text.chars().count() <= EXAMPLE_CHARS_MAX)
        );
        let bad = [(LineError::Layout, 5), (LineError::Time, 1)];
        assert_eq!(lines.bad, bad.into());
    }
}
