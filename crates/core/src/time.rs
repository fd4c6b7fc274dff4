//! The unit of time of all algorithms and stores: whole microseconds.

use std::fmt;
use std::time::Duration;

/// The units in which durations are written, with their lengths in microseconds.
const UNITS: [(u64, &str); 6] = [
    (86_400_000_000, "d"),
    (3_600_000_000, "h"),
    (60_000_000, "m"),
    (1_000_000, "s"),
    (1_000, "ms"),
    (1, "us"),
];

/// Whole microseconds: a point in time since the UNIX epoch on a store's timeline, or a duration.
///
/// All computations use this unit, in integers. Points in time stay below 2^53 until the year 2255,
/// so Lua's doubles represent them exactly.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Micros(u64);

impl Micros {
    /// Zero: an empty duration, or the UNIX epoch.
    pub const ZERO: Self = Self(0);
    /// The latest point in time that stores can represent: 2^53 - 1, in the year 2255.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// Creates a value from microseconds.
    pub const fn new(micros: u64) -> Self {
        Self(micros)
    }

    /// Creates a value from seconds, at most [`u64::MAX`] microseconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Creates a value from milliseconds, at most [`u64::MAX`] microseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// The number of microseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whole seconds, rounded up.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// The duration from `earlier` to `self`; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// `self + length`, at most [`u64::MAX`] microseconds.
    #[must_use]
    pub const fn after(self, length: Self) -> Self {
        Self(self.0.saturating_add(length.0))
    }

    /// A duration in whole microseconds, rounded up; `None` when it exceeds [`u64::MAX`].
    pub fn from_duration_ceil(duration: Duration) -> Option<Self> {
        u64::try_from(duration.as_nanos().div_ceil(1_000))
            .ok()
            .map(Self)
    }

    /// A duration that is a whole number of microseconds; `None` for any other.
    pub fn from_duration(duration: Duration) -> Option<Self> {
        Self::from_duration_ceil(duration).filter(|micros| Duration::from(*micros) == duration)
    }

    /// Reads a duration as it is displayed: a whole number and a unit. The error shows the text and
    /// what is expected.
    #[cfg(feature = "serde")]
    pub fn from_text(text: &str) -> Result<Self, String> {
        let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let amount = text
            .strip_suffix(unit)
            .and_then(|digits| digits.parse::<u64>().ok());
        let micros = UNITS
            .iter()
            .find(|(_, name)| *name == unit)
            .map(|(micros, _)| *micros);

        let length = amount
            .zip(micros)
            .and_then(|(amount, micros)| amount.checked_mul(micros));
        length.map(Self).ok_or_else(|| {
            let expected = "a whole number with a unit, such as 500ms, 10s, 1m, 1h or 1d";
            format!("invalid duration {text:?}; expected {expected}")
        })
    }
}

impl From<Micros> for Duration {
    fn from(length: Micros) -> Self {
        Duration::from_micros(length.0)
    }
}

impl fmt::Debug for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us", self.0)
    }
}

/// Formats a duration in the largest unit that needs no fraction, such as `15m` or `1500ms`.
impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(unit, _): &&(u64, &str)| self.0 >= *unit && self.0.is_multiple_of(*unit);

        match UNITS.iter().find(fits) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => f.write_str("0s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_shown_in_the_largest_whole_unit() {
        let shown = |micros| Micros::new(micros).to_string();
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(900_000_000), "15m");
        assert_eq!(shown(1_500_000), "1500ms");
        assert_eq!(shown(86_400_000_000), "1d");
        assert_eq!(shown(7), "7us");
    }

    #[test]
    fn seconds_round_up() {
        assert_eq!(Micros::new(1).as_secs_ceil(), 1);
        assert_eq!(Micros::from_secs(3).as_secs_ceil(), 3);
        assert_eq!(Micros::new(3_000_001).as_secs_ceil(), 4);
    }

    #[test]
    fn durations_round_up_and_must_fit() {
        assert_eq!(
            Micros::from_duration_ceil(Duration::from_nanos(1)),
            Some(Micros::new(1))
        );
        assert_eq!(Micros::from_duration_ceil(Duration::MAX), None);
    }
}
