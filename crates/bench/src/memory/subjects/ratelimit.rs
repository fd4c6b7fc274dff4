//! The ratelimit crate: one limiter without keys, and a map of limiters as its user would build it.

use std::time::Duration;

use ahash::RandomState;
use dashmap::DashMap;
use ratelimit::Ratelimiter;

use super::{Setup, Subject, SubjectQuota};

/// One limiter; the key is ignored.
pub(super) struct Single(Ratelimiter);

/// A limiter for each key.
pub(super) struct Keyed {
    limiters: DashMap<String, Ratelimiter, RandomState>,
    quota: SubjectQuota,
}

fn limiter(quota: SubjectQuota) -> Ratelimiter {
    Ratelimiter::builder(quota.count.into())
        .period(Duration::from_secs(quota.period_secs.into()))
        .max_tokens(quota.burst.into())
        .initial_available(quota.burst.into())
        .build()
        .expect("quotas have a burst and a period")
}

impl Subject for Single {
    const NAME: &'static str = "ratelimit";

    fn new(setup: &Setup) -> Self {
        Self(limiter(setup.quota))
    }

    #[inline]
    fn allow(&self, _: &String) -> bool {
        self.0.try_wait().is_ok()
    }
}

impl Subject for Keyed {
    const NAME: &'static str = "ratelimit";

    fn new(setup: &Setup) -> Self {
        Self {
            limiters: DashMap::default(),
            quota: setup.quota,
        }
    }

    #[inline]
    fn allow(&self, key: &String) -> bool {
        if let Some(limiter) = self.limiters.get(key) {
            return limiter.try_wait().is_ok();
        }
        let limiter = self
            .limiters
            .entry(key.clone())
            .or_insert_with(|| limiter(self.quota));
        limiter.try_wait().is_ok()
    }

    fn keys(&self) -> Option<usize> {
        Some(self.limiters.len())
    }
}
