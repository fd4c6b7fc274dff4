//! How fast a bucket refills or leaks.

use std::fmt;
use std::time::Duration;

use crate::time::Micros;

/// The most units per microsecond: ten million per second.
pub(crate) const PER_MICRO_MAX: u64 = 10;
/// The longest period of a rate.
pub(crate) const PERIOD_MAX: Micros = Micros::from_secs(30 * 86_400);

/// A rate as an amount per period. The constructor of the quota that uses it validates it.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Rate;
///
/// assert_eq!(Rate::per_minute(6).to_string(), "6 per 1m");
/// assert_eq!(Rate::new(3, Duration::from_millis(500)).to_string(), "3 per 500ms");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    amount: u64,
    period: Duration,
}

impl Rate {
    /// `amount` every `period`.
    pub const fn new(amount: u64, period: Duration) -> Self {
        Self { amount, period }
    }

    /// `amount` every second.
    pub const fn per_second(amount: u64) -> Self {
        Self::new(amount, Duration::from_secs(1))
    }

    /// `amount` every minute.
    pub const fn per_minute(amount: u64) -> Self {
        Self::new(amount, Duration::from_secs(60))
    }

    /// `amount` every hour.
    pub const fn per_hour(amount: u64) -> Self {
        Self::new(amount, Duration::from_secs(3_600))
    }

    /// `amount` every 24 hours.
    pub const fn per_day(amount: u64) -> Self {
        Self::new(amount, Duration::from_secs(86_400))
    }

    /// The rate in lowest terms, as `(units, microseconds)`; `None` when it is out of range.
    pub(crate) fn reduced(self) -> Option<(u64, u64)> {
        let amount = self.amount;
        let period = Micros::from_duration(self.period)
            .filter(|period| *period <= PERIOD_MAX)?
            .get();
        if amount == 0 || amount > period.saturating_mul(PER_MICRO_MAX) {
            return None;
        }

        let divisor = u64::try_from(gcd(amount.into(), period.into())).ok()?;
        Some((amount / divisor, period / divisor))
    }

    /// Reads a rate such as `10/s` or `1/10s`. The error shows the text and what is expected.
    #[cfg(feature = "serde")]
    pub(crate) fn from_text(text: &str) -> Result<Self, String> {
        let parse = || {
            let (amount, period) = text.split_once('/')?;
            let is_number = amount.bytes().all(|byte| byte.is_ascii_digit());
            let amount = is_number.then(|| amount.parse().ok())??;
            let unit = Micros::from_text(&format!("1{period}"));
            let period = Micros::from_text(period).or(unit).ok()?;
            Some(Self::new(amount, period.into()))
        };

        parse().ok_or_else(|| {
            let expected = "a whole number per period, such as 10/s, 6/m or 1/10s";
            format!("invalid rate {text:?}; expected {expected}")
        })
    }

    /// The text of a rate in `(units, microseconds)`: per second, minute, hour or day if that is
    /// a whole number.
    pub(crate) fn text_of((amount, period): (u64, u64)) -> String {
        let units = [(1, "s"), (60, "m"), (3_600, "h"), (86_400, "d")];
        let micros = |secs| Micros::from_secs(secs).get();
        match units
            .iter()
            .find(|(secs, _)| micros(*secs).is_multiple_of(period))
        {
            Some((secs, unit)) => format!("{}/{unit}", micros(*secs) / period * amount),
            None => format!("{amount}/{}", Micros::new(period)),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Micros::from_duration_ceil(self.period) {
            Some(period) => write!(f, "{} per {period}", self.amount),
            None => write!(f, "{} per {:?}", self.amount, self.period),
        }
    }
}

/// The greatest common divisor.
pub(crate) fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_reduced_to_its_smallest_fraction() {
        assert_eq!(Rate::per_minute(100).reduced(), Some((1, 600_000)));
        assert_eq!(Rate::per_second(7).reduced(), Some((7, 1_000_000)));
        assert_eq!(Rate::per_second(10_000_000).reduced(), Some((10, 1)));
        assert_eq!(
            Rate::new(1, Duration::from_secs(30 * 86_400)).reduced(),
            Some((1, 2_592_000_000_000))
        );
    }

    #[test]
    fn rates_out_of_range_are_rejected() {
        for rate in [
            Rate::per_second(0),
            Rate::per_second(10_000_001),
            Rate::new(1, Duration::ZERO),
            Rate::new(1, Duration::from_nanos(1_500)),
            Rate::new(1, Duration::from_secs(31 * 86_400)),
            Rate::new(u64::MAX, Duration::MAX),
        ] {
            assert_eq!(rate.reduced(), None, "{rate}");
        }
    }
}
