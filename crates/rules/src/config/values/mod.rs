//! Numbers, times, rates and sizes as people write them. Knows no files and no fields: text in,
//! value or what is wrong out.

mod length;
mod rate;
#[cfg(test)]
mod tests;

pub(super) use length::{Length, duration, window};
pub(super) use rate::rate;

const WHOLE: &str = "write a whole number, such as 100";
const LARGE: &str = "no number here is larger than 9007199254740992 (2^53)";
const SIZE: &str = "write bytes as a whole number, or with a unit: 64KiB or 1MiB";
const RATIO: &str = "write a number from 0 to 1, such as 0.8";

/// Why a text is no such value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// What would be right, whatever was found.
    pub(super) right: &'static str,
    /// What was probably meant, rightly spelt. It repeats what was found, so it is not for secrets.
    pub(super) meant: Option<String>,
}

impl Wrong {
    const fn new(right: &'static str) -> Self {
        Self { right, meant: None }
    }

    const fn meant(right: &'static str, meant: String) -> Self {
        Self {
            right,
            meant: Some(meant),
        }
    }
}

/// A whole number, with `_` between digits where that helps.
pub(super) fn whole(text: &str) -> Result<u64, Wrong> {
    digits(text).ok_or_else(|| match spelt_out(text) {
        Some(number) => Wrong::meant(WHOLE, number),
        None if are_digits(text) => Wrong::new(LARGE),
        None => Wrong::new(WHOLE),
    })
}

/// A part of a whole, from 0 to 1.
pub(super) fn ratio(text: &str) -> Result<f64, Wrong> {
    let is_plain = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    match text.parse::<f64>() {
        Ok(ratio) if is_plain && (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err(text
            .strip_suffix('%')
            .and_then(percent)
            .map_or(Wrong::new(RATIO), |meant| Wrong::meant(RATIO, meant))),
    }
}

/// A number of bytes, in units of 1024 (`KiB`, `MiB`, `GiB`) or 1000 (`kB`, `MB`, `GB`).
pub(super) fn bytes(text: &str) -> Result<u64, Wrong> {
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
        .ok_or_else(|| Wrong::new(SIZE))
}

/// Digits, and `_` between them.
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

/// `90 seconds` as `90` and `seconds`.
fn split_unit(text: &str) -> (&str, &str) {
    let at = text
        .find(|c: char| !(c.is_ascii_digit() || c == '_'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    (number, unit.trim_start())
}

/// `1e6` as `1000000`, and `5.0` as `5`; `None` for what is no whole number in any spelling.
fn spelt_out(text: &str) -> Option<String> {
    let number = text.parse::<f64>().ok()?;
    let is_whole = number.fract() == 0.0 && (0.0..9e15).contains(&number);
    (is_whole && text.bytes().any(|byte| byte.is_ascii_digit())).then(|| format!("{number:.0}"))
}

/// `80 %` as `0.8`.
fn percent(text: &str) -> Option<String> {
    let number = text.trim_end().parse::<f64>().ok()?;
    (0.0..=100.0)
        .contains(&number)
        .then(|| (number / 100.0).to_string())
}
