//! The kinds of scalar values, and how their texts are parsed. Knows nothing of files and fields.

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use tollgate::{Calendar, Rate};

/// A kind of scalar value: what errors call it, what they say is expected, and its parser.
pub(super) struct ValueKind<T> {
    /// The name of the kind, such as `duration`: "invalid duration ..".
    pub(super) noun: &'static str,
    /// What is expected: "expected a number with a unit, such as 10ms".
    pub(super) expected: &'static str,
    /// Parses a text that is not empty.
    pub(super) parse: fn(&str) -> Result<T, ValueError>,
}

impl<T> ValueKind<T> {
    pub(super) const fn new(
        noun: &'static str,
        expected: &'static str,
        parse: fn(&str) -> Result<T, ValueError>,
    ) -> Self {
        Self {
            noun,
            expected,
            parse,
        }
    }
}

/// The reason why a text is not a valid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueError {
    /// It is not what the kind expects.
    Unexpected,
    /// A more precise reason, which does not repeat the text.
    Reason(&'static str),
    /// Like `Reason`, with another noun.
    Noun(&'static str, &'static str),
    /// What to write instead. It repeats the text, so it must not be shown for secrets.
    Suggestion(String),
    /// A whole message that names the kind and repeats the text.
    Message(String),
}

impl ValueError {
    /// The error of a type that parses texts itself.
    pub(super) fn message(error: impl fmt::Display) -> Self {
        Self::Message(error.to_string())
    }
}

/// Whether a text has only ASCII letters, digits and these other characters.
pub(super) fn has_only(text: &str, others: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

/// What follows `http://` or `https://` in a URL.
pub(super) fn without_http(url: &str) -> Option<&str> {
    url.strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"))
}

/// Whether a path names a file, and not a directory.
pub(super) fn is_file(path: &str) -> bool {
    Path::new(path).file_name().is_some() && !path.ends_with('/')
}

/// The text itself, if it is valid.
pub(super) fn text_if(is_valid: bool, text: &str) -> Result<String, ValueError> {
    is_valid
        .then(|| text.to_owned())
        .ok_or(ValueError::Unexpected)
}

pub(super) const INTEGER: ValueKind<u64> =
    ValueKind::new("number", "expected a whole number, such as 100", |text| {
        integer(text.trim())
    });
pub(super) const RATIO: ValueKind<f64> = ValueKind::new(
    "ratio",
    "expected a number between 0 and 1, such as 0.8",
    |text| ratio(text.trim()),
);
/// What a token costs, in thousandths of a unit.
pub(super) const WEIGHT: ValueKind<u32> = ValueKind::new(
    "weight",
    "expected a number between 0 and 1000 with at most three decimals, such as 4 or 0.1",
    |text| weight(text.trim()),
);
pub(super) const SIZE: ValueKind<u64> = ValueKind::new(
    "size",
    "expected a number of bytes, such as 65536, 64KiB or 1MiB",
    |text| bytes(text.trim()),
);
const TOO_LARGE: &str = "must be at most 9007199254740992 (2^53)";

/// Parses a whole number. `_` may separate digits.
fn integer(text: &str) -> Result<u64, ValueError> {
    digits(text).ok_or_else(|| match without_exponent(text) {
        Some(number) => ValueError::Suggestion(format!("write {number}")),
        None if are_digits(text) => ValueError::Reason(TOO_LARGE),
        None => ValueError::Unexpected,
    })
}

/// Parses a ratio from 0 to 1.
fn ratio(text: &str) -> Result<f64, ValueError> {
    let is_plain = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if let Ok(ratio) = text.parse()
        && is_plain
        && (0.0..=1.0).contains(&ratio)
    {
        return Ok(ratio);
    }

    // A percentage such as `80 %` is a ratio in another notation.
    let percentage = text.strip_suffix('%').map(str::trim_end);
    match percentage.and_then(|number| number.parse::<f64>().ok()) {
        Some(number) if (0.0..=100.0).contains(&number) => {
            Err(ValueError::Suggestion(format!("write {}", number / 100.0)))
        }
        _ => Err(ValueError::Unexpected),
    }
}

/// Parses a weight from 0 to 1000, in thousandths.
fn weight(text: &str) -> Result<u32, ValueError> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_plain = are_digits(whole) && are_digits(decimals) && decimals.len() <= 3;
    let thousandths: Option<u32> = format!("{whole}{decimals:0<3}").parse().ok();
    let valid = thousandths.filter(|thousandths| is_plain && *thousandths <= 1_000_000);
    valid.ok_or(ValueError::Unexpected)
}

