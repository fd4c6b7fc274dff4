//! The largest excess over window limits, counted on the store's clock.
//!
//! Windows begin by the store's clock, so its offset from the local clock is estimated first. The
//! store read its time between two readings of the local clock, which gives an interval for the
//! offset; several readings give a short one. A request belongs to a window only if no offset in
//! that interval puts its sending or its response outside.

use std::collections::BTreeMap;

use super::excess::{Admission, Excess};

/// How far the store's clock is offset of the local clock: at least, and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockOffset {
    pub(super) least_us: i64,
    pub(super) most_us: i64,
}

/// The admissions that certainly happened in one window.
#[derive(Default)]
struct WindowTotal {
    /// The latest possible time of each admission on the store's clock, and its units.
    admitted: Vec<(i64, u64)>,
}

impl ClockOffset {
    /// The offset from one reading: the local time before, the store's time, and the local time
    /// after.
    pub(super) fn from_reading(before_us: u64, store_us: u64, after_us: u64) -> Self {
        // All three times are truncated to whole microseconds.
        Self {
            least_us: signed(store_us) - signed(after_us) - 1,
            most_us: signed(store_us) - signed(before_us) + 1,
        }
    }

    /// The offset from two readings. If the clock was set in between, the interval covers both.
    pub(super) fn and(self, other: Self) -> Self {
        let least_us = self.least_us.max(other.least_us);
        let most_us = self.most_us.min(other.most_us);
        if least_us <= most_us {
            return Self { least_us, most_us };
        }
        Self {
            least_us: self.least_us.min(other.least_us),
            most_us: self.most_us.max(other.most_us),
        }
    }

    /// The same offset for a local clock that began `later_us` later.
    pub(super) fn since(self, later_us: u64) -> Self {
        let later_us = signed(later_us);
        Self {
            least_us: self.least_us + later_us,
            most_us: self.most_us + later_us,
        }
    }

    /// The best estimate of the store's time.
    pub(super) fn store_us(self, ours_us: u64) -> u64 {
        u64::try_from(signed(ours_us) + self.least_us.midpoint(self.most_us)).unwrap_or(0)
    }

    /// The number of the window that certainly contains an admission, and the latest time at which
    /// it can have happened.
    fn place(self, admission: &Admission, window_us: i64) -> Option<(i64, i64)> {
        let first = signed(admission.sent_us) + self.least_us;
        let last = signed(admission.received_us) + self.most_us;
        let window = first.div_euclid(window_us);
        (window == last.div_euclid(window_us)).then_some((window, last))
    }
}

/// For fixed windows: the most units in one window, less the limit.
pub(super) fn worst_fixed(
    all: &[Admission],
    offset: ClockOffset,
    window_us: i64,
    limit: u64,
) -> Option<Excess> {
    let windows = windows(all, offset, window_us);
    let units = windows
        .values()
        .map(|window| window.units() - i128::from(limit));
    units.max().map(Excess::whole)
}

/// For sliding windows, where the previous window still counts by the fraction that the sliding
/// window overlaps.
///
/// Of the units answered by a given time, the last was admitted at that time or earlier, when the
/// fraction was at least as large. So with the fraction at that time, rounded down, the sum is at
/// most what the limiter counted.
pub(super) fn worst_sliding(
    all: &[Admission],
    offset: ClockOffset,
    window_us: i64,
    limit: u64,
) -> Option<Excess> {
    let windows = windows(all, offset, window_us);
    let excess = windows.iter().flat_map(|(number, window)| {
        let before = windows.get(&(number - 1)).map_or(0, WindowTotal::units);
        let mut so_far = 0;
        window.admitted.iter().map(move |(last, cost)| {
            so_far += i128::from(*cost);
            let left = i128::from((number + 1) * window_us - last);
            so_far + before * left / i128::from(window_us) - i128::from(limit)
        })
    });
    excess.max().map(Excess::whole)
}

impl WindowTotal {
    fn units(&self) -> i128 {
        self.admitted
            .iter()
            .map(|(_, cost)| i128::from(*cost))
            .sum()
    }
}

fn windows(
    admissions: &[Admission],
    offset: ClockOffset,
    window_us: i64,
) -> BTreeMap<i64, WindowTotal> {
    let mut windows = BTreeMap::<i64, WindowTotal>::new();
    for admission in admissions {
        if let Some((window, last)) = offset.place(admission, window_us) {
            windows
                .entry(window)
                .or_default()
                .admitted
                .push((last, admission.cost));
        }
    }
    windows
        .values_mut()
        .for_each(|window| window.admitted.sort_unstable());
    windows
}

fn signed(us: u64) -> i64 {
    i64::try_from(us).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAME: ClockOffset = ClockOffset {
        least_us: 0,
        most_us: 0,
    };

    fn admissions(times: &[(u64, u64)]) -> Vec<Admission> {
        let one = |(sent_us, received_us): &(u64, u64)| Admission {
            sent_us: *sent_us,
            received_us: *received_us,
            cost: 1,
        };
        times.iter().map(one).collect()
    }

    #[test]
    fn several_readings_give_a_short_interval() {
        let first = ClockOffset::from_reading(100, 1_150, 200);
        assert_eq!(
            first,
            ClockOffset {
                least_us: 949,
                most_us: 1_051
            }
        );
        let both = first.and(ClockOffset::from_reading(300, 1_300, 310));
        assert_eq!(
            both,
            ClockOffset {
                least_us: 989,
                most_us: 1_001
            }
        );
        assert_eq!(both.store_us(5), 1_000);
        let set_back = both.and(ClockOffset {
            least_us: 10,
            most_us: 20,
        });
        assert_eq!(
            set_back,
            ClockOffset {
                least_us: 10,
                most_us: 1_001
            }
        );
    }

    #[test]
    fn only_admissions_certainly_inside_a_window_count() {
        let three = admissions(&[(1_000, 1_001), (1_500, 1_600), (1_999, 2_000)]);
        assert_eq!(worst_fixed(&three, SAME, 1_000, 2), Some(Excess::whole(0)));
        // Where the edge is not known to the microsecond, admissions close to it prove nothing.
        let about = ClockOffset {
            least_us: -5,
            most_us: 5,
        };
        assert_eq!(
            worst_fixed(&three, about, 1_000, 2),
            Some(Excess::whole(-1))
        );
        assert_eq!(worst_fixed(&[], SAME, 1_000, 2), None);
    }

    #[test]
    fn a_fraction_of_the_previous_window_counts() {
        // Ten units in one window; half of them still count in the middle of the next.
        let mut times: Vec<(u64, u64)> = (0..10).map(|step| (1_000 + step, 1_000 + step)).collect();
        times.extend((0..5).map(|_| (2_500, 2_500)));
        assert_eq!(
            worst_sliding(&admissions(&times), SAME, 1_000, 10),
            Some(Excess::whole(0))
        );
        times.push((2_500, 2_500));
        assert_eq!(
            worst_sliding(&admissions(&times), SAME, 1_000, 10),
            Some(Excess::whole(1))
        );
        // With fixed windows the last one is within the limit.
        assert_eq!(
            worst_fixed(&admissions(&times), SAME, 1_000, 10),
            Some(Excess::whole(0))
        );
    }
}
