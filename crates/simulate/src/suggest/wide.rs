//! A limit's algorithm with other numbers.

use std::time::Duration;

use tollgate::algorithm::WindowStart;
use tollgate::{FixedWindow, LeakyBucket, Quota, Rate, SlidingLog, SlidingWindow, TokenBucket};

/// The largest limit there is.
const LIMIT_MAX: u64 = 1 << 53;
/// The longest that a bucket may take to fill, a little less than is refused.
const FILL_MAX: Duration = Duration::from_secs(99 * 365 * 86_400);

/// The same algorithm, so wide that nobody is refused. A log would remember every hit, so a counter
/// of the same window stands in for it here. `None` for places in flight, of which a log knows
/// nothing.
pub(super) fn without_limit(quota: &Quota) -> Option<Quota> {
    match quota {
        Quota::SlidingLog(log) => SlidingWindow::new(LIMIT_MAX, log.window().into())
            .ok()
            .map(Into::into),
        Quota::TokenBucket(bucket) => with_limit(quota, widest(bucket.refill())),
        Quota::LeakyBucket(bucket) => with_limit(quota, widest(bucket.leak())),
        _ => with_limit(quota, LIMIT_MAX),
    }
}

/// The same algorithm with another limit.
pub(super) fn with_limit(quota: &Quota, limit: u64) -> Option<Quota> {
    let made = match quota {
        Quota::FixedWindow(window) => match window.start() {
            WindowStart::FirstHit(length) => FixedWindow::new(limit, length.into()),
            WindowStart::Clock(unit) => FixedWindow::aligned(limit, unit),
        }
        .map(Quota::from),
        Quota::SlidingWindow(window) => {
            SlidingWindow::new(limit, window.window().into()).map(Quota::from)
        }
        Quota::SlidingLog(window) => {
            SlidingLog::new(limit, window.window().into()).map(Quota::from)
        }
        Quota::TokenBucket(bucket) => {
            TokenBucket::new(limit, rate(bucket.refill())).map(Quota::from)
        }
        Quota::LeakyBucket(bucket) => {
            LeakyBucket::new(bucket.mode(), limit, rate(bucket.leak())).map(Quota::from)
        }
        Quota::Concurrency(_) => return None,
    };
    made.ok()
}

/// The most that comes at this rate in as long as a bucket may take to fill.
fn widest((amount, micros): (u64, u64)) -> u64 {
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
    fn every_algorithm_can_be_widened_and_set() {
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
        ] {
            let quota = *limit.rule().unwrap().quota();
            let wide = without_limit(&quota).unwrap();
            assert!(wide.limit() > 1_000, "{wide:?}");
            let set = with_limit(&quota, 7).unwrap();
            assert_eq!((set.limit(), set.shape()), (7, quota.shape()));
            if let (Quota::LeakyBucket(before), Quota::LeakyBucket(after)) = (quota, set) {
                assert_eq!(
                    before.mode() == LeakyMode::Queue,
                    after.mode() == LeakyMode::Queue
                );
            }
        }
        let places = Limit::concurrency("a", 5, minute);
        assert_eq!(without_limit(places.rule().unwrap().quota()), None);
    }
}
