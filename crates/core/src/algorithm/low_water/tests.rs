use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::rate::Rate;

/// Ten units, one every second.
fn bucket() -> Gcra {
    Gcra::new(10, Rate::per_second(1)).unwrap()
}

/// A bucket with reservations, and the same bucket as if each reservation had charged its actual
/// cost in the first place.
struct Pair {
    gcra: Gcra,
    state: BucketState,
    marks: LowWaterMarks,
    /// Every charge: when, and how much.
    history: Vec<(Micros, u64)>,
}

impl Pair {
    fn new(gcra: Gcra) -> Self {
        Self {
            gcra,
            state: BucketState::default(),
            marks: LowWaterMarks::default(),
            history: Vec::new(),
        }
    }

    fn spend(&mut self, cost: u64, now: Micros) -> bool {
        let (next, verdict) = self.gcra.apply(self.state, cost, now);
        let is_charged = verdict.is_allowed() && cost > 0;
        if is_charged {
            self.state = next;
            self.history.push((now, cost));
        }
        is_charged
    }

    /// Returns the number of the reservation, and its place in the history.
    fn reserve(&mut self, cost: u64, now: Micros) -> Option<(u64, usize)> {
        let is_charged = self.spend(cost, now);
        is_charged.then(|| {
            self.marks.observe(&self.gcra, now);
            self.marks.record(&self.gcra, self.state);
            (self.marks.add(&self.gcra, now), self.history.len() - 1)
        })
    }

    fn settle(&mut self, (number, place): (u64, usize), actual: u64, now: Micros) {
        let reserved = self.history[place].1;
        self.marks.observe(&self.gcra, now);
        if actual > reserved {
            let more = actual - reserved;
            self.state = self.gcra.charge(self.state, more, 1_000, now);
            self.history.push((now, more));
        } else {
            let taken = self.marks.take(number, self.gcra.weight(reserved - actual));
            self.state = self.gcra.give_back(self.state, taken, now);
            self.history[place].1 = actual;
        }
        self.marks.record(&self.gcra, self.state);
    }

    /// The bucket after the history.
    fn replayed(&self) -> BucketState {
        let charge = |state, (at, cost): &(Micros, u64)| {
            let debt_max = 1_000_000;
            self.gcra.charge(state, *cost, debt_max, *at)
        };
        self.history.iter().fold(BucketState::default(), charge)
    }

    /// What is missing from the bucket, and from that of the replay.
    fn backlogs(&self, now: Micros) -> (u128, u128) {
        let backlog = |state| self.gcra.backlog_left(state, now);
        (backlog(self.state), backlog(self.replayed()))
    }
}

fn secs(secs: u64) -> Micros {
    Micros::from_secs(1_000 + secs)
}

#[test]
fn a_late_cancellation_returns_nothing_that_was_refilled() {
    let mut pair = Pair::new(bucket());
    let reservation = pair.reserve(4, secs(0)).unwrap();
    assert!(pair.spend(3, secs(10)));
    pair.settle(reservation, 0, secs(10));
    assert_eq!(pair.gcra.used(pair.state, 1, secs(10)), 3);
}

#[test]
fn a_bucket_that_was_never_full_gets_everything_back() {
    let mut pair = Pair::new(bucket());
    let reservation = pair.reserve(4, secs(0)).unwrap();
    let other = pair.reserve(6, secs(0)).unwrap();
    pair.settle(reservation, 1, secs(4));
    assert_eq!(pair.gcra.used(pair.state, 1, secs(4)), 3);
    pair.settle(other, 6, secs(4));
    assert_eq!(pair.gcra.used(pair.state, 1, secs(4)), 3);
}

#[test]
fn what_one_reservation_returns_is_not_returned_by_another() {
    let mut pair = Pair::new(bucket());
    let [one, two] = [0, 0].map(|at| pair.reserve(4, secs(at)).unwrap());
    pair.settle(one, 0, secs(1));
    assert!(pair.spend(3, secs(6)));
    pair.settle(two, 0, secs(6));
    assert_eq!(pair.gcra.used(pair.state, 1, secs(6)), 3);
}