/// Parses a number of bytes, in units of 1024 (`KiB`, `MiB`, `GiB`) or 1000 (`kB`, `MB`, `GB`).
fn bytes(text: &str) -> Result<u64, ValueError> {
    let (number, unit) = split_unit(text);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return Err(ValueError::Unexpected),
    };

    digits(number)
        .and_then(|number| number.checked_mul(factor))
        .ok_or(ValueError::Unexpected)
}

/// Parses digits with `_` between them.
fn digits(text: &str) -> Option<u64> {
    if are_digits(text) {
        text.replace('_', "").parse().ok()
    } else {
        None
    }
}

fn are_digits(text: &str) -> bool {
    text.split('_')
        .all(|group| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Splits `90 seconds` into `90` and `seconds`.
fn split_unit(text: &str) -> (&str, &str) {
    let is_digit = |c: char| c.is_ascii_digit() || c == '_';
    let unit = text.trim_start_matches(is_digit);
    (&text[..text.len() - unit.len()], unit.trim_start())
}

/// Rewrites `1e6` as `1000000` and `5.0` as `5`. `None` if the text is not a whole number in any
/// notation.
fn without_exponent(text: &str) -> Option<String> {
    let number = text.parse::<f64>().ok()?;
    let is_whole = number.fract() == 0.0 && (0.0..9e15).contains(&number);
    (is_whole && text.bytes().any(|byte| byte.is_ascii_digit())).then(|| format!("{number:.0}"))
}

pub(super) const DURATION: ValueKind<Duration> = ValueKind::new(
    "duration",
    "expected a number with a unit, such as 10ms, 1s, 15m, 1h or 1d",
    |text| duration(text.trim()),
);
pub(super) const CALENDAR: ValueKind<Calendar> =
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
fn duration(text: &str) -> Result<Duration, ValueError> {
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
fn calendar(text: &str) -> Result<Calendar, ValueError> {
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
fn unit_micros(unit: &str) -> Option<u64> {
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

pub(super) const RATE: ValueKind<Rate> = ValueKind::new(
    "rate",
    "expected a number per period, such as 10/s, 6/minute or 1/10s",
    |text| rate(text.trim()),
);
const RATE_FRACTION: &str = "expected whole numbers, such as 3/2s for 1.5/s";

/// Parses a number of units per period.
fn rate(text: &str) -> Result<Rate, ValueError> {
    let Some((amount, period)) = text.split_once('/').or_else(|| text.split_once(" per ")) else {
        return Err(digits(text).map_or(ValueError::Unexpected, |amount| {
            ValueError::Suggestion(format!(
                "the period is missing; write {amount}/s or {amount}/m"
            ))
        }));
    };

    let (amount, period) = (amount.trim_end(), period.trim_start());
    if amount.contains('.') && amount.parse::<f64>().is_ok() {
        return Err(ValueError::Reason(RATE_FRACTION));
    }

    let period = unit_micros(period)
        .map(Duration::from_micros)
        .or_else(|| duration(period).ok());
    match (digits(amount), period) {
        (Some(amount), Some(period)) => Ok(Rate::new(amount, period)),
        _ => Err(ValueError::Unexpected),
    }
}
