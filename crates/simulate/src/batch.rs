//! Turns log lines into batches of requests.

use std::io;

use tollgate::Micros;

use crate::counts::LineCounts;
use crate::input::{LineChunk, LogInput, LogLine};
use crate::log::{LineError, LogParser, LogRecord};

/// The size of a batch. Large enough to overlap the memory accesses of its requests, small enough
/// for all of them to stay in the cache.
const BATCH_SIZE: usize = 64;

/// A request from a log.
#[derive(Clone, Copy, Debug)]
pub struct ReplayRequest<R> {
    /// The attributes of the request.
    pub attributes: R,
    /// The time at which to replay it.
    pub at: Micros,
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

/// One pass through a log: parses lines and counts them by result.
#[derive(Debug)]
pub(crate) struct LogPass {
    pub(crate) parser: LogParser,
    pub(crate) lines: LineCounts,
}

impl LogPass {
    pub(crate) fn new(parser: LogParser) -> Self {
        Self {
            parser,
            lines: LineCounts::default(),
        }
    }

    /// Passes the requests of an input to `replay` in batches, in order. `on_progress` is called
    /// after each chunk.
    pub(crate) fn read(
        &mut self,
        input: &mut LogInput,
        on_progress: &mut dyn FnMut(SimulationProgress),
        mut replay: impl FnMut(&[ReplayRequest<LogRecord<'_>>]),
    ) -> io::Result<()> {
        while let Some(chunk) = input.chunk()? {
            for_each_batch(&self.parser, chunk, &mut self.lines, &mut replay);
            on_progress(SimulationProgress {
                bytes_read: input.bytes_read(),
                lines: self.lines.all,
            });
        }
        Ok(())
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
        attributes: record,
        line: lines.all,
    }
}
