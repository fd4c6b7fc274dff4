//! Lines into requests, some at a time.

use tollgate::Micros;

use crate::input::{Chunk, Line};
use crate::log::{BadLine, LogReader, Record, Unread, mended};
use crate::tally::LineTally;

/// How many requests are replayed together: so many that memory has enough to do at once, so few
/// that all of them stay near.
const TOGETHER: usize = 64;

/// A request of the past.
#[derive(Clone, Copy, Debug)]
pub struct Request<R> {
    /// What it says.
    pub attributes: R,
    /// When it is replayed.
    pub at: Micros,
    /// The number of its line.
    pub line: u64,
}

/// Reads lines, counts what becomes of them, and hands on the requests, in order and some at a
/// time.
pub(crate) fn each_few(
    reader: &LogReader,
    chunk: Chunk<'_>,
    lines: &mut LineTally,
    mut replay: impl FnMut(&[Request<Record<'_>>]),
) {
    let mut few = Vec::with_capacity(TOGETHER);
    for line in chunk {
        lines.all += 1;
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong(beginning) => {
                lines.spoil(BadLine::TooLong, beginning);
                continue;
            }
        };
        match reader.read(line) {
            Ok(record) => few.push(dated(record, lines)),
            // It is read from a copy, which does not last as long as the others.
            Err(Unread::NotText) => {
                replay(&few);
                few.clear();
                one_mended(reader, line, lines, &mut replay);
            }
            Err(Unread::Bad(_)) if line.trim_ascii().is_empty() => lines.blank += 1,
            Err(Unread::Bad(wrong)) => lines.spoil(wrong, line),
        }
        if few.len() == TOGETHER {
            replay(&few);
            few.clear();
        }
    }
    replay(&few);
}

#[cold]
fn one_mended(
    reader: &LogReader,
    line: &[u8],
    lines: &mut LineTally,
    replay: &mut impl FnMut(&[Request<Record<'_>>]),
) {
    match reader.read(mended(line).as_bytes()) {
        Ok(record) => replay(&[dated(record, lines)]),
        Err(Unread::Bad(wrong)) => lines.spoil(wrong, line),
        Err(Unread::NotText) => lines.spoil(BadLine::Layout, line),
    }
}

#[inline]
fn dated<'l>(record: Record<'l>, lines: &mut LineTally) -> Request<Record<'l>> {
    lines.read += 1;
    Request {
        at: lines.moment(record.time()),
        attributes: record,
        line: lines.all,
    }
}
