//! The largest excess over a rate, computed from requests of which only the times of sending and of
//! the response are known.
//!
//! An admission happened at some time between the two, so an interval certainly contains it only if
//! both times are inside. Hence the excess is the largest value, over all intervals from `s` to
//! `e`, of
//!
//! > units of the requests sent at `s` or later and answered by `e`, less `burst + rate x (e - s)`.
//!
//! An excess above zero proves that more was admitted than allowed; delays of the network or of the
//! machine cannot cause it.
//!
//! The worst interval always starts at the sending of a request and ends at a response, so there is
//! one candidate for each pair of requests. The algorithm does not try each of them. It takes
//! requests in the order of their responses, which are the ends `e`. For each possible start `s`, a
//! tree over the send times holds `units since s + rate x s`. A request adds its units to all
//! starts up to its own send time, and then adds its own send time as a start. The largest value of
//! the tree, less `burst + rate x e`, belongs to the worst interval that ends at `e`. The result is
//! exact and takes n log n steps.

/// An admitted request, in microseconds on one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admission {
    pub(super) sent_us: u64,
    pub(super) received_us: u64,
    pub(super) cost: u64,
}

/// A rate: `burst` units at once, and `per` more every `period_us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) burst: u64,
    pub(super) per: u64,
    pub(super) period_us: u64,
}

/// An exact number of units above what was allowed; negative if below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Excess {
    numerator: i128,
    denominator: u64,
}

impl Excess {
    pub(super) const fn whole(units: i128) -> Self {
        Self {
            numerator: units,
            denominator: 1,
        }
    }

    /// Whether it is more than `bound` units.
    pub(super) fn exceeds(self, bound: u64) -> bool {
        self.numerator > i128::from(bound) * i128::from(self.denominator)
    }

    #[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
    pub(super) fn units(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// The larger of two values.
    pub(super) fn max(self, other: Self) -> Self {
        let left = self.numerator * i128::from(other.denominator);
        let right = other.numerator * i128::from(self.denominator);
        if left >= right { self } else { other }
    }
}

/// The value of a leaf that is not open: far below every real value, and far above `i128::MIN`.
const CLOSED: i128 = i128::MIN / 4;

/// The largest excess over all intervals; `None` if nothing was admitted.
pub(super) fn worst(admissions: &[Admission], rate: Rate) -> Option<Excess> {
    let mut by_sending = admissions.to_vec();
    by_sending.sort_unstable_by_key(|admission| admission.sent_us);
    let mut by_answer: Vec<usize> = (0..by_sending.len()).collect();
    by_answer.sort_unstable_by_key(|place| by_sending[*place].received_us);

    let (per, period) = (i128::from(rate.per), i128::from(rate.period_us));
    let mut beginnings = IntervalStarts::new(by_sending.len());
    let ends = by_answer.into_iter().map(|place| {
        let Admission {
            sent_us,
            received_us,
            cost,
        } = by_sending[place];
        beginnings.open(place, per * i128::from(sent_us));
        beginnings.add_up_to(place, i128::from(cost) * period);
        beginnings.largest() - per * i128::from(received_us) - i128::from(rate.burst) * period
    });
    ends.max().map(|numerator| Excess {
        numerator,
        denominator: rate.period_us,
    })
}

/// A segment tree of sums. The value of a leaf is the sum of what was added to it and to all nodes
/// above it. Each node has the largest value of the leaves below it.
struct IntervalStarts {
    leaves: usize,
    /// The largest value below each node, including what was added to the node itself but not to
    /// those above it.
    largest: Vec<i128>,
    /// What was added to each node for all leaves below it.
    given: Vec<i128>,
}

impl IntervalStarts {
    fn new(count: usize) -> Self {
        let leaves = count.next_power_of_two();
        Self {
            leaves,
            largest: vec![CLOSED; 2 * leaves],
            given: vec![0; 2 * leaves],
        }
    }

    /// Opens a leaf with this initial value. Units added to it earlier do count: those requests
    /// were sent after the leaf's own send time and answered before now.
    fn open(&mut self, leaf: usize, value: i128) {
        let node = self.leaves + leaf;
        self.largest[node] = value + self.given[node];
        self.renew_above(node);
    }