#[test]
fn other_numbers_and_a_clock_that_is_set_back_return_nothing() {
    let mut pair = Pair::new(bucket());
    let reservation = pair.reserve(4, secs(0)).unwrap();
    pair.gcra = Gcra::new(20, Rate::per_second(1)).unwrap();
    pair.settle(reservation, 0, secs(0));
    assert_eq!(pair.gcra.used(pair.state, 1, secs(0)), 4);

    let reservation = pair.reserve(4, secs(0)).unwrap();
    let earlier = secs(0).since(Micros::from_secs(100));
    pair.settle(reservation, 0, earlier);
    assert_eq!(pair.gcra.used(pair.state, 1, earlier), 20, "it is used up");
}

#[test]
fn many_marks_are_merged_into_lower_ones() {
    let mut pair = Pair::new(Gcra::new(100_000, Rate::per_second(1)).unwrap());
    let open: Vec<_> = (1..200)
        .map(|cost| pair.reserve(cost, secs(0)).unwrap())
        .collect();
    assert_eq!(pair.marks.marks.len(), MARKS_MAX);

    // Most of it is refilled while others spend, so that returning all of it would be too much.
    for (index, reservation) in (0..).zip(open) {
        let now = secs(150 * index);
        assert!(pair.spend(100, now));
        pair.settle(reservation, index % 3, now);
        let (backlog, replayed) = pair.backlogs(now);
        assert!(backlog >= replayed, "{backlog} < {replayed} at {index}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Spend(u64),
    Reserve(u64),
    /// Of the open reservation with this index, modulo their number.
    Settle(usize, u64),
}

fn steps(plain: u32) -> impl Strategy<Value = Vec<(u64, Step)>> {
    let step = prop_oneof![
        plain => (1..8_u64).prop_map(Step::Spend),
        4 => (1..8_u64).prop_map(Step::Reserve),
        4 => (any::<usize>(), 0..12_u64).prop_map(|(which, actual)| Step::Settle(which, actual)),
    ];
    vec((0..4_000_000_u64, step), 1..40)
}

/// Applies the steps, and compares the bucket with the replay after each of them.
fn run(steps: &[(u64, Step)], per: u64, compare: impl Fn(u128, u128)) {
    let rate = Rate::new(per, std::time::Duration::from_secs(7));
    let mut pair = Pair::new(Gcra::new(20, rate).unwrap());
    let (mut now, mut open) = (secs(0), Vec::new());
    for (wait, step) in steps {
        now = now.after(Micros::new(*wait));
        match *step {
            Step::Spend(cost) => {
                pair.spend(cost, now);
            }
            Step::Reserve(cost) => open.extend(pair.reserve(cost, now)),
            Step::Settle(which, actual) if !open.is_empty() => {
                let reservation = open.swap_remove(which % open.len());
                pair.settle(reservation, actual, now);
            }
            Step::Settle(..) => {}
        }
        if open.is_empty() || matches!(step, Step::Settle(..)) {
            let (backlog, replayed) = pair.backlogs(now);
            compare(backlog, replayed);
        }
    }
}

proptest! {
    /// No order of reservations, settlements and other requests gives a key more than if every
    /// reservation had charged its actual cost in the first place.
    #[test]
    fn nothing_is_returned_twice(steps in steps(4), per in 1..20_u64) {
        run(&steps, per, |backlog, replayed| assert!(backlog >= replayed));
    }

    /// If all requests are reservations, the bucket is exactly as if every one of them had charged
    /// its actual cost in the first place.
    #[test]
    fn reservations_alone_are_replayed_exactly(steps in steps(0), per in 1..20_u64) {
        run(&steps, per, |backlog, replayed| assert_eq!(backlog, replayed));
    }
}
