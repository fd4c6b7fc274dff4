//! What limits allow in an interval, and how far something is from it.

use std::fmt;

use tollgate::algorithm::WindowStart;
use tollgate::{Calendar, Micros, Quota};

/// What a limit allows in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// In any closed interval of length s at most `burst + per * s / period_micros`.
    Rate {
        /// What may come at once.
        burst: u64,
        /// So many ...
        per: u64,
        /// ... every so many microseconds.
        period_micros: u64,
    },
    /// In any half-open interval of length `window` at most `limit`.
    PerWindow {
        /// The most.
        limit: u64,
        /// The length.
        window: Micros,
    },
}

impl Bound {
    /// What the algorithm promises for any interval; a concurrency limit promises nothing about
    /// intervals.
    ///
    /// A sliding window counts as the share of the window before it that is left, and that share
    /// shrinks as evenly as a bucket fills: behind a burst of L at the end of one window, the next
    /// lets L * s / W through in a time of s. So it keeps to a bucket of L that fills in W.
    pub fn for_quota(quota: &Quota) -> Option<Self> {
        let limit = quota.limit();
        let rate = |(per, period_micros)| {
            Some(Self::Rate {
                burst: limit,
                per,
                period_micros,
            })
        };
        match quota {
            Quota::SlidingLog(quota) => Some(Self::PerWindow {
                limit,
                window: quota.window(),
            }),
            Quota::SlidingWindow(quota) => rate((limit, quota.window().get())),
            Quota::FixedWindow(quota) => Some(Self::PerWindow {
                limit: limit.saturating_mul(2),
                window: shortest(quota.start()),
            }),
            Quota::TokenBucket(quota) => rate(quota.refill()),
            Quota::LeakyBucket(quota) => rate(quota.leak()),
            Quota::Concurrency(_) => None,
        }
    }

    /// What it promises beside that for intervals that are long. Two fixed windows next to each
    /// other can be emptied at once, but every further one takes its time.
    pub fn in_the_long_run(quota: &Quota) -> Option<Self> {
        let Quota::FixedWindow(window) = quota else {
            return None;
        };
        let (burst, per) = (window.limit().saturating_mul(2), window.limit());
        Some(Self::Rate {
            burst,
            per,
            period_micros: shortest(window.start()).get(),
        })
    }

    /// The same with so many units more at once.
    #[must_use]
    pub const fn raised(self, units: u64) -> Self {
        match self {
            Self::Rate {
                burst,
                per,
                period_micros,
            } => Self::Rate {
                burst: burst.saturating_add(units),
                per,
                period_micros,
            },
            Self::PerWindow { limit, window } => Self::PerWindow {
                limit: limit.saturating_add(units),
                window,
            },
        }
    }

    /// The same for a log that is kept by a clock which may go so many millionths slower than the
    /// one by which the limit counts: whoever is at the limit for an hour would else be accused of
    /// what the clocks differ by.
    #[must_use]
    pub const fn by_another_clock(self, millionths: u32) -> Self {
        let (whole, part) = (1_000_000, millionths as u64);
        match self {
            Self::Rate {
                burst,
                per,
                period_micros,
            } => Self::Rate {
                burst,
                per: per.saturating_mul(whole + part),
                period_micros: period_micros.saturating_mul(whole),
            },
            Self::PerWindow { limit, window } => {
                // Rounded down, and by more than the product would lose.
                let cut = window.get() / whole * part + part;
                Self::PerWindow {
                    limit,
                    window: Micros::new(window.get().saturating_sub(cut)),
                }
            }
        }
    }
}

/// An interval of the shortest length that a window can have meets at most two of them. Only months
/// differ in length.
fn shortest(start: WindowStart) -> Micros {
    match start {
        WindowStart::FirstHit(length) => length,
        WindowStart::Clock(Calendar::Month) => Micros::from_secs(28 * 86_400),
        WindowStart::Clock(unit) => unit.length_max(),
    }
}

/// An exact number of units over (or, below zero, under) what was allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    numerator: i128,
    denominator: u64,
}

impl Excess {
    pub(crate) const fn new(numerator: i128, denominator: u64) -> Self {
        Self {
            numerator,
            denominator,
        }
    }

    /// True when more was admitted than allowed.
    pub const fn is_over(self) -> bool {
        self.numerator > 0
    }

    /// The numerator and the denominator, not in lowest terms.
    pub const fn parts(self) -> (i128, u64) {
        (self.numerator, self.denominator)
    }

    /// In units, to show it.
    #[expect(clippy::cast_precision_loss, reason = "it is only shown")]
    pub fn units(self) -> f64 {
        self.numerator as f64 / self.denominator.max(1) as f64
    }
}

/// A whole number, or a whole number and a fraction: `-2`, `0`, `3`, `1 1/3`.
impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let denominator = i128::from(self.denominator.max(1));
        let (whole, rest) = (
            (self.numerator / denominator).abs(),
            (self.numerator % denominator).abs(),
        );
        let sign = if self.numerator < 0 { "-" } else { "" };
        match (whole, rest) {
            (whole, 0) => write!(f, "{sign}{whole}"),
            (0, rest) => write!(f, "{sign}{rest}/{denominator}"),
            (whole, rest) => write!(f, "{sign}{whole} {rest}/{denominator}"),
        }
    }
}
