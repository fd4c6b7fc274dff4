//! Parses numbers, durations, rates, sizes and ratios. Knows nothing of files and fields.

mod duration;
mod rate;
#[cfg(test)]
mod tests;

pub(super) use duration::{DURATION, WindowLength, duration, window};
pub(super) use rate::{RATE, rate};

pub(super) const INTEGER: &str = "expected a whole number, such as 100";
pub(super) const SIZE: &str = "expected a number of bytes, such as 65536, 64KiB or 1MiB";
pub(super) const RATIO: &str = "expected a number between 0 and 1, such as 0.8";
const TOO_LARGE: &str = "must be at most 9007199254740992 (2^53)";

/// The reason why a text is not a valid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ValueError {
    /// What is expected. It does not repeat the value.
    pub(super) reason: &'static str,
    /// What to write instead. It repeats the value, so it must not be shown for secrets.
    pub(super) suggestion: Option<String>,
}

impl ValueError {
    const fn new(reason: &'static str) -> Self {
        Self {
            reason,
            suggestion: None,
        }
    }

    const fn with_suggestion(reason: &'static str, suggestion: String) -> Self {
        Self {
            reason,
            suggestion: Some(suggestion),
        }
    }
}

/// Parses a whole number. `_` may separate digits.
pub(super) fn integer(text: &str) -> Result<u64, ValueError> {
    digits(text).ok_or_else(|| match without_exponent(text) {
        Some(number) => ValueError::with_suggestion(INTEGER, format!("write {number}")),
        None if are_digits(text) => ValueError::new(TOO_LARGE),
        None => ValueError::new(INTEGER),
    })
}

/// Parses a ratio from 0 to 1.
pub(super) fn ratio(text: &str) -> Result<f64, ValueError> {
    let is_plain = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');

    match text.parse::<f64>() {
        Ok(ratio) if is_plain && (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err(text
            .strip_suffix('%')
            .and_then(percent)
            .map_or(ValueError::new(RATIO), |ratio| {
                ValueError::with_suggestion(RATIO, format!("write {ratio}"))
            })),
    }
}

/// Parses a number of bytes, in units of 1024 (`KiB`, `MiB`, `GiB`) or 1000 (`kB`, `MB`, `GB`).
pub(super) fn bytes(text: &str) -> Result<u64, ValueError> {
    const UNITS: [(&str, u64); 8] = [
        ("", 1),
        ("b", 1),
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
        ("kb", 1_000),
        ("mb", 1_000_000),
        ("gb", 1_000_000_000),
    ];

    let (number, unit) = split_unit(text);
    let unit = unit.to_ascii_lowercase();
    let factor = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, factor)| *factor);

    factor
        .and_then(|factor| digits(number)?.checked_mul(factor))
        .ok_or_else(|| ValueError::new(SIZE))
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
    let at = text
        .find(|c: char| !(c.is_ascii_digit() || c == '_'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    (number, unit.trim_start())
}

/// Rewrites `1e6` as `1000000` and `5.0` as `5`. `None` if the text is not a whole number in any
/// notation.
fn without_exponent(text: &str) -> Option<String> {
    let number = text.parse::<f64>().ok()?;
    let is_whole = number.fract() == 0.0 && (0.0..9e15).contains(&number);
    (is_whole && text.bytes().any(|byte| byte.is_ascii_digit())).then(|| format!("{number:.0}"))
}

/// Rewrites `80 %` without its sign as `0.8`.
fn percent(text: &str) -> Option<String> {
    let number = text.trim_end().parse::<f64>().ok()?;
    (0.0..=100.0)
        .contains(&number)
        .then(|| (number / 100.0).to_string())
}
