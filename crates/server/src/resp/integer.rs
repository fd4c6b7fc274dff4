//! The integers of commands.

use std::ops::RangeInclusive;

use super::error::RespError;

/// The longest text that a message repeats, in bytes.
const SHOWN_MAX: usize = 40;

/// Reads an argument as an integer in this range. The error names it and shows what was found.
pub(super) fn integer(
    argument: &[u8],
    name: &str,
    range: RangeInclusive<u64>,
) -> Result<u64, RespError> {
    let text = std::str::from_utf8(argument).ok();
    let is_digits = !argument.is_empty() && argument.iter().all(u8::is_ascii_digit);
    let number: Option<u64> = text
        .filter(|_| is_digits)
        .and_then(|text| text.parse().ok());

    number
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            let (min, max) = range.into_inner();
            RespError::new(format!(
                "invalid {name} '{}'; must be an integer from {min} to {max}",
                shown(argument)
            ))
        })
}

/// The start of an argument, for messages.
pub(super) fn shown(argument: &[u8]) -> String {
    let start = &argument[..argument.len().min(SHOWN_MAX)];
    let more = if argument.len() > SHOWN_MAX {
        "..."
    } else {
        ""
    };
    format!("{}{more}", String::from_utf8_lossy(start))
}
