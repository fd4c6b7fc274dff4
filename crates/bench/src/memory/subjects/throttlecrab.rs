//! throttlecrab with the store that is fastest with many keys.
//!
//! Its adaptive store scans all keys every 100,000 operations, and on every operation while its map
//! is more than three quarters full; its probabilistic store scans them once in a thousand
//! operations. The periodic store scans once a minute.

use parking_lot::Mutex;
use throttlecrab::{PeriodicStore, RateLimiter};

use super::{Setup, Subject, SubjectQuota};
use crate::harness::timing::wall_clock;

pub(super) struct Periodic {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    quota: SubjectQuota,
}

#[inline]
fn allow(limiter: &mut RateLimiter<PeriodicStore>, quota: SubjectQuota, key: &str) -> bool {
    let (burst, count, period) = (
        quota.burst.into(),
        quota.count.into(),
        quota.period_secs.into(),
    );
    let answer = limiter.rate_limit(key, burst, count, period, 1, wall_clock());
    answer.expect("quotas are valid").0
}

impl Subject for Periodic {
    const NAME: &'static str = "throttlecrab";

    fn new(setup: &Setup) -> Self {
        Self {
            limiter: Mutex::new(RateLimiter::new(PeriodicStore::new())),
            quota: setup.quota,
        }
    }

    #[inline]
    fn allow(&self, key: &String) -> bool {
        allow(&mut self.limiter.lock(), self.quota, key)
    }

    #[inline]
    fn allow_alone(&mut self, key: &String) -> bool {
        allow(self.limiter.get_mut(), self.quota, key)
    }
}
