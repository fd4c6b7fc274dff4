//! One unit of time for every algorithm and every store.

use std::fmt;
use std::time::Duration;

/// Whole microseconds: a moment since the UNIX epoch on a store's own timeline, or a length of
/// time.
///
/// Every computation is in this unit, in integers. A moment stays below 2^53 until the year 2255,
/// so it passes unharmed through Lua's doubles.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Micros(u64);

impl Micros {
    /// No time at all, or the epoch.
    pub const ZERO: Self = Self(0);
    /// The last moment any store keeps: 2^53 - 1, in the year 2255.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// So many microseconds.
    pub const fn new(micros: u64) -> Self {
        Self(micros)
    }

    /// So many whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// So many whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// The number of microseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whole seconds, rounded up: what `Retry-After` and `t` are made of.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// `self - earlier`, or zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// `self + length`, at most [`u64::MAX`] microseconds.
    #[must_use]
    pub const fn after(self, length: Self) -> Self {
        Self(self.0.saturating_add(length.0))
    }

    /// A duration as whole microseconds, rounded up; `None` when it does not fit.
    pub fn from_duration_ceil(duration: Duration) -> Option<Self> {
        u64::try_from(duration.as_nanos().div_ceil(1_000))
            .ok()
            .map(Self)
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

/// A length for people: the largest unit that says it without a fraction, as in `15m` or `1500ms`.
impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 5] = [
            (86_400_000_000, "d"),
            (3_600_000_000, "h"),
            (60_000_000, "m"),
            (1_000_000, "s"),
            (1_000, "ms"),
        ];
        let fits = |(unit, _): &&(u64, &str)| self.0 >= *unit && self.0.is_multiple_of(*unit);
        match UNITS.iter().find(fits) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None if self.0 == 0 => f.write_str("0s"),
            None => write!(f, "{}us", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_read_as_people_write_them() {
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
    fn durations_round_up_and_may_be_too_long() {
        assert_eq!(
            Micros::from_duration_ceil(Duration::from_nanos(1)),
            Some(Micros::new(1))
        );
        assert_eq!(Micros::from_duration_ceil(Duration::MAX), None);
    }
}
