//! Writes replies in the protocol of Redis, version 2 or 3.

use std::io::Write as _;
use std::time::Duration;

use tollgate::{Decision, Retry};

use super::error::RespError;

/// The version of the protocol that a client has asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RespVersion {
    #[default]
    Two,
    /// Has maps and nulls of its own.
    Three,
}

/// The longest error text in bytes; clients show it to people.
const ERROR_MAX: usize = 512;

pub(super) fn simple(out: &mut Vec<u8>, text: &str) {
    line(out, b'+', text);
}

pub(super) fn integer(out: &mut Vec<u8>, number: i64) {
    line(out, b':', number);
}

/// An integer that is a number of things.
pub(super) fn count(out: &mut Vec<u8>, number: usize) {
    line(out, b':', number);
}

pub(super) fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    line(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Begins an array of this many values.
pub(super) fn array(out: &mut Vec<u8>, values: usize) {
    line(out, b'*', values);
}

/// Begins a map of this many pairs. In version 2 it is an array of names and values.
pub(super) fn map(out: &mut Vec<u8>, version: RespVersion, pairs: usize) {
    match version {
        RespVersion::Two => array(out, 2 * pairs),
        RespVersion::Three => line(out, b'%', pairs),
    }
}

pub(super) fn null(out: &mut Vec<u8>, version: RespVersion) {
    out.extend_from_slice(match version {
        RespVersion::Two => b"$-1\r\n",
        RespVersion::Three => b"_\r\n",
    });
}

/// An error. Its text is one line, whatever of the command it repeats.
pub(super) fn error(out: &mut Vec<u8>, error: &RespError) {
    let text = error.text.replace(char::is_control, " ");
    let end = text.floor_char_boundary(ERROR_MAX);
    line(out, b'-', format_args!("{} {}", error.code, &text[..end]));
}

/// The five integers of `CL.THROTTLE`: whether the call is limited, the limit, what remains, the
/// seconds until a retry, the seconds until nothing is used.
pub(super) fn decision(out: &mut Vec<u8>, decision: &Decision) {
    let retry_after = match decision.retry() {
        Some(Retry::After(time)) => whole_secs(time),
        Some(Retry::Never) | None => -1,
    };
    array(out, 5);
    integer(out, i64::from(!decision.is_allowed()));
    integer(out, clamped(decision.limit()));
    integer(out, clamped(decision.remaining()));
    integer(out, retry_after);
    integer(out, whole_secs(decision.reset_after()));
}

/// Rounds up, so that a client that waits as long is not early.
fn whole_secs(time: Duration) -> i64 {
    clamped(time.as_secs()).saturating_add(i64::from(time.subsec_nanos() > 0))
}

fn clamped(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn line(out: &mut Vec<u8>, marker: u8, text: impl std::fmt::Display) {
    out.push(marker);
    // Writing to a vector cannot fail.
    drop(write!(out, "{text}\r\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_short_line() {
        let mut out = Vec::new();
        error(&mut out, &RespError::new("a\r\n-ERR b\0".to_owned()));
        assert_eq!(out, b"-ERR a  -ERR b \r\n");

        out.clear();
        error(&mut out, &RespError::new("ä".repeat(1_000)));
        assert_eq!(out.len(), "-ERR ".len() + ERROR_MAX + 2);
    }

    #[test]
    fn seconds_are_rounded_up() {
        assert_eq!(whole_secs(Duration::ZERO), 0);
        assert_eq!(whole_secs(Duration::from_micros(1)), 1);
        assert_eq!(whole_secs(Duration::from_secs(1)), 1);
        assert_eq!(whole_secs(Duration::from_millis(1_001)), 2);
    }
}
