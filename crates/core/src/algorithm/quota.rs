//! The parameters of any algorithm, as one type.

use std::io::Write as _;
use std::time::Duration;

use super::concurrency::Concurrency;
use super::fixed_window::{FixedWindow, WindowStart};
use super::gcra::Gcra;
use super::leaky_bucket::{LeakyBucket, LeakyMode};
use super::sliding_log::SlidingLog;
use super::sliding_window::SlidingWindow;
use super::token_bucket::TokenBucket;
use crate::limit_error::LimitError;
use crate::rate::{Rate, gcd};
use crate::time::Micros;

/// What a limit allows: an algorithm and its validated parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quota {
    /// One count per window, which starts again at zero when the window ends.
    FixedWindow(FixedWindow),
    /// The weighted counts of the current and the previous window.
    SlidingWindow(SlidingWindow),
    /// A timestamp for every hit.
    SlidingLog(SlidingLog),
    /// Bursts up to a capacity, refilled at a rate.
    TokenBucket(TokenBucket),
    /// A meter that denies what would overflow, or a queue that spaces out what it admits.
    LeakyBucket(LeakyBucket),
    /// A bound on the units in flight.
    Concurrency(Concurrency),
}

impl Quota {
    /// The most units that can be spent at one moment: the limit or the capacity.
    pub const fn limit(&self) -> u64 {
        match self {
            Self::FixedWindow(quota) => quota.limit,
            Self::SlidingWindow(quota) => quota.limit,
            Self::SlidingLog(quota) => quota.limit,
            Self::TokenBucket(quota) => quota.gcra.capacity,
            Self::LeakyBucket(quota) => quota.gcra.capacity,
            Self::Concurrency(quota) => quota.limit,
        }
    }

    /// The time to which [`limit`](Self::limit) refers: the window, or how long a bucket takes
    /// from empty to full. `None` for a concurrency limit.
    pub const fn window(&self) -> Option<Micros> {
        match self {
            Self::FixedWindow(quota) => Some(quota.start.length_max()),
            Self::SlidingWindow(quota) => Some(quota.length),
            Self::SlidingLog(quota) => Some(quota.length),
            Self::TokenBucket(quota) => Some(quota.gcra.span),
            Self::LeakyBucket(quota) => Some(quota.gcra.span),
            Self::Concurrency(_) => None,
        }
    }

    /// The arithmetic of a bucket; `None` for other algorithms.
    pub(crate) const fn bucket(&self) -> Option<&Gcra> {
        match self {
            Self::TokenBucket(TokenBucket { gcra })
            | Self::LeakyBucket(LeakyBucket { gcra, .. }) => Some(gcra),
            _ => None,
        }
    }

    /// How fast a bucket refills or leaks, as in a configuration: `10/s`. `None` for other
    /// algorithms.
    pub fn rate_text(&self) -> Option<String> {
        self.bucket().map(|bucket| Rate::text_of(bucket.rate()))
    }

    /// The quota times `numerator / denominator`: the limit or capacity, at least 1, and the rate of
    /// a bucket. The shape stays the same. An error if a number is out of range.
    ///
    /// ```
    /// use tollgate::{Quota, Rate, TokenBucket};
    ///
    /// let bucket: Quota = TokenBucket::new(10, Rate::per_second(4))?.into();
    /// let scaled: Quota = TokenBucket::new(15, Rate::per_second(6))?.into();
    /// assert_eq!(bucket.scaled(3, 2)?, scaled);
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub fn scaled(&self, numerator: u32, denominator: u32) -> Result<Self, LimitError> {
        let (numerator, denominator) = (u128::from(numerator), u128::from(denominator.max(1)));
        let limit = u128::from(self.limit()) * numerator / denominator;
        let limit = u64::try_from(limit).unwrap_or(u64::MAX).max(1);

        let rate = |bucket: &Gcra| {
            let (per, period) = bucket.rate();
            let (per, period) = (
                u128::from(per) * numerator,
                u128::from(period) * denominator,
            );
            let divisor = gcd(per, period).max(1);
            let part = |number: u128| u64::try_from(number / divisor).unwrap_or(u64::MAX);
            Rate::new(part(per), Duration::from_micros(part(period)))
        };
        let length = |length: Micros| Duration::from(length);
        Ok(match self {
            Self::FixedWindow(quota) => match quota.start {
                WindowStart::FirstHit(window) => FixedWindow::new(limit, length(window))?.into(),
                WindowStart::Clock(unit) => FixedWindow::aligned(limit, unit)?.into(),
            },
            Self::SlidingWindow(quota) => SlidingWindow::new(limit, length(quota.length))?.into(),
            Self::SlidingLog(quota) => SlidingLog::new(limit, length(quota.length))?.into(),
            Self::TokenBucket(quota) => TokenBucket::new(limit, rate(&quota.gcra))?.into(),
            Self::LeakyBucket(quota) => {
                LeakyBucket::new(quota.mode, limit, rate(&quota.gcra))?.into()
            }
            Self::Concurrency(quota) => {
                Concurrency::new(limit, length(quota.permit_timeout))?.into()
            }
        })
    }

