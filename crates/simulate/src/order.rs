//! Sorts the requests of a log by their start.
//!
//! Servers write a line when a request ends. A concurrency limit takes its permit when a request
//! starts, so its requests must be replayed in that order. A line is held back until no later line
//! can have started before it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tollgate::Micros;

/// How long lines are held back. A request that took longer is replayed late.
const HELD_TIME_MAX: Micros = Micros::from_secs(60);
/// How many bytes of lines are held back at most.
const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The lines that are held back.
#[derive(Debug, Default)]
pub(crate) struct StartOrder {
    held: BinaryHeap<Reverse<HeldLine>>,
    bytes: usize,
    /// The latest time of a line.
    latest: Micros,
}

/// A line that is held back, ordered by its start.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HeldLine {
    pub(crate) start: Micros,
    /// The number of the line, from 1.
    pub(crate) number: u64,
    pub(crate) text: Box<[u8]>,
}

impl StartOrder {
    /// Holds a line back. `time` is the time of the line.
    pub(crate) fn hold(&mut self, line: HeldLine, time: Micros) {
        self.latest = self.latest.max(time);
        self.bytes += line.text.len();
        self.held.push(Reverse(line));
    }

    /// The next line in the order of starts, if it need not be held back any longer.
    pub(crate) fn next_ready(&mut self) -> Option<HeldLine> {
        let Reverse(first) = self.held.peek()?;
        let is_ready = self.latest.since(first.start) >= HELD_TIME_MAX;
        if is_ready || self.bytes > HELD_BYTES_MAX {
            self.next_held()
        } else {
            None
        }
    }

    /// The next line in the order of starts, at the end of the log.
    pub(crate) fn next_held(&mut self) -> Option<HeldLine> {
        let Reverse(line) = self.held.pop()?;
        self.bytes -= line.text.len();
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(start: u64, number: u64) -> HeldLine {
        HeldLine {
            start: Micros::from_secs(start),
            number,
            text: vec![b'x'; 1_000].into(),
        }
    }

    #[test]
    fn lines_come_in_the_order_of_their_starts() {
        let mut order = StartOrder::default();
        let mut seen = Vec::new();
        for (number, (start, end)) in (1..).zip([(100, 101), (90, 102), (100, 102), (161, 161)]) {
            order.hold(line(start, number), Micros::from_secs(end));
            seen.extend(std::iter::from_fn(|| order.next_ready()).map(|line| line.number));
        }
        assert_eq!(seen, [2, 1, 3]);
        assert_eq!(order.next_held().map(|line| line.number), Some(4));
        assert_eq!((order.next_held(), order.bytes), (None, 0));
    }

    #[test]
    fn what_is_held_has_a_bound() {
        let mut order = StartOrder::default();
        for number in 0..100_000 {
            order.hold(line(100 + number % 7, number), Micros::from_secs(110));
            while order.next_ready().is_some() {}
            assert!(order.bytes <= HELD_BYTES_MAX);
        }
        assert!(order.bytes > HELD_BYTES_MAX / 2);
    }
}
