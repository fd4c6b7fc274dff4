//! A replica's share of a limit, with which it counts by itself while the shared store is
//! unavailable.
//!
//! This module divides a quota. The limiter decides when to use a share, and what else is charged
//! to it.

use std::num::NonZeroU32;

use super::concurrency::Concurrency;
use super::gcra::Gcra;
use super::leaky_bucket::{LeakyBucket, LeakyMode};
use super::quota::Quota;
use super::token_bucket::TokenBucket;
use crate::rate::{PER_MICRO_MAX, PERIOD_MAX, gcd};

impl Quota {
    /// The part of this quota that each of `replicas` may allow without asking the others.
    ///
    /// | quota | share |
    /// |---|---|
    /// | windows, log, token bucket, meter | a token bucket: limit and rate divided |
    /// | queue | a queue: capacity and rate divided |
    /// | concurrency | the permits divided, with the same permit timeout |
    ///
    /// Capacities are rounded down, but not below 1, so that every replica can use a small limit.
    /// Rates are divided exactly, so that all shares together refill as fast as the whole.
    ///
    /// A share is bound to the range of a [`Rate`](crate::Rate). A rate whose reduced period is
    /// over thirty days is rounded down by less than a microsecond in two weeks. A rate above ten
    /// million per second becomes ten million per second, and a rate below one in thirty days
    /// becomes one in thirty days.
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

        let rate = match (self, self.bucket(), self.window()) {
            (Self::Concurrency(quota), ..) => {
                let limit = capacity;
                return Concurrency { limit, ..*quota }.into();
            }
            (_, Some(gcra), _) => gcra.rate(),
            (.., window) => (self.limit(), window.unwrap_or(PERIOD_MAX).get()),
        };

        let gcra = divided_bucket(capacity, divided_rate(rate, replicas));
        match self {
            Self::LeakyBucket(quota) if quota.mode == LeakyMode::Queue => {
                let mode = LeakyMode::Queue;
                LeakyBucket { gcra, mode }.into()
            }
            _ => TokenBucket { gcra }.into(),
        }
    }
}

/// A bucket at a rate in range.
///
/// It takes no longer to fill than the whole did, or thirty days when it holds 1. Only when the
/// whole took almost a hundred years can rounding make the share slower than a bucket may be; it
/// then gets a capacity of 1.
fn divided_bucket(capacity: u64, rate: (u64, u64)) -> Gcra {
    Gcra::from_reduced(capacity, rate)
        .or_else(|| Gcra::from_reduced(1, rate))
        .expect("at a rate in range, one unit refills within thirty days")
}

/// A rate of `(units, microseconds)` divided by `replicas`: exact where it is then still in the
/// range of a [`Rate`](crate::Rate), and in lowest terms.
fn divided_rate((amount, micros): (u64, u64), replicas: NonZeroU32) -> (u64, u64) {
    let amount = u128::from(amount);
    let micros = u128::from(micros) * u128::from(replicas.get());
    let period_max = u128::from(PERIOD_MAX.get());

    let (amount, micros) = reduced(amount, micros);
    let (amount, micros) = if amount > micros * u128::from(PER_MICRO_MAX) {
        (PER_MICRO_MAX.into(), 1)
    } else if micros <= period_max {
        (amount, micros)
    } else {
        // The most whole units that refill within the longest period, and how long they take.
        match amount * period_max / micros {
            0 => (1, period_max),
            within => reduced(within, (micros * within).div_ceil(amount)),
        }
    };

    let narrow = |wide| u64::try_from(wide).expect("a rate in range fits into 64 bits");
    (narrow(amount), narrow(micros))
}

fn reduced(amount: u128, micros: u128) -> (u128, u128) {
    let divisor = gcd(amount, micros);
    (amount / divisor, micros / divisor)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::{
        AMOUNT_MAX, Calendar, FixedWindow, IN_FLIGHT_MAX, Rate, SlidingLog, SlidingWindow,
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
    fn every_quota_over_time_becomes_a_token_bucket() {
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
    fn a_queue_stays_a_queue_and_permits_stay_permits() {
        let queue = |capacity, rate| {
            Quota::from(LeakyBucket::new(LeakyMode::Queue, capacity, rate).unwrap())
        };
        let part = queue(2, Rate::new(10, 4 * Duration::from_secs(1)));
        assert_eq!(queue(10, Rate::per_second(10)).share(replicas(4)), part);
        let permits = |limit| Quota::from(Concurrency::new(limit, MINUTE).unwrap());
        assert_eq!(permits(10).share(replicas(4)), permits(2));
    }

    #[test]
    fn each_replica_gets_at_least_one_unit_at_the_divided_rate() {
        let whole = Quota::from(SlidingWindow::new(3, MINUTE).unwrap());
        assert_eq!(whole.share(replicas(10)), token_bucket(1, 3, 10 * MINUTE));
        let permits = Quota::from(Concurrency::new(3, MINUTE).unwrap());
        assert_eq!(permits.share(replicas(10)).limit(), 1);
    }

    #[test]
    fn a_single_replica_gets_the_whole_quota() {
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
    fn a_rate_out_of_range_becomes_the_nearest_in_range() {
        let bytes = Quota::from(FixedWindow::new(1 << 40, Duration::from_secs(1)).unwrap());
        assert_eq!(
            bytes.share(replicas(2)),
            token_bucket(1 << 39, 10_000_000, Duration::from_secs(1))
        );
        let rare = Quota::from(FixedWindow::new(2, 365 * DAY).unwrap());
        assert_eq!(rare.share(replicas(100)), token_bucket(1, 1, 30 * DAY));
    }

    #[test]
    fn the_largest_and_the_smallest_quotas_have_a_share() {
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
        fn shares_add_up_to_the_limit_and_its_rate(
            whole in wholes(),
            count in 1..=1_000u32,
        ) {
            let share = whole.share(replicas(count));

            if whole.limit() >= u64::from(count) {
                prop_assert!(share.limit() * u64::from(count) <= whole.limit());
            }
            prop_assert!(share.limit() >= 1);

            let ((part, part_micros), (all, all_micros)) = (refill(&share), refill(&whole));
            // Where a rate can represent it, the division is exact; elsewhere it gives no more.
            let exact = (all, all_micros * u128::from(count));
            let divisor = gcd(exact.0, exact.1);
            let period_max = u128::from(PERIOD_MAX.get());
            let is_exact = exact.1 / divisor <= period_max
                && exact.0 <= exact.1 * u128::from(PER_MICRO_MAX);

            let (given, due) = (part * u128::from(count) * all_micros, all * part_micros);
            let is_slowest = (part, part_micros) == (1, period_max);
            prop_assert!(given == due || !is_exact, "{} of {}", given, due);
            prop_assert!(given <= due || is_slowest, "{} of {}", given, due);
        }
    }
}
