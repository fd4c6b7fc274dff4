//! Parses how long requests took.
//!
//! Servers agree neither on the unit nor on the name: nginx logs seconds, Envoy milliseconds,
//! Apache microseconds, Traefik nanoseconds. A unit after the number decides, then a unit at the
//! end of the field's name, then the form of the number.

use tollgate::Micros;

/// Longer durations are cut to this, a day.
const DURATION_MAX: u64 = 86_400_000_000;

/// The unit of a duration without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DurationUnit {
    Seconds,
    Millis,
    Micros,
    Nanos,
    /// Seconds if the number has a decimal point, otherwise milliseconds.
    ByForm,
}

/// The units at the end of numbers and field names. `s` comes last, as the others end with it.
const SUFFIXES: [(&str, DurationUnit); 7] = [
    ("ms", DurationUnit::Millis),
    ("us", DurationUnit::Micros),
    ("\u{b5}s", DurationUnit::Micros),
    ("ns", DurationUnit::Nanos),
    ("seconds", DurationUnit::Seconds),
    ("secs", DurationUnit::Seconds),
    ("s", DurationUnit::Seconds),
];

impl DurationUnit {
    /// The unit that a field's name ends with, as in `duration_ms`.
    pub(super) fn from_name(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        if name == "request_time" {
            return Self::Seconds;
        }

        let unit = name.rsplit_once('_').map_or("", |(_, unit)| unit);
        let named = SUFFIXES.iter().find(|(suffix, _)| *suffix == unit);
        named.map_or(Self::ByForm, |(_, unit)| *unit)
    }

    /// The nanoseconds of one unit.
    const fn nanos(self, has_point: bool) -> u128 {
        match self {
            Self::ByForm if has_point => 1_000_000_000,
            Self::Seconds => 1_000_000_000,
            Self::Millis | Self::ByForm => 1_000_000,
            Self::Micros => 1_000,
            Self::Nanos => 1,
        }
    }

    /// Parses `0.012`, `12`, `12ms` or `1.5s`.
    pub(super) fn parse(self, text: &str) -> Option<Micros> {
        let text = text.trim();
        let suffix = SUFFIXES
            .iter()
            .find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit)));
        let (number, unit) = suffix.unwrap_or((text, self));

        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || whole.len() > 18 || !is_digits(whole) || !is_digits(fraction) {
            return None;
        }

        let unit_nanos = unit.nanos(number.contains('.'));
        let mut nanos = whole.parse::<u128>().ok()? * unit_nanos;
        let mut digit_nanos = unit_nanos;
        for digit in fraction.bytes() {
            digit_nanos /= 10;
            nanos += u128::from(digit - b'0') * digit_nanos;
        }
        let micros = u64::try_from(nanos.div_ceil(1_000)).unwrap_or(DURATION_MAX);
        Some(Micros::new(micros.min(DURATION_MAX)))
    }
}

/// The duration in a word after the request of a common or combined line: `rt=0.012`,
/// `request_time=0.012`, `duration=12ms`, or nginx's `$request_time` as it is, `0.012`.
pub(super) fn from_word(word: &str) -> Option<Micros> {
    if let Some((name, value)) = word.split_once('=') {
        let is_duration = ["rt", "request_time", "duration"].contains(&name);
        return is_duration.then(|| DurationUnit::Seconds.parse(value))?;
    }

    // nginx writes exactly three digits after the point.
    let is_request_time = word.len() >= 5 && word.as_bytes()[word.len() - 4] == b'.';
    let is_plain = word
        .bytes()
        .all(|byte| byte == b'.' || byte.is_ascii_digit());
    (is_request_time && is_plain).then(|| DurationUnit::Seconds.parse(word))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_by_unit() {
        for (unit, text, micros) in [
            (DurationUnit::Seconds, "0.012", 12_000),
            (DurationUnit::Seconds, "2", 2_000_000),
            (DurationUnit::ByForm, "0.0123456789", 12_346),
            (DurationUnit::ByForm, "12", 12_000),
            (DurationUnit::ByForm, "1.5ms", 1_500),
            (DurationUnit::Millis, "3s", 3_000_000),
            (DurationUnit::Millis, "250\u{b5}s", 250),
            (DurationUnit::Nanos, "1500001", 1_501),
            (DurationUnit::Micros, "7", 7),
            (DurationUnit::Seconds, "999999999999999999", DURATION_MAX),
        ] {
            assert_eq!(unit.parse(text), Some(Micros::new(micros)), "{text}");
        }
        for text in [
            "",
            "-",
            "s",
            "-1",
            "1e3",
            ".5",
            "1.2.3",
            "9999999999999999999999",
        ] {
            assert_eq!(DurationUnit::Seconds.parse(text), None, "{text}");
        }
    }

    #[test]
    fn names_have_units() {
        for (name, unit) in [
            ("request_time", DurationUnit::Seconds),
            ("duration_ms", DurationUnit::Millis),
            ("Elapsed_US", DurationUnit::Micros),
            ("took_seconds", DurationUnit::Seconds),
            ("duration", DurationUnit::ByForm),
            ("forms", DurationUnit::ByForm),
        ] {
            assert_eq!(DurationUnit::from_name(name), unit, "{name}");
        }
    }

    #[test]
    fn words_of_a_line_are_durations_only_if_they_look_so() {
        for (word, micros) in [
            ("0.012", Some(12_000)),
            ("12.345", Some(12_345_000)),
            ("rt=0.5", Some(500_000)),
            ("duration=12ms", Some(12_000)),
            ("1.2.3.456", None),
            ("0.12", None),
            ("200", None),
            ("uct=0.001", None),
            ("rt=-", None),
            ("", None),
        ] {
            assert_eq!(from_word(word), micros.map(Micros::new), "{word}");
        }
    }
}
