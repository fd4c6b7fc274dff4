//! What became of the lines of a log.

use tollgate::Micros;

use crate::log::BadLine;

/// How many bad lines of a kind are shown.
const SHOWN_OF_A_KIND: u64 = 2;
/// The most of a bad line that is shown, in characters.
const SHOWN_CHARS: usize = 120;

/// What became of the lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineTally {
    /// All there were.
    pub(crate) all: u64,
    pub(crate) blank: u64,
    /// Those that say what was asked when.
    pub(crate) read: u64,
    bad: [u64; BadLine::ALL.len()],
    /// The first bad ones of each kind.
    pub(crate) examples: Vec<BadExample>,
    /// Those with an earlier time than a line before them.
    pub(crate) late: u64,
    pub(crate) late_max: Micros,
    pub(crate) first: Option<Micros>,
    pub(crate) last: Option<Micros>,
}

/// A bad line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadExample {
    pub(crate) number: u64,
    pub(crate) wrong: BadLine,
    pub(crate) text: String,
}

impl LineTally {
    /// Counts a bad line, and keeps it if it is among the first of its kind.
    #[cold]
    pub(crate) fn spoil(&mut self, wrong: BadLine, line: &[u8]) {
        let count = &mut self.bad[wrong as usize];
        *count += 1;
        if *count <= SHOWN_OF_A_KIND {
            let bytes = &line[..line.len().min(4 * SHOWN_CHARS)];
            let text = String::from_utf8_lossy(bytes)
                .chars()
                .take(SHOWN_CHARS)
                .collect();
            self.examples.push(BadExample {
                number: self.all,
                wrong,
                text,
            });
        }
    }

    /// The moment at which a request is replayed: its own, or where a line before it was later,
    /// that one's. The clock of the service never goes back either.
    #[inline]
    pub(crate) fn moment(&mut self, time: Micros) -> Micros {
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

    pub(crate) fn bad(&self) -> u64 {
        self.bad.iter().sum()
    }

    /// How many bad lines there were of a kind.
    pub(crate) const fn bad_of(&self, wrong: BadLine) -> u64 {
        self.bad[wrong as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_goes_back() {
        let mut lines = LineTally::default();
        let moments =
            [10, 12, 11, 5, 13].map(|secs| lines.moment(Micros::from_secs(secs)).get() / 1_000_000);
        assert_eq!(moments, [10, 12, 12, 12, 13]);
        assert_eq!((lines.late, lines.late_max), (2, Micros::from_secs(7)));
    }

    #[test]
    fn the_first_bad_lines_of_each_kind_are_kept() {
        let mut lines = LineTally::default();
        for number in 1..=5 {
            lines.all = number;
            lines.spoil(BadLine::Layout, "\u{e9}".repeat(1_000).as_bytes());
        }
        lines.spoil(BadLine::Time, b"\xff");
        assert_eq!(
            lines
                .examples
                .iter()
                .map(|example| example.number)
                .collect::<Vec<_>>(),
            [1, 2, 5]
        );
        assert!(
            lines
                .examples
                .iter()
                .all(|example| example.text.chars().count() <= SHOWN_CHARS)
        );
        assert_eq!((lines.bad(), lines.bad_of(BadLine::Layout)), (6, 5));
    }
}