    /// The algorithm's name, as in a configuration.
    pub const fn algorithm(&self) -> &'static str {
        match self {
            Self::FixedWindow(_) => "fixed_window",
            Self::SlidingWindow(_) => "sliding_window",
            Self::SlidingLog(_) => "sliding_log",
            Self::TokenBucket(_) => "token_bucket",
            Self::LeakyBucket(_) => "leaky_bucket",
            Self::Concurrency(_) => "concurrency",
        }
    }

    /// The part of the quota that determines what the state of a counter means.
    ///
    /// Two quotas of the same shape can share a counter: the limit and the rate may change, and
    /// usage carries over. A different algorithm or window needs a different counter.
    pub fn shape(&self) -> QuotaShape {
        let (tag, window) = match self {
            Self::FixedWindow(quota) => match quota.start {
                WindowStart::FirstHit(length) => (b'f', length.get()),
                WindowStart::Clock(unit) => (b'c', unit as u64),
            },
            Self::SlidingWindow(quota) => (b's', quota.length.get()),
            Self::SlidingLog(quota) => (b'l', quota.length.get()),
            Self::TokenBucket(_) => (b't', 0),
            Self::LeakyBucket(quota) => match quota.mode {
                LeakyMode::Meter => (b'm', 0),
                LeakyMode::Queue => (b'q', 0),
            },
            Self::Concurrency(_) => (b'n', 0),
        };

        QuotaShape { tag, window }
    }
}

/// The algorithm and the window of a quota, see [`Quota::shape`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuotaShape {
    /// One letter per algorithm.
    pub(crate) tag: u8,
    /// The window in microseconds or the calendar unit's number; 0 where the state does not depend
    /// on a window.
    pub(crate) window: u64,
}

impl QuotaShape {
    /// Appends the letter and the window in decimal digits, which is short and safe in any key.
    pub fn write(self, into: &mut Vec<u8>) {
        write!(into, "{}{}", char::from(self.tag), self.window).expect("a vector takes all bytes");
    }
}

macro_rules! quota_from {
    ($($kind:ident),*) => {$(
        impl From<$kind> for Quota {
            fn from(quota: $kind) -> Self {
                Self::$kind(quota)
            }
        }
    )*};
}
quota_from!(
    FixedWindow,
    SlidingWindow,
    SlidingLog,
    TokenBucket,
    LeakyBucket,
    Concurrency
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Calendar;

    #[test]
    fn a_scaled_quota_keeps_its_shape() {
        let secs = Duration::from_secs;
        let quotas: [Quota; 7] = [
            FixedWindow::new(10, secs(60)).unwrap().into(),
            FixedWindow::aligned(10, Calendar::Day).unwrap().into(),
            SlidingWindow::new(10, secs(60)).unwrap().into(),
            SlidingLog::new(10, secs(60)).unwrap().into(),
            TokenBucket::new(10, Rate::per_hour(1)).unwrap().into(),
            LeakyBucket::new(LeakyMode::Queue, 10, Rate::per_second(3))
                .unwrap()
                .into(),
            Concurrency::new(10, secs(30)).unwrap().into(),
        ];
        for quota in quotas {
            let doubled = quota.scaled(2_000, 1_000).unwrap();
            assert_eq!(doubled.shape(), quota.shape());
            assert_eq!(doubled.limit(), 20, "{quota:?}");
            assert_eq!(doubled.scaled(1, 2), Ok(quota));
            assert_eq!(quota.scaled(1, 100).unwrap().limit(), 1, "at least 1");
        }

        let rate = |quota: &Quota| quota.rate_text().unwrap();
        assert_eq!(rate(&quotas[4].scaled(3, 2).unwrap()), "36/d");
        assert_eq!(rate(&quotas[5].scaled(2, 1).unwrap()), "6/s");
        assert!(quotas[6].scaled(u32::MAX, 1).is_err());
    }

    #[test]
    fn a_shape_is_a_letter_and_a_number() {
        for window in [0, 9, 10, 60_000_000, u64::MAX] {
            let mut written = Vec::new();
            QuotaShape { tag: b's', window }.write(&mut written);
            assert_eq!(String::from_utf8(written).unwrap(), format!("s{window}"));
        }
    }
}
