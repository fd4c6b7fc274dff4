//! What one replica may count by itself while the shared store is away: its part of a limit.
//!
//! Owns the division. Who divides, and that a share starts with nothing, is the limiter's business.

use std::num::NonZeroU32;
use std::time::Duration;

use super::gcra::Gcra;
use super::{Concurrency, LeakyBucket, LeakyMode, Quota, Rate, TokenBucket, WINDOW_MAX};

/// The longest period over which a [`Rate`] may be stated, in microseconds: thirty days.
const PERIOD_MAX: u128 = 30 * 86_400 * 1_000_000;
/// The most that a [`Rate`] may give in a microsecond.
const PER_MICRO_MAX: u128 = 10;

impl Quota {
    /// The part of this quota that each of `replicas` may grant without asking the others.
    ///
    /// | quota | share |
    /// |---|---|
    /// | windows, log, token bucket, meter | a token bucket: the limit divided, at the limit's rate divided |
    /// | queue | a queue: capacity and rate divided |
    /// | concurrency | the places divided, leases as long |
    ///
    /// Capacities are rounded down, but not to less than 1, so that small limits do not shut a
    /// replica out. Rates are divided exactly, so that all shares together refill as fast as the
    /// whole.
    ///
    /// A share keeps to what a [`Rate`] can say: one whose reduced period is over thirty days is
    /// rounded down by less than a microsecond in two weeks, one of more than ten million a second
    /// is ten million a second, and one of less than one in thirty days is one in thirty days.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use std::time::Duration;
    /// use tollgate::{Quota, Rate, SlidingWindow, TokenBucket};
    ///
    /// let four = NonZeroU32::new(4).expect("not zero");
    /// let whole = Quota::from(SlidingWindow::new(100, Duration::from_secs(60))?);
    /// let part = TokenBucket::new(25, Rate::new(100, Duration::from_secs(4 * 60)))?;
    /// assert_eq!(whole.share(four), part.into());
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn share(&self, replicas: NonZeroU32) -> Self {
        let capacity = (self.limit() / u64::from(replicas.get())).max(1);
        match self {
            Self::Concurrency(quota) => Concurrency {
                limit: capacity,
                ..*quota
            }
            .into(),
            Self::LeakyBucket(quota) => {
                let gcra = bucket(capacity, quota.leak(), replicas);
                match quota.mode {
                    LeakyMode::Queue => LeakyBucket {
                        gcra,
                        mode: LeakyMode::Queue,
                    }
                    .into(),
                    LeakyMode::Meter => TokenBucket { gcra }.into(),
                }
            }
            Self::TokenBucket(quota) => TokenBucket {
                gcra: bucket(capacity, quota.refill(), replicas),
            }
            .into(),
            Self::FixedWindow(_) | Self::SlidingWindow(_) | Self::SlidingLog(_) => {
                let window = self.window().unwrap_or(WINDOW_MAX);
                TokenBucket {
                    gcra: bucket(capacity, (self.limit(), window.get()), replicas),
                }
                .into()
            }
        }
    }
}

/// A bucket at a rate of `(units, microseconds)` divided by `replicas`. It takes no longer to fill
/// than the whole did, or thirty days when it holds 1; only where the whole took a hundred years
/// may rounding get in the way.
fn bucket(capacity: u64, rate: (u64, u64), replicas: NonZeroU32) -> Gcra {
    let rate = divided(rate, replicas);
    Gcra::new(capacity, rate)
        .or_else(|_| Gcra::new(1, rate))
        .expect("a single unit at a rate in range comes within thirty days")
}

/// The rate divided by `replicas`, exact where a [`Rate`] can say it.
fn divided((amount, micros): (u64, u64), replicas: NonZeroU32) -> Rate {
    let (amount, micros) = (
        u128::from(amount),
        u128::from(micros) * u128::from(replicas.get()),
    );
    let divisor = gcd(amount, micros);
    let (amount, micros) = (amount / divisor, micros / divisor);
    if amount > micros * PER_MICRO_MAX {
        return rate(PER_MICRO_MAX, 1);
    }
    if micros <= PERIOD_MAX {
        return rate(amount, micros);
    }
    // The most whole units that come within the longest period, and how long they take.
    match amount * PERIOD_MAX / micros {
        0 => rate(1, PERIOD_MAX),
        within => rate(within, (micros * within).div_ceil(amount)),
    }
}

