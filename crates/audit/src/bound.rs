//! What a limit allows in an interval, and by how much it was exceeded.

use std::fmt;

use tollgate::algorithm::WindowStart;
use tollgate::{Calendar, Micros, Quota};

/// What a limit allows in an interval of a given length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// At most `burst + per * s / period_micros` units in any closed interval of `s` microseconds.
    Rate {
        /// Units allowed in an instant.
        burst: u64,
        /// Units added per period.
        per: u64,
        /// Length of the period in microseconds.
        period_micros: u64,
    },
    /// At most `limit` units in any half-open interval of length `window`.
    PerWindow {
        /// The maximum number of units.
        limit: u64,
        /// The length of the interval.
        window: Micros,
    },
    /// At most `limit` units in each window that starts at a multiple of `window`. Only for logs
    /// whose times are those of the limit's clock.
    AlignedWindow {
        /// The maximum number of units.
        limit: u64,
        /// The length of the windows.
        window: Micros,
        /// Whether the previous window counts too, by the share that still overlaps, as in a
        /// sliding window.
        is_sliding: bool,
    },
}

impl Bound {
    /// The bound that an algorithm guarantees for any interval. `None` for concurrency limits,
    /// which do not limit intervals.
    ///
    /// A sliding window weights the previous window by the share that still overlaps. That share
    /// shrinks at a constant rate: after a burst of L at the end of one window of length W, the
    /// next window admits L * s / W in a time s. So it never admits more than a token bucket of
    /// capacity L that fills in W.
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

    /// The tightest bound for a log whose times are those of the limit's clock: windows that are
    /// aligned to the clock are judged one by one.
    pub fn for_quota_and_clock(quota: &Quota) -> Option<Self> {
        let limit = quota.limit();
        let (window, is_sliding) = match quota {
            Quota::FixedWindow(quota) => match quota.start() {
                WindowStart::Clock(unit) if unit != Calendar::Month => (unit.length_max(), false),
                _ => return Self::for_quota(&Quota::FixedWindow(*quota)),
            },
            Quota::SlidingWindow(quota) => (quota.window(), true),
            other => return Self::for_quota(other),
        };

        Some(Self::AlignedWindow {
            limit,
            window,
            is_sliding,
        })
    }

    /// An additional bound, which is tighter for long intervals. Only fixed windows have one: an
    /// instant at their edge can use up two windows, but each further window takes its full length.
    pub fn long_run_for_quota(quota: &Quota) -> Option<Self> {
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

    /// The same bound with additional units allowed in an instant.
    #[must_use]
    pub const fn with_extra_units(mut self, units: u64) -> Self {
        let (Self::Rate { burst: limit, .. }
        | Self::PerWindow { limit, .. }
        | Self::AlignedWindow { limit, .. }) = &mut self;
        *limit = limit.saturating_add(units);
        self
    }

    /// The same bound for a log whose clock may be slower than the clock of the limit by this many
    /// parts per million. Otherwise, a key that stays at its limit for an hour would seem to exceed
    /// it.
    #[must_use]
    pub const fn with_clock_drift(mut self, drift_ppm: u32) -> Self {
        let (whole, part) = (1_000_000, drift_ppm as u64);

        match &mut self {
            Self::Rate {
                per, period_micros, ..
            } => {
                *per = per.saturating_mul(whole + part);
                *period_micros = period_micros.saturating_mul(whole);
            }
            Self::PerWindow { window, .. } => {
                // Rounded down by more than the exact product would be.
                let cut = window.get() / whole * part + part;
                *window = Micros::new(window.get().saturating_sub(cut));
            }
            // Its log has the times of the limit's clock.
            Self::AlignedWindow { .. } => {}
        }
        self
    }
}

/// The minimum length of a window. An interval of this length overlaps at most two windows. Only
/// months vary in length.
fn shortest(start: WindowStart) -> Micros {
    match start {
        WindowStart::FirstHit(length) => length,
        WindowStart::Clock(Calendar::Month) => Micros::from_secs(28 * 86_400),
        WindowStart::Clock(unit) => unit.length_max(),
    }
}

/// The exact number of units above what was allowed. Negative if below.
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

    /// Whether more was admitted than allowed.
    pub const fn is_over(self) -> bool {
        self.numerator > 0
    }

    /// Whether it is more than this number of units.
    pub fn exceeds(self, units: u64) -> bool {
        self.numerator > i128::from(units) * i128::from(self.denominator)
    }

    /// The numerator and the denominator, not in lowest terms.
    pub const fn parts(self) -> (i128, u64) {
        (self.numerator, self.denominator)
    }

    /// The number of units as a float, for display.
    #[expect(clippy::cast_precision_loss, reason = "the value is only displayed")]
    pub fn units(self) -> f64 {
        self.numerator as f64 / self.denominator.max(1) as f64
    }
}

/// An integer or a mixed fraction: `-2`, `0`, `3`, `1 1/3`.
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
