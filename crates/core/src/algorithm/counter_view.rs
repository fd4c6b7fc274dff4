//! What a counter contains, for people and client libraries that look at it.

use super::fixed_window::WindowStart;
use super::lockout::LockoutView;
use super::quota::Quota;
use super::remote::CounterState;
use crate::time::Micros;

/// What a counter contains at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CounterView {
    /// Units used: the limit less what remains, or more than the limit if the counter is in debt.
    /// Units that other instances have leased are included; those that this one holds are not.
    pub used: u64,
    /// What else the counter contains, by algorithm.
    pub detail: CounterDetail,
    /// Open reservations. Their units are included in the units used.
    pub reserved: ReservedUnits,
    /// Units on lease to all instances, of a leased bucket. `None` for other limits: a window
    /// counts units as used when it leases them.
    pub leased: Option<u64>,
    /// Units on lease to this instance and not spent. `None` if the limit is not leased.
    pub held: Option<u64>,
    /// The denials and the lockout of the key. `None` if the limit has no lockout.
    pub lockout: Option<LockoutView>,
}

/// What a counter contains besides the units used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CounterDetail {
    /// A fixed window.
    FixedWindow {
        /// The current window. `None` if it begins with the next hit.
        window: Option<WindowSpan>,
    },
    /// A sliding window.
    SlidingWindow {
        /// The current window.
        window: WindowSpan,
        /// Units spent in the current window.
        current: u64,
        /// Units spent in the window before it. They count in proportion to how much of that
        /// window the sliding window still covers.
        previous: u64,
    },
    /// A sliding log.
    SlidingLog {
        /// The interval up to now whose hits count.
        window: WindowSpan,
        /// The time of the oldest hit that counts. `None` if there is none.
        oldest: Option<Micros>,
    },
    /// A token bucket or either leaky bucket.
    Bucket {
        /// How full the bucket is, in thousandths of a unit. Of a token bucket, the tokens that it
        /// has, rounded down: fewer than 0 if it is in debt. Of a leaky bucket, what has not
        /// leaked yet, rounded up.
        level_thousandths: i64,
    },
    /// A concurrency limit. The units used are those in flight.
    Concurrency,
}

/// When a window began and how long it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSpan {
    /// The beginning of the window.
    pub start: Micros,
    /// The length of the window.
    pub length: Micros,
}

/// The open reservations of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReservedUnits {
    /// The number of reservations.
    pub count: u64,
    /// The units that they have charged.
    pub units: u64,
}

impl CounterView {
    /// The view of a counter without reservations and leases; `None` when the state belongs to
    /// another algorithm. `oldest` is the time of the oldest hit of a log.
    pub fn new(
        quota: &Quota,
        state: CounterState,
        oldest: Option<Micros>,
        now: Micros,
    ) -> Option<Self> {
        // Spending nothing updates the state to this moment.
        let (state, _) = quota.spend(state, 0, now)?;

        let (used, detail) = match (quota, state) {
            (Quota::FixedWindow(quota), CounterState::Fixed(state)) => {
                let used = if state.ends > now { state.count } else { 0 };
                let window = window_that_ends(quota.start, state.ends, now);
                (used, CounterDetail::FixedWindow { window })
            }
            (Quota::SlidingWindow(quota), CounterState::Sliding(counts)) => {
                let detail = CounterDetail::SlidingWindow {
                    window: WindowSpan {
                        start: counts.start,
                        length: quota.length,
                    },
                    current: counts.current,
                    previous: counts.previous,
                };
                (quota.used(counts, now), detail)
            }
            (Quota::SlidingLog(quota), CounterState::Entries(hits)) => {
                let window = WindowSpan {
                    start: now.since(quota.length),
                    length: quota.length,
                };
                (hits.sum, CounterDetail::SlidingLog { window, oldest })
            }
            (_, CounterState::Bucket(state)) => {
                let gcra = quota.bucket()?;
                let used = i128::from(gcra.used(state, 1_000, now));
                let level = match quota {
                    Quota::TokenBucket(_) => 1_000 * i128::from(gcra.capacity) - used,
                    _ => used,
                };
                let level_thousandths = i64::try_from(level).unwrap_or(i64::MAX);
                let detail = CounterDetail::Bucket { level_thousandths };
                (gcra.used(state, 1, now), detail)
            }
            (Quota::Concurrency(_), CounterState::Entries(permits)) => {
                (permits.sum, CounterDetail::Concurrency)
            }
            _ => return None,
        };

        Some(Self {
            used,
            detail,
            reserved: ReservedUnits::default(),
            leased: None,
            held: None,
            lockout: None,
        })
    }
}

/// The fixed window that ends at this moment, or if that is over, the calendar's window.
fn window_that_ends(start: WindowStart, ends: Micros, now: Micros) -> Option<WindowSpan> {
    let is_open = ends > now;
    match start {
        WindowStart::FirstHit(length) => is_open.then(|| WindowSpan {
            start: ends.since(length),
            length,
        }),
        WindowStart::Clock(unit) => {
            let within = ends.since(Micros::new(1));
            let start = unit.start_of(if is_open { within } else { now });
            let length = unit.end_of(start).since(start);
            Some(WindowSpan { start, length })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::remote::WindowCount;
    use crate::algorithm::{Calendar, FixedWindow};

    /// 2026-02-10 00:00:00 UTC.
    const FEBRUARY_10: Micros = Micros::from_secs(1_770_681_600);
    const FEBRUARY: WindowSpan = WindowSpan {
        start: Micros::from_secs(1_769_904_000),
        length: Micros::from_secs(28 * 86_400),
    };

    #[test]
    fn a_calendar_window_begins_and_ends_with_its_unit_whether_it_was_used_or_not() {
        let quota = Quota::from(FixedWindow::aligned(10, Calendar::Month).unwrap());
        let ends = FEBRUARY.start.after(FEBRUARY.length);
        for (count, ends) in [(0, Micros::ZERO), (3, ends)] {
            let state = CounterState::Fixed(WindowCount { count, ends });
            let view = CounterView::new(&quota, state, None, FEBRUARY_10).unwrap();

            let window = Some(FEBRUARY);
            assert_eq!(view.used, count);
            assert_eq!(view.detail, CounterDetail::FixedWindow { window });
        }
    }
}
