//! Lengths of time: `10ms`, `15m`, `90 seconds`, and for windows `1month`.

use std::time::Duration;

use super::{Wrong, digits, split_unit};

const LENGTH: &str = "write a length of time with a unit, such as 10ms, 1s, 15m, 1h or 1d";
const FRACTION: &str = "write a whole number of a smaller unit, such as 1500ms for 1.5s";
const MONTH: &str = "months differ in length; only a fixed_window with `align: clock` takes 1month, others take days, such as 30d";
const LONG: &str = "no length of time here is longer than 3653d";

const MICRO: u64 = 1;
const MILLI: u64 = 1_000;
const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;

/// Every spelling of every unit, in microseconds.
const UNITS: [(&[&str], u64); 7] = [
    (&["us", "µs", "microsecond", "microseconds"], MICRO),
    (&["ms", "millisecond", "milliseconds"], MILLI),
    (&["s", "sec", "secs", "second", "seconds"], SECOND),
    (&["m", "min", "mins", "minute", "minutes"], MINUTE),
    (&["h", "hr", "hrs", "hour", "hours"], HOUR),
    (&["d", "day", "days"], DAY),
    (&["w", "week", "weeks"], WEEK),
];

/// How long a window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) enum Length {
    /// Always the same.
    Fixed(Duration),
    /// From the first of a month to the first of the next.
    Month,
}

/// A length of time with its unit. The unit must be there: nobody remembers whether a bare 5 is
/// seconds or minutes.
pub(in crate::config) fn duration(text: &str) -> Result<Duration, Wrong> {
    match window(text)? {
        Length::Fixed(length) => Ok(length),
        Length::Month => Err(Wrong::new(MONTH)),
    }
}

/// A length of time, or a month.
pub(in crate::config) fn window(text: &str) -> Result<Length, Wrong> {
    let (number, unit) = split_unit(text);
    if is_month(unit) && matches!(number, "" | "1") {
        return Ok(Length::Month);
    }
    match (digits(number), unit_micros(unit)) {
        (Some(amount), Some(unit)) => amount
            .checked_mul(unit)
            .map(|micros| Length::Fixed(Duration::from_micros(micros)))
            .ok_or(Wrong::new(LONG)),
        (Some(amount), None) if unit.is_empty() => Err(Wrong::meant(
            LENGTH,
            format!("a unit, as in {amount}s or {amount}ms"),
        )),
        _ if is_month(unit) => Err(Wrong::new(MONTH)),
        _ if is_fraction(text) => Err(Wrong::new(FRACTION)),
        _ => Err(Wrong::new(LENGTH)),
    }
}

/// How many microseconds a unit has.
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
