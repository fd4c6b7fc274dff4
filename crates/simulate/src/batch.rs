//! Turns log lines into batches of requests, or sorts the requests by their start.
//!
//! Servers write a line when a request ends. A concurrency limit takes its permit when a request
//! starts, so its requests must be replayed in that order. A line is held back until no later line
//! can have started before it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use tollgate::Micros;

use crate::counts::LineCounts;
use crate::input::{LineChunk, LogInput, LogLine};
use crate::log::{LineError, LogParser, LogRecord, LoggedMoment};

/// The size of a batch. Large enough to overlap the memory accesses of its requests, small enough
/// for all of them to stay in the cache.
const BATCH_SIZE: usize = 64;
/// A log is read up to this number of bytes, after decompression, without a valid line.
const UNREAD_MAX: u64 = 256 << 20;

/// A request from a log.
#[derive(Clone, Copy, Debug)]
pub struct ReplayRequest<R> {
    /// The attributes of the request.
    pub attributes: R,
    /// The time at which to replay it.
    pub at: Micros,
    /// How long it took, if that is known and wanted. Concurrency limits need it.
    pub duration: Option<Micros>,
    /// The number of its line, from 1.
    pub line: u64,
}

/// The progress of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimulationProgress {
    /// Bytes read from the current input, before decompression.
    pub bytes_read: u64,
    /// Lines read in total.
    pub lines: u64,
}

/// How to read a log.
#[derive(Clone, Debug)]
pub(crate) struct LogOptions {
    pub(crate) parser: LogParser,
    /// Whether to take the durations of requests, and to sort them by their start.
    pub(crate) by_start: bool,
    /// Which moment of a request its time is, if the lines do not tell.
    pub(crate) logged_at: Option<LoggedMoment>,
}

/// One pass through a log: parses lines and counts them by result.
#[derive(Debug)]
pub(crate) struct LogPass {
    pub(crate) options: LogOptions,
    pub(crate) lines: LineCounts,
    order: StartOrder,
    /// Whether a line had a duration. Until then, nothing is held back.
    has_durations: bool,
}

impl LogOptions {
    /// When a request started.
    fn start(&self, record: &LogRecord<'_>) -> Micros {
        let moment = self.logged_at.unwrap_or_else(|| record.logged_moment());
        match (moment, record.duration()) {
            (LoggedMoment::End, Some(duration)) => record.time().since(duration),
            _ => record.time(),
        }
    }
}

/// The bytes since the last valid line, after decompression: a small file may have any number.
struct UnreadBytes {
    /// Valid lines so far.
    lines: u64,
    bytes: u64,
}

impl UnreadBytes {
    /// Counts a chunk of this length, after which there are this many valid lines. Returns whether
    /// the log ends here.
    const fn are_too_many(&mut self, length: u64, lines: u64) -> bool {
        self.bytes += length;
        if lines > self.lines {
            (self.lines, self.bytes) = (lines, 0);
        }
        self.bytes > UNREAD_MAX
    }
}

impl LogPass {
    pub(crate) fn new(options: LogOptions) -> Self {
        Self {
            options,
            lines: LineCounts::default(),
            order: StartOrder::default(),
            has_durations: false,
        }
    }

