//! The ratelimit crate: one limiter without keys, and what its user would build to have some.

use std::time::Duration;

use ahash::RandomState;
use dashmap::DashMap;
use ratelimit::Ratelimiter;

use super::{Ration, Setup, Subject};

/// One limiter; the key is not looked at.
pub(in super::super) struct Single(Ratelimiter);

/// A limiter for each key.
pub(in super::super) struct Keyed {
    limiters: DashMap<String, Ratelimiter, RandomState>,
    ration: Ration,
}

fn limiter(ration: Ration) -> Ratelimiter {
    Ratelimiter::builder(ration.count.into())
        .period(Duration::from_secs(ration.period_secs.into()))
        .max_tokens(ration.burst.into())
        .initial_available(ration.burst.into())
        .build()
        .expect("rations have a burst and a period")
}

impl Subject for Single {
    const NAME: &'static str = "ratelimit";

    fn new(setup: &Setup) -> Self {
        Self(limiter(setup.ration))
    }

    #[inline]
    fn allow(&self, _: &String) -> bool {
        self.0.try_wait().is_ok()
    }

    fn keys(&self) -> Option<usize> {
        None
    }
}

impl Subject for Keyed {
    const NAME: &'static str = "ratelimit";

    fn new(setup: &Setup) -> Self {
        Self {
            limiters: DashMap::default(),
            ration: setup.ration,
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
            .or_insert_with(|| limiter(self.ration));
        limiter.try_wait().is_ok()
    }

    fn keys(&self) -> Option<usize> {
        Some(self.limiters.len())
    }
}
