//! Durations such as `10ms`, `15m` or `90 seconds`, and for windows also `1month`.

use std::time::Duration;

use super::{ValueError, digits, split_unit};

pub(in crate::config) const DURATION: &str =
    "expected a number with a unit, such as 10ms, 1s, 15m, 1h or 1d";
const FRACTION: &str = "expected a whole number; use a smaller unit, such as 1500ms for 1.5s";
const MONTH: &str = "months differ in length; write days, such as 30d, or use a fixed_window with \
                     `align: clock` and `window: 1month`";
const TOO_LONG: &str = "must be at most 3653d";

const MICRO: u64 = 1;
const MILLI: u64 = 1_000;
const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;

/// The names of the units, each with its length in microseconds.
const UNITS: [(&[&str], u64); 7] = [
    (&["us", "µs", "microsecond", "microseconds"], MICRO),
    (&["ms", "millisecond", "milliseconds"], MILLI),
    (&["s", "sec", "secs", "second", "seconds"], SECOND),
    (&["m", "min", "mins", "minute", "minutes"], MINUTE),
    (&["h", "hr", "hrs", "hour", "hours"], HOUR),
    (&["d", "day", "days"], DAY),
    (&["w", "week", "weeks"], WEEK),
];

/// The length of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) enum WindowLength {
    /// A constant length.
    Fixed(Duration),
    /// A calendar month.
    Month,
}

/// Parses a duration. The unit is required, because a bare 5 could mean seconds or minutes.
pub(in crate::config) fn duration(text: &str) -> Result<Duration, ValueError> {
    match window(text)? {
        WindowLength::Fixed(length) => Ok(length),
        WindowLength::Month => Err(ValueError::new(MONTH)),
    }
}

/// Parses a duration or a month.
pub(in crate::config) fn window(text: &str) -> Result<WindowLength, ValueError> {
    let (number, unit) = split_unit(text);
    if is_month(unit) && matches!(number, "" | "1") {
        return Ok(WindowLength::Month);
    }

    match (digits(number), unit_micros(unit)) {
        (Some(amount), Some(unit)) => amount
            .checked_mul(unit)
            .map(|micros| WindowLength::Fixed(Duration::from_micros(micros)))
            .ok_or(ValueError::new(TOO_LONG)),
        (Some(amount), None) if unit.is_empty() => Err(ValueError::with_suggestion(
            DURATION,
            format!("the unit is missing; write {amount}s or {amount}ms"),
        )),
        _ if is_month(unit) => Err(ValueError::new(MONTH)),
        _ if is_fraction(text) => Err(ValueError::new(FRACTION)),
        _ => Err(ValueError::new(DURATION)),
    }
}

/// The length of a unit in microseconds.
pub(super) fn unit_micros(unit: &str) -> Option<u64> {
    UNITS
        .iter()
        .find(|(names, _)| names.contains(&unit))
        .map(|(_, micros)| *micros)
}

fn is_month(unit: &str) -> bool {
    matches!(unit, "month" | "months" | "mo")
}

fn is_fraction(text: &str) -> bool {
    let at = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    text[..at].contains('.') && text[..at].parse::<f64>().is_ok()
}
