//! Whole numbers, ratios and sizes.

use super::kind::{ValueError, ValueKind};

pub(crate) const INTEGER: ValueKind<u64> =
    ValueKind::new("number", "expected a whole number, such as 100", |text| {
        integer(text.trim())
    });
pub(crate) const RATIO: ValueKind<f64> = ValueKind::new(
    "ratio",
    "expected a number between 0 and 1, such as 0.8",
    |text| ratio(text.trim()),
);
/// What a token costs, in thousandths of a unit.
pub(crate) const WEIGHT: ValueKind<u32> = ValueKind::new(
    "weight",
    "expected a number between 0 and 1000 with at most three decimals, such as 4 or 0.1",
    |text| weight(text.trim()),
);
pub(crate) const SIZE: ValueKind<u64> = ValueKind::new(
    "size",
    "expected a number of bytes, such as 65536, 64KiB or 1MiB",
    |text| bytes(text.trim()),
);
pub(super) const TOO_LARGE: &str = "must be at most 9007199254740992 (2^53)";

/// Parses a whole number. `_` may separate digits.
pub(super) fn integer(text: &str) -> Result<u64, ValueError> {
    digits(text).ok_or_else(|| match without_exponent(text) {
        Some(number) => ValueError::Suggestion(format!("write {number}")),
        None if are_digits(text) => ValueError::Reason(TOO_LARGE),
        None => ValueError::Unexpected,
    })
}

/// Parses a ratio from 0 to 1.
pub(super) fn ratio(text: &str) -> Result<f64, ValueError> {
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
pub(super) fn weight(text: &str) -> Result<u32, ValueError> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_plain = are_digits(whole) && are_digits(decimals) && decimals.len() <= 3;
    let thousandths: Option<u32> = format!("{whole}{decimals:0<3}").parse().ok();
    let valid = thousandths.filter(|thousandths| is_plain && *thousandths <= 1_000_000);
    valid.ok_or(ValueError::Unexpected)
}

/// Parses a number of bytes, in units of 1024 (`KiB`, `MiB`, `GiB`) or 1000 (`kB`, `MB`, `GB`).
pub(super) fn bytes(text: &str) -> Result<u64, ValueError> {
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
pub(super) fn digits(text: &str) -> Option<u64> {
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
pub(super) fn split_unit(text: &str) -> (&str, &str) {
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