    /// Passes the requests of an input to `replay` in batches, in order. `on_progress` is called
    /// after each chunk. Ends early if nothing can be read.
    pub(crate) fn read(
        &mut self,
        input: &mut LogInput,
        on_progress: &mut dyn FnMut(SimulationProgress),
        mut replay: impl FnMut(&[ReplayRequest<LogRecord<'_>>]),
    ) -> io::Result<()> {
        let mut unread = UnreadBytes {
            lines: self.lines.read,
            bytes: 0,
        };
        while let Some(chunk) = input.chunk()? {
            let length = chunk.len() as u64;
            if self.options.by_start {
                self.sort_chunk(chunk, &mut replay);
            } else {
                for_each_batch(&self.options.parser, chunk, &mut self.lines, &mut replay);
            }
            on_progress(SimulationProgress {
                bytes_read: input.bytes_read(),
                lines: self.lines.all,
            });
            if unread.are_too_many(length, self.lines.read) {
                if self.lines.read == 0 {
                    break;
                }
                let error = "256 MiB without a valid line; expected an access log";
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
        Ok(())
    }

    /// Replays what was held back, at the end of the log.
    pub(crate) fn finish(&mut self, mut replay: impl FnMut(&[ReplayRequest<LogRecord<'_>>])) {
        while let Some(line) = self.order.next_held() {
            self.replay_held(&line, &mut replay);
        }
    }

    /// Holds the lines of a chunk back, and replays those that were held back long enough.
    fn sort_chunk(
        &mut self,
        chunk: LineChunk<'_>,
        replay: &mut impl FnMut(&[ReplayRequest<LogRecord<'_>>]),
    ) {
        for line in chunk {
            self.lines.all += 1;
            match line {
                LogLine::Complete(line) => self.hold(line),
                LogLine::TooLong(beginning) => {
                    self.lines.record_bad(LineError::TooLong, beginning);
                }
            }
            while let Some(line) = self.next_line() {
                self.replay_held(&line, replay);
            }
        }
    }

    fn next_line(&mut self) -> Option<HeldLine> {
        if self.has_durations {
            self.order.next_ready()
        } else {
            self.order.next_held()
        }
    }

    fn hold(&mut self, line: &[u8]) {
        let repaired;
        let mut text = line;
        let mut parsed = self.options.parser.parse(text);
        if matches!(parsed, Err(LineError::NotUtf8)) {
            repaired = String::from_utf8_lossy(line);
            text = repaired.as_bytes();
            parsed = self.options.parser.parse(text);
        }

        match parsed {
            Ok(record) => {
                let held = HeldLine {
                    start: self.options.start(&record),
                    number: self.lines.all,
                    text: text.into(),
                };
                self.has_durations |= record.duration().is_some();
                self.order.hold(held, record.time());
                self.lines.read += 1;
            }
            Err(_) if line.trim_ascii().is_empty() => {}
            Err(error) => self.lines.record_bad(error, line),
        }
    }

    fn replay_held(
        &mut self,
        held: &HeldLine,
        replay: &mut impl FnMut(&[ReplayRequest<LogRecord<'_>>]),
    ) {
        // It was parsed before it was held back.
        let Ok(record) = self.options.parser.parse(&held.text) else {
            return;
        };

        // A request that is replayed late still ends when it did.
        let at = self.lines.replay_time(held.start);
        let end = record.duration().map(|duration| held.start.after(duration));
        replay(&[ReplayRequest {
            at,
            duration: end.map(|end| end.since(at)),
            attributes: record,
            line: held.number,
        }]);
    }
}

fn for_each_batch(
    parser: &LogParser,
    chunk: LineChunk<'_>,
    lines: &mut LineCounts,
    replay: &mut impl FnMut(&[ReplayRequest<LogRecord<'_>>]),
) {
    let mut batch = Vec::with_capacity(BATCH_SIZE);
    for line in chunk {
        lines.all += 1;
        let line = match line {
            LogLine::Complete(line) => line,
            LogLine::TooLong(beginning) => {
                lines.record_bad(LineError::TooLong, beginning);
                continue;
            }
        };

        match parser.parse(line) {
            Ok(record) => batch.push(to_request(record, lines)),
            // The repaired copy does not live as long as the other lines, so it cannot join the
            // batch.
            Err(LineError::NotUtf8) => {
                replay(&batch);
                batch.clear();
                replay_repaired(parser, line, lines, replay);
            }
            Err(_) if line.trim_ascii().is_empty() => {}
            Err(error) => lines.record_bad(error, line),
        }

        if batch.len() == BATCH_SIZE {
            replay(&batch);
            batch.clear();
        }
    }
    replay(&batch);
}

/// Replays a line that is not valid UTF-8, after replacing the invalid bytes.
#[cold]
fn replay_repaired(
    parser: &LogParser,
    line: &[u8],
    lines: &mut LineCounts,
    replay: &mut impl FnMut(&[ReplayRequest<LogRecord<'_>>]),
) {
    match parser.parse(String::from_utf8_lossy(line).as_bytes()) {
        Ok(record) => replay(&[to_request(record, lines)]),
        Err(error) => lines.record_bad(error, line),
    }
}

#[inline]
fn to_request<'l>(record: LogRecord<'l>, lines: &mut LineCounts) -> ReplayRequest<LogRecord<'l>> {
    lines.read += 1;
    ReplayRequest {
        at: lines.replay_time(record.time()),
        duration: None,
        attributes: record,
        line: lines.all,
    }
}

/// How long lines are held back. A request that took longer is replayed late.
const HELD_TIME_MAX: Micros = Micros::from_secs(60);
/// How many bytes of lines are held back at most.
const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The lines that are held back.
#[derive(Debug, Default)]
struct StartOrder {
    held: BinaryHeap<Reverse<HeldLine>>,
    bytes: usize,
    /// The latest time of a line.
    latest: Micros,
}

/// A line that is held back, ordered by its start.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HeldLine {
    start: Micros,
    /// The number of the line, from 1.
    number: u64,
    text: Box<[u8]>,
}

impl StartOrder {
    /// Holds a line back. `time` is the time of the line.
    fn hold(&mut self, line: HeldLine, time: Micros) {
        self.latest = self.latest.max(time);
        self.bytes += line.text.len();
        self.held.push(Reverse(line));
    }

    /// The next line in the order of starts, if it need not be held back any longer.
    fn next_ready(&mut self) -> Option<HeldLine> {
        let Reverse(first) = self.held.peek()?;
        let is_ready = self.latest.since(first.start) >= HELD_TIME_MAX;
        if is_ready || self.bytes > HELD_BYTES_MAX {
            self.next_held()
        } else {
            None
        }
    }

    /// The next line in the order of starts, at the end of the log.
    fn next_held(&mut self) -> Option<HeldLine> {
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

    #[test]
    fn a_log_ends_when_no_line_is_valid_for_long() {
        let mut unread = UnreadBytes { lines: 0, bytes: 0 };
        assert!(!unread.are_too_many(UNREAD_MAX, 0));
        assert!(!unread.are_too_many(1, 1), "a valid line");
        assert!(!unread.are_too_many(UNREAD_MAX, 1));
        assert!(unread.are_too_many(1, 1));
    }
}
