//! By how much windows were ever exceeded, counted on the store's clock.
//!
//! Windows begin where the store's clock says, so ours is laid beside it first: a question for the
//! time was answered between two readings of ours, which leaves an interval for the difference, and
//! several questions leave a short one. A request belongs to a window only if no difference in that
//! interval puts its sending or its answer outside.

use std::collections::BTreeMap;

use super::excess::{Admission, Excess};

/// How far the store's clock is ahead of ours: at least, and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ahead {
    pub(super) least_us: i64,
    pub(super) most_us: i64,
}

/// A window with what certainly happened in it.
#[derive(Default)]
struct Counted {
    /// Answers, as moments of the store at the latest, and units.
    admitted: Vec<(i64, u64)>,
}

impl Ahead {
    /// What one question says: asked, told, answered.
    pub(super) fn of(asked_us: u64, told_us: u64, answered_us: u64) -> Self {
        // What is told is cut to a whole microsecond, and so are our readings.
        Self {
            least_us: signed(told_us) - signed(answered_us) - 1,
            most_us: signed(told_us) - signed(asked_us) + 1,
        }
    }

    /// What two questions say together. A clock that was set in between leaves everything between
    /// both possible.
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

    /// The same for a clock of ours that began so much later.
    pub(super) fn since(self, later_us: u64) -> Self {
        let later_us = signed(later_us);
        Self {
            least_us: self.least_us + later_us,
            most_us: self.most_us + later_us,
        }
    }

    /// The store's moment, as near as can be told.
    pub(super) fn store_us(self, ours_us: u64) -> u64 {
        u64::try_from(signed(ours_us) + self.least_us.midpoint(self.most_us)).unwrap_or(0)
    }

    /// The number of the window that certainly holds it, and the latest moment at which it can have
    /// happened.
    fn place(self, admission: &Admission, window_us: i64) -> Option<(i64, i64)> {
        let first = signed(admission.sent_us) + self.least_us;
        let last = signed(admission.received_us) + self.most_us;
        let window = first.div_euclid(window_us);
        (window == last.div_euclid(window_us)).then_some((window, last))
    }
}

/// Windows that begin anew: the most units of one window, less the limit.
pub(super) fn worst_fixed(
    all: &[Admission],
    ahead: Ahead,
    window_us: i64,
    limit: u64,
) -> Option<Excess> {
    let windows = windows(all, ahead, window_us);
    let units = windows
        .values()
        .map(|window| window.units() - i128::from(limit));
    units.max().map(Excess::whole)
}

/// Windows in which a part of the one before still counts: as much of it as the window still
/// overlaps.
///
/// Of what was answered by a moment, the last unit was let through at that moment or earlier, when
/// the part was as large or larger; so with the part of that moment, rounded down, the sum is at
/// most what the limit saw.
pub(super) fn worst_sliding(
    all: &[Admission],
    ahead: Ahead,
    window_us: i64,
    limit: u64,
) -> Option<Excess> {
    let windows = windows(all, ahead, window_us);
    let excess = windows.iter().flat_map(|(number, window)| {
        let before = windows.get(&(number - 1)).map_or(0, Counted::units);
        let mut so_far = 0;
        window.admitted.iter().map(move |(last, cost)| {
            so_far += i128::from(*cost);
            let left = i128::from((number + 1) * window_us - last);
            so_far + before * left / i128::from(window_us) - i128::from(limit)
        })
    });
    excess.max().map(Excess::whole)
}

impl Counted {
    fn units(&self) -> i128 {
        self.admitted
            .iter()
            .map(|(_, cost)| i128::from(*cost))
            .sum()
    }
}

fn windows(admissions: &[Admission], ahead: Ahead, window_us: i64) -> BTreeMap<i64, Counted> {
    let mut windows = BTreeMap::<i64, Counted>::new();
    for admission in admissions {
        if let Some((window, last)) = ahead.place(admission, window_us) {
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

    const SAME: Ahead = Ahead {
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
    fn several_questions_leave_a_short_interval() {
        let first = Ahead::of(100, 1_150, 200);
        assert_eq!(
            first,
            Ahead {
                least_us: 949,
                most_us: 1_051
            }
        );
        let both = first.and(Ahead::of(300, 1_300, 310));
        assert_eq!(
            both,
            Ahead {
                least_us: 989,
                most_us: 1_001
            }
        );
        assert_eq!(both.store_us(5), 1_000);
        let set_back = both.and(Ahead {
            least_us: 10,
            most_us: 20,
        });
        assert_eq!(
            set_back,
            Ahead {
                least_us: 10,
                most_us: 1_001
            }
        );
    }

    #[test]
    fn only_what_lies_inside_one_window_is_counted_in_it() {
        let three = admissions(&[(1_000, 1_001), (1_500, 1_600), (1_999, 2_000)]);
        assert_eq!(worst_fixed(&three, SAME, 1_000, 2), Some(Excess::whole(0)));
        // Where the edge is not known to a microsecond, what is near it proves nothing.
        let about = Ahead {
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
    fn a_part_of_the_window_before_counts() {
        // Ten in one window; half of it still counts in the middle of the next.
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
        // Nobody sees that one when windows begin anew.
        assert_eq!(
            worst_fixed(&admissions(&times), SAME, 1_000, 10),
            Some(Excess::whole(0))
        );
    }
}