    /// Adds units to a leaf and to all leaves before it.
    fn add_up_to(&mut self, leaf: usize, units: i128) {
        let mut node = self.leaves + leaf;
        self.give(node, units);
        while node > 1 {
            if node % 2 == 1 {
                self.give(node - 1, units);
            }
            node /= 2;
        }
        self.renew_above(self.leaves + leaf);
    }

    fn give(&mut self, node: usize, units: i128) {
        self.given[node] += units;
        self.largest[node] += units;
    }

    fn renew_above(&mut self, mut node: usize) {
        while node > 1 {
            node /= 2;
            let below = self.largest[2 * node].max(self.largest[2 * node + 1]);
            self.largest[node] = below + self.given[node];
        }
    }

    fn largest(&self) -> i128 {
        self.largest.get(1).copied().unwrap_or(CLOSED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn admission(sent_us: u64, received_us: u64, cost: u64) -> Admission {
        Admission {
            sent_us,
            received_us,
            cost,
        }
    }

    /// Tries every pair of a send time and a response that has a request between them.
    fn by_definition(admissions: &[Admission], rate: Rate) -> Option<i128> {
        let intervals = admissions.iter().flat_map(|first| {
            admissions
                .iter()
                .map(move |last| (first.sent_us, last.received_us))
                .filter(|(s, e)| s <= e)
        });
        let excess = intervals.filter_map(|(start, end)| {
            let inside = admissions
                .iter()
                .filter(|one| one.sent_us >= start && one.received_us <= end);
            let units: i128 = inside.map(|one| i128::from(one.cost)).sum();
            let (per, period) = (i128::from(rate.per), i128::from(rate.period_us));
            let excess = (units - i128::from(rate.burst)) * period - per * i128::from(end - start);
            (units > 0).then_some(excess)
        });
        excess.max()
    }

    #[test]
    fn the_tree_agrees_with_trying_every_interval() {
        let mut random = Random::new(5);
        for round in 0..600 {
            let count = random.below(40);
            let rate = Rate {
                burst: u64::from(random.below(12)),
                per: u64::from(1 + random.below(7)),
                period_us: u64::from(1 + random.below(13)),
            };
            let mut one = || {
                let sent = u64::from(random.below(200));
                admission(
                    sent,
                    sent + u64::from(random.below(60)),
                    u64::from(1 + random.below(6)),
                )
            };
            let admissions: Vec<Admission> = (0..count).map(|_| one()).collect();
            let found = worst(&admissions, rate).map(|excess| excess.numerator);
            assert_eq!(
                found,
                by_definition(&admissions, rate),
                "round {round}: {admissions:?} {rate:?}"
            );
        }
    }

    #[test]
    fn a_bucket_used_to_the_full_is_at_its_bound_and_one_more_is_over_by_one() {
        let rate = Rate {
            burst: 10,
            per: 1_000,
            period_us: 1_000_000,
        };
        let mut admissions = vec![admission(0, 0, 10)];
        admissions.extend((1..=100).map(|ms| admission(ms * 1_000, ms * 1_000, 1)));
        let full = worst(&admissions, rate).unwrap();
        assert!(!full.exceeds(0) && full.units().abs() < 1e-9, "{full:?}");
        admissions.push(admission(70_000, 70_000, 1));
        let over = worst(&admissions, rate).unwrap();
        assert!(
            over.exceeds(0) && !over.exceeds(1) && (over.units() - 1.0).abs() < 1e-9,
            "{over:?}"
        );
    }

    #[test]
    fn an_admission_at_an_uncertain_time_proves_nothing() {
        let rate = Rate {
            burst: 1,
            per: 1,
            period_us: 1_000,
        };
        // The second request was in flight for so long that it may have been admitted a period
        // later.
        let late = [admission(0, 10, 1), admission(5, 1_010, 1)];
        assert!(!worst(&late, rate).unwrap().exceeds(0));
        let at_once = [admission(0, 10, 1), admission(5, 20, 1)];
        assert!(worst(&at_once, rate).unwrap().exceeds(0));
    }

    #[test]
    fn the_larger_of_two_is_found_across_denominators() {
        let third = Excess {
            numerator: 1,
            denominator: 3,
        };
        let half = Excess {
            numerator: 2,
            denominator: 4,
        };
        assert_eq!(third.max(half), half);
        assert_eq!(Excess::whole(1).max(half), Excess::whole(1));
        assert_eq!(
            worst(
                &[],
                Rate {
                    burst: 1,
                    per: 1,
                    period_us: 1
                }
            ),
            None
        );
    }
}
