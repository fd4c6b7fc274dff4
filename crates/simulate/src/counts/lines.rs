//! Counts the lines of a log by result.

use tollgate::Micros;

use crate::log::LineErrorKind;

/// How many invalid lines of each kind are kept as samples.
const SAMPLES_PER_KIND: u64 = 2;
/// Samples are truncated to this number of characters.
const SAMPLE_CHARS_MAX: usize = 120;

/// The lines of a log by result.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineCounts {
    /// All lines.
    pub(crate) all: u64,
    pub(crate) blank: u64,
    /// Lines with a request.
    pub(crate) read: u64,
    /// Invalid lines by kind.
    bad: [u64; LineErrorKind::ALL.len()],
    /// The first invalid lines of each kind.
    pub(crate) samples: Vec<BadLineSample>,
    /// Lines with an earlier time than a line before them.
    pub(crate) late: u64,
    /// The largest such time difference.
    pub(crate) late_max: Micros,
    /// Time of the first request.
    pub(crate) first: Option<Micros>,
    /// Time of the last request.
    pub(crate) last: Option<Micros>,
}

/// An invalid line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadLineSample {
    /// Its number, from 1.
    pub(crate) number: u64,
    pub(crate) kind: LineErrorKind,
    /// Its beginning.
    pub(crate) text: String,
}

impl LineCounts {
    /// Counts an invalid line, and keeps it if it is among the first of its kind.
    #[cold]
    pub(crate) fn record_bad(&mut self, kind: LineErrorKind, line: &[u8]) {
        let count = &mut self.bad[kind as usize];
        *count += 1;

        if *count <= SAMPLES_PER_KIND {
            let bytes = &line[..line.len().min(4 * SAMPLE_CHARS_MAX)];
            let text = String::from_utf8_lossy(bytes)
                .chars()
                .take(SAMPLE_CHARS_MAX)
                .collect();
            self.samples.push(BadLineSample {
                number: self.all,
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

    /// The number of invalid lines.
    pub(crate) fn bad(&self) -> u64 {
        self.bad.iter().sum()
    }

    /// The number of invalid lines of a kind.
    pub(crate) const fn bad_count(&self, kind: LineErrorKind) -> u64 {
        self.bad[kind as usize]
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
            lines.record_bad(LineErrorKind::Layout, "\u{e9}".repeat(1_000).as_bytes());
        }
        lines.record_bad(LineErrorKind::Time, b"\xff");
        assert_eq!(
            lines
                .samples
                .iter()
                .map(|sample| sample.number)
                .collect::<Vec<_>>(),
            [1, 2, 5]
        );
        assert!(
            lines
                .samples
                .iter()
                .all(|sample| sample.text.chars().count() <= SAMPLE_CHARS_MAX)
        );
        assert_eq!(
            (lines.bad(), lines.bad_count(LineErrorKind::Layout)),
            (6, 5)
        );
    }
}