/// Both numbers are in a rate's range, and so in the range of 64 bits.
fn rate(amount: u128, micros: u128) -> Rate {
    let narrow = |wide: u128| u64::try_from(wide).unwrap_or(u64::MAX);
    Rate::new(narrow(amount), Duration::from_micros(narrow(micros)))
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{
        AMOUNT_MAX, Calendar, FixedWindow, IN_FLIGHT_MAX, SlidingLog, SlidingWindow,
    };
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const DAY: Duration = Duration::from_secs(86_400);

    fn replicas(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    fn token_bucket(capacity: u64, amount: u64, period: Duration) -> Quota {
        TokenBucket::new(capacity, Rate::new(amount, period))
            .unwrap()
            .into()
    }

    #[test]
    fn every_way_to_count_over_time_becomes_a_bucket() {
        let share = token_bucket(33, 100, 3 * MINUTE);
        let meter = LeakyBucket::new(LeakyMode::Meter, 100, Rate::per_minute(100)).unwrap();
        let wholes: [Quota; 5] = [
            FixedWindow::new(100, MINUTE).unwrap().into(),
            FixedWindow::aligned(100, Calendar::Minute).unwrap().into(),
            SlidingWindow::new(100, MINUTE).unwrap().into(),
            SlidingLog::new(100, MINUTE).unwrap().into(),
            meter.into(),
        ];
        assert!(wholes.iter().all(|whole| whole.share(replicas(3)) == share));
        assert_eq!(token_bucket(100, 100, MINUTE).share(replicas(3)), share);
    }

    #[test]
    fn a_queue_stays_a_queue_and_places_stay_places() {
        let queue = |capacity, rate| {
            Quota::from(LeakyBucket::new(LeakyMode::Queue, capacity, rate).unwrap())
        };
        let part = queue(2, Rate::new(10, 4 * Duration::from_secs(1)));
        assert_eq!(queue(10, Rate::per_second(10)).share(replicas(4)), part);
        let places = |limit| Quota::from(Concurrency::new(limit, MINUTE).unwrap());
        assert_eq!(places(10).share(replicas(4)), places(2));
    }

    #[test]
    fn a_limit_smaller_than_the_number_of_replicas_leaves_each_one_unit_at_its_true_rate() {
        let whole = Quota::from(SlidingWindow::new(3, MINUTE).unwrap());
        assert_eq!(whole.share(replicas(10)), token_bucket(1, 3, 10 * MINUTE));
        let places = Quota::from(Concurrency::new(3, MINUTE).unwrap());
        assert_eq!(places.share(replicas(10)).limit(), 1);
    }

    #[test]
    fn one_replica_has_all_of_it() {
        let whole = token_bucket(50, 7, MINUTE);
        assert_eq!(whole.share(replicas(1)), whole);
    }

    #[test]
    fn a_rate_over_more_than_thirty_days_loses_less_than_a_microsecond_in_two_weeks() {
        let month = Quota::from(FixedWindow::aligned(1_001, Calendar::Month).unwrap());
        let Quota::TokenBucket(share) = month.share(replicas(3)) else {
            panic!("a bucket")
        };
        let (amount, micros) = share.refill();
        let day = 86_400_000_000;
        let (taken, due) = (
            u128::from(micros) * 1_001,
            u128::from(amount) * 3 * 31 * day,
        );
        assert!(
            due < taken,
            "{amount} per {micros} us is more than the share"
        );
        assert!((taken - due) * 14 * day < due, "{amount} per {micros} us");
    }

    #[test]
    fn what_a_rate_cannot_say_is_the_nearest_that_it_can() {
        let bytes = Quota::from(FixedWindow::new(1 << 40, Duration::from_secs(1)).unwrap());
        assert_eq!(
            bytes.share(replicas(2)),
            token_bucket(1 << 39, 10_000_000, Duration::from_secs(1))
        );
        let rare = Quota::from(FixedWindow::new(2, 365 * DAY).unwrap());
        assert_eq!(rare.share(replicas(100)), token_bucket(1, 1, 30 * DAY));
    }

    #[test]
    fn the_largest_and_the_smallest_numbers_have_a_share() {
        let wholes: [Quota; 6] = [
            FixedWindow::new(AMOUNT_MAX, Duration::from_millis(1))
                .unwrap()
                .into(),
            FixedWindow::new(1, 3_653 * DAY).unwrap().into(),
            SlidingWindow::new(AMOUNT_MAX - 1, 3_653 * DAY)
                .unwrap()
                .into(),
            token_bucket(AMOUNT_MAX, 10_000_000, Duration::from_secs(1)),
            token_bucket(1_220, 1, 30 * DAY),
            Concurrency::new(IN_FLIGHT_MAX, MINUTE).unwrap().into(),
        ];
        for (whole, count) in wholes
            .iter()
            .flat_map(|whole| [1, 2, 7, u32::MAX].map(|count| (whole, count)))
        {
            assert!(
                (1..=whole.limit()).contains(&whole.share(replicas(count)).limit()),
                "{whole:?} / {count}"
            );
        }
    }

    /// Units per microseconds, in lowest terms.
    fn refill(quota: &Quota) -> (u128, u128) {
        let (amount, micros) = match quota {
            Quota::TokenBucket(quota) => quota.refill(),
            Quota::LeakyBucket(quota) => quota.leak(),
            quota => (quota.limit(), quota.window().unwrap().get()),
        };
        let (amount, micros) = (u128::from(amount), u128::from(micros));
        (amount / gcd(amount, micros), micros / gcd(amount, micros))
    }

    fn wholes() -> impl Strategy<Value = Quota> {
        let window = || (1..=1_000_000u64, 1..=86_400_000u64);
        let rate = || (1..=10_000u64, 1..=86_400u64);
        let (millis, per) = (Duration::from_millis, |(n, secs)| {
            Rate::new(n, Duration::from_secs(secs))
        });
        prop_oneof![
            window().prop_map(move |(n, ms)| FixedWindow::new(n, millis(ms)).unwrap().into()),
            window().prop_map(move |(n, ms)| SlidingWindow::new(n, millis(ms)).unwrap().into()),
            (1..=20_000u64, rate())
                .prop_map(move |(n, at)| TokenBucket::new(n, per(at)).unwrap().into()),
            (1..=20_000u64, rate()).prop_map(move |(n, at)| LeakyBucket::new(
                LeakyMode::Queue,
                n,
                per(at)
            )
            .unwrap()
            .into()),
        ]
    }

    proptest! {
        #[test]
        fn all_shares_together_hold_no_more_than_the_limit_and_refill_as_fast(whole in wholes(), count in 1..=1_000u32) {
            let share = whole.share(replicas(count));
            if whole.limit() >= u64::from(count) {
                prop_assert!(share.limit() * u64::from(count) <= whole.limit());
            }
            prop_assert!(share.limit() >= 1);
            let ((part, part_micros), (all, all_micros)) = (refill(&share), refill(&whole));
            // Where a rate can say it, the division is exact; elsewhere it gives no more.
            let exact = (all, all_micros * u128::from(count));
            let divisor = gcd(exact.0, exact.1);
            let sayable = exact.1 / divisor <= PERIOD_MAX && exact.0 <= exact.1 * PER_MICRO_MAX;
            let (given, due) = (part * u128::from(count) * all_micros, all * part_micros);
            let is_slowest = (part, part_micros) == (1, PERIOD_MAX);
            prop_assert!(given == due || !sayable, "{} of {}", given, due);
            prop_assert!(given <= due || is_slowest, "{} of {}", given, due);
        }
    }
}
