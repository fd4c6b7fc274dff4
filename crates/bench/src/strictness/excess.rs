//! By how much a rate was ever exceeded, from requests of which only the sending and the answer are
//! known.
//!
//! An admission happened at some moment between the two, so an interval certainly holds it only if
//! both lie inside. Hence the excess is the largest value, over all intervals from `s` to `e`, of
//!
//! > units of the requests sent at `s` or later and answered by `e`, less `burst + rate x (e - s)`.
//!
//! Above zero is proof that more was admitted than allowed; nothing that the network or the machine
//! delays can cause it.
//!
//! Only a sending can begin the worst interval and only an answer end it, which leaves as many
//! intervals as there are pairs of requests. They are not looked at one by one. Requests are taken
//! in the order of their answers, which are the ends `e`; for each possible beginning `s`, a tree
//! over the sendings holds `units since s + rate x s`. A request adds its units to all beginnings
//! up to its own sending, and opens its own sending as a beginning. The largest value of the tree,
//! less `burst + rate x e`, is then the worst interval that ends here. That is exact, and takes n
//! log n steps.

/// A request that was let through, in microseconds on one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admission {
    pub(super) sent_us: u64,
    pub(super) received_us: u64,
    pub(super) cost: u64,
}

/// So many at once, and `per` more every `period_us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) burst: u64,
    pub(super) per: u64,
    pub(super) period_us: u64,
}

/// An exact number of units over, or below zero under, what was allowed.
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

    /// Whether it is more than so many units.
    pub(super) fn exceeds(self, bound: u64) -> bool {
        self.numerator > i128::from(bound) * i128::from(self.denominator)
    }

    #[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
    pub(super) fn units(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// The larger of two.
    pub(super) fn max(self, other: Self) -> Self {
        let left = self.numerator * i128::from(other.denominator);
        let right = other.numerator * i128::from(self.denominator);
        if left >= right { self } else { other }
    }
}

/// Far below every value, and far above the smallest number there is.
const CLOSED: i128 = i128::MIN / 4;

/// The largest excess of all intervals; nothing when nothing was admitted.
pub(super) fn worst(admissions: &[Admission], rate: Rate) -> Option<Excess> {
    let mut by_sending = admissions.to_vec();
    by_sending.sort_unstable_by_key(|admission| admission.sent_us);
    let mut by_answer: Vec<usize> = (0..by_sending.len()).collect();
    by_answer.sort_unstable_by_key(|place| by_sending[*place].received_us);

    let (per, period) = (i128::from(rate.per), i128::from(rate.period_us));
    let mut beginnings = Beginnings::new(by_sending.len());
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

/// A tree of sums. A leaf's value is what all nodes above it and itself were given; a node knows
/// its largest leaf.
struct Beginnings {
    leaves: usize,
    /// The largest value below each node, with what the node itself was given but not what those
    /// above it were.
    largest: Vec<i128>,
    /// What each node was given for all leaves below it.
    given: Vec<i128>,
}

impl Beginnings {
    fn new(count: usize) -> Self {
        let leaves = count.next_power_of_two();
        Self {
            leaves,
            largest: vec![CLOSED; 2 * leaves],
            given: vec![0; 2 * leaves],
        }
    }

    /// Lets a leaf take part, beginning with this value. What was given to it before it was open
    /// does count: it came later than the leaf's own sending and was answered earlier.
    fn open(&mut self, leaf: usize, value: i128) {
        let node = self.leaves + leaf;
        self.largest[node] = value + self.given[node];
        self.renew_above(node);
    }

    /// Gives to the leaf and to all before it.
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

    /// Every sending with every answer, as long as something lies between.
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
    fn the_tree_finds_what_looking_at_every_interval_finds() {
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
    fn what_may_have_happened_at_another_time_proves_nothing() {
        let rate = Rate {
            burst: 1,
            per: 1,
            period_us: 1_000,
        };
        // The second was under way for so long that it may have been let through a period later.
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
