//! Quotas with the same algorithm and another limit.

use std::time::Duration;

use tollgate::algorithm::WindowStart;
use tollgate::{
    Concurrency, FixedWindow, LeakyBucket, LimitError, Quota, Rate, SlidingLog, SlidingWindow,
    TokenBucket,
};

/// The maximum limit.
const LIMIT_MAX: u64 = 1 << 53;
/// The maximum of a concurrency limit.
const IN_FLIGHT_MAX: u64 = 65_536;
/// A little less than the maximum time that a bucket may take to fill.
const FILL_MAX: Duration = Duration::from_secs(99 * 365 * 86_400);

/// The same algorithm with a limit so high that it denies nothing, or as good as nothing where the
/// maximum is low: slow buckets and concurrency.
pub(super) fn unlimited(quota: &Quota) -> Option<Quota> {
    match quota {
        Quota::TokenBucket(bucket) => with_limit(quota, capacity_max(bucket.refill())),
        Quota::LeakyBucket(bucket) => with_limit(quota, capacity_max(bucket.leak())),
        _ => with_limit(quota, LIMIT_MAX),
    }
}

/// The same algorithm with another limit.
pub(super) fn with_limit(quota: &Quota, limit: u64) -> Option<Quota> {
    match quota {
        Quota::FixedWindow(window) => match window.start() {
            WindowStart::FirstHit(length) => valid(FixedWindow::new(limit, length.into())),
            WindowStart::Clock(unit) => valid(FixedWindow::aligned(limit, unit)),
        },
        Quota::SlidingWindow(quota) => valid(SlidingWindow::new(limit, quota.window().into())),
        Quota::SlidingLog(log) => valid(SlidingLog::new(limit, log.window().into())),
        Quota::TokenBucket(bucket) => valid(TokenBucket::new(limit, rate(bucket.refill()))),
        Quota::LeakyBucket(bucket) => {
            valid(LeakyBucket::new(bucket.mode(), limit, rate(bucket.leak())))
        }
        Quota::Concurrency(quota) => {
            let limit = limit.min(IN_FLIGHT_MAX);
            valid(Concurrency::new(limit, quota.permit_timeout().into()))
        }
    }
}

fn valid(quota: Result<impl Into<Quota>, LimitError>) -> Option<Quota> {
    quota.ok().map(Into::into)
}

/// The largest capacity that fills at this rate in the maximum time.
fn capacity_max((amount, micros): (u64, u64)) -> u64 {
    let most = u128::from(amount) * FILL_MAX.as_micros() / u128::from(micros.max(1));
    u64::try_from(most).unwrap_or(LIMIT_MAX).clamp(1, LIMIT_MAX)
}

fn rate((amount, micros): (u64, u64)) -> Rate {
    Rate::new(amount, Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use tollgate::{Calendar, LeakyMode, Limit};

    use super::*;

    #[test]
    fn every_algorithm_can_get_another_limit() {
        let minute = Duration::from_secs(60);
        let slow = Rate::new(1, Duration::from_secs(30 * 86_400));
        for limit in [
            Limit::fixed_window("a", 5, minute),
            Limit::calendar_window("a", 5, Calendar::Month),
            Limit::sliding_window("a", 5, minute),
            Limit::sliding_log("a", 5, minute),
            Limit::token_bucket("a", 5, slow),
            Limit::token_bucket("a", 5, Rate::per_second(10_000_000)),
            Limit::leaky_bucket("a", 5, Rate::new(1, Duration::from_secs(7))),
            Limit::queue("a", 5, Rate::per_second(3)),
            Limit::concurrency("a", 5, minute),
        ] {
            let quota = *limit.validate().unwrap().quota();
            let high = unlimited(&quota).unwrap();
            assert!(high.limit() > 1_000, "{high:?}");
            let set = with_limit(&quota, 7).unwrap();
            assert_eq!((set.limit(), set.shape()), (7, quota.shape()));
            if let (Quota::LeakyBucket(before), Quota::LeakyBucket(after)) = (quota, set) {
                assert_eq!(
                    before.mode() == LeakyMode::Queue,
                    after.mode() == LeakyMode::Queue
                );
            }
        }
    }
}
