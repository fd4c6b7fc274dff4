//! Turns log lines into batches of requests.

use tollgate::Micros;

use crate::counts::LineCounts;
use crate::input::{LineChunk, LogLine};
use crate::log::{LineError, LineErrorKind, LogParser, LogRecord, to_utf8_lossy};

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

/// Parses lines, counts them by result, and passes on the requests in batches, in order.
pub(crate) fn for_each_batch(
    parser: &LogParser,
    chunk: LineChunk<'_>,
    lines: &mut LineCounts,
    mut replay: impl FnMut(&[ReplayRequest<LogRecord<'_>>]),
) {
    let mut batch = Vec::with_capacity(BATCH_SIZE);
    for line in chunk {
        lines.all += 1;
        let line = match line {
            LogLine::Complete(line) => line,
            LogLine::TooLong(beginning) => {
                lines.record_bad(LineErrorKind::TooLong, beginning);
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
                replay_repaired(parser, line, lines, &mut replay);
            }
            Err(LineError::Invalid(_)) if line.trim_ascii().is_empty() => lines.blank += 1,
            Err(LineError::Invalid(kind)) => lines.record_bad(kind, line),
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
    match parser.parse(to_utf8_lossy(line).as_bytes()) {
        Ok(record) => replay(&[to_request(record, lines)]),
        Err(LineError::Invalid(kind)) => lines.record_bad(kind, line),
        Err(LineError::NotUtf8) => lines.record_bad(LineErrorKind::Layout, line),
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
