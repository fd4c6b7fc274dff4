//! Durations such as `10ms`, `15m` or `90 seconds`, and for aligned windows also `1month`.

use std::time::Duration;

use tollgate::Calendar;

use super::kind::{ValueError, ValueKind};
use super::number::{digits, split_unit};

pub(crate) const DURATION: ValueKind<Duration> = ValueKind::new(
    "duration",
    "expected a number with a unit, such as 10ms, 1s, 15m, 1h or 1d",
    |text| duration(text.trim()),
);
pub(crate) const CALENDAR: ValueKind<Calendar> =
    ValueKind::new(DURATION.noun, DURATION.expected, |text| {
        calendar(text.trim())
    });
const NOT_ALIGNED: &str = "with `align: clock` it must be 1s, 1m, 1h, 1d or 1month";
const FRACTION: &str = "expected a whole number; use a smaller unit, such as 1500ms for 1.5s";
const MONTH: &str = "months differ in length; write days, such as 30d, or use a fixed_window with \
                     `align: clock` and `window: 1month`";
const TOO_LONG: &str = "must be at most 3653d";

/// Parses a duration as written in a configuration. The error is a phrase such as
/// "expected a number with a unit".
///
/// ```
/// use std::time::Duration;
/// use tollgate_rules::config::parse_duration;
///
/// assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
/// assert_eq!(parse_duration("5").unwrap_err(), "the unit is missing; write 5s or 5ms");
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    duration(text).map_err(|error| match error {
        ValueError::Suggestion(reason) | ValueError::Message(reason) => reason,
        ValueError::Reason(reason) | ValueError::Noun(_, reason) => reason.into(),
        ValueError::Unexpected => DURATION.expected.into(),
    })
}

/// Parses a duration. The unit is required, because a bare 5 could mean seconds or minutes.
pub(super) fn duration(text: &str) -> Result<Duration, ValueError> {
    let (number, unit) = split_unit(text);

    match (digits(number), unit_micros(unit)) {
        (Some(amount), Some(unit)) => amount
            .checked_mul(unit)
            .map(Duration::from_micros)
            .ok_or(ValueError::Reason(TOO_LONG)),
        (Some(amount), None) if unit.is_empty() => Err(ValueError::Suggestion(format!(
            "the unit is missing; write {amount}s or {amount}ms"
        ))),
        _ if is_month(unit) => Err(ValueError::Reason(MONTH)),
        _ if is_fraction(text) => Err(ValueError::Reason(FRACTION)),
        _ => Err(ValueError::Unexpected),
    }
}

/// Parses the length of a window that is aligned to the clock.
pub(super) fn calendar(text: &str) -> Result<Calendar, ValueError> {
    let (number, unit) = split_unit(text);
    if is_month(unit) && matches!(number, "" | "1") {
        return Ok(Calendar::Month);
    }

    match duration(text)?.as_micros() {
        1_000_000 => Ok(Calendar::Second),
        60_000_000 => Ok(Calendar::Minute),
        3_600_000_000 => Ok(Calendar::Hour),
        86_400_000_000 => Ok(Calendar::Day),
        _ => Err(ValueError::Noun("window", NOT_ALIGNED)),
    }
}

/// The length of a unit in microseconds.
pub(super) fn unit_micros(unit: &str) -> Option<u64> {
    Some(match unit {
        "us" | "µs" | "microsecond" | "microseconds" => 1,
        "ms" | "millisecond" | "milliseconds" => 1_000,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000_000,
        "d" | "day" | "days" => 86_400_000_000,
        "w" | "week" | "weeks" => 604_800_000_000,
        _ => return None,
    })
}

fn is_month(unit: &str) -> bool {
    matches!(unit, "month" | "months" | "mo")
}

fn is_fraction(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &text[..text.len() - unit.len()];
    number.contains('.') && number.parse::<f64>().is_ok()
}
