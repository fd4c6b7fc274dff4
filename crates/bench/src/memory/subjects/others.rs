//! The subjects that are not Tollgate: governor, ratelimit, throttlecrab, and a counter that is
//! not a rate limiter.

use std::num::NonZeroU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ahash::RandomState;
use dashmap::DashMap;
use governor::clock::DefaultClock;
use governor::state::StateStore;
use governor::state::keyed::{DashMapStateStore, HashMapStateStore, ShrinkableKeyedStateStore};
use governor::{Quota, RateLimiter};
use parking_lot::Mutex;
use ratelimit::Ratelimiter;
use throttlecrab::PeriodicStore;
use tollgate::{Clock as _, SystemClock};

use super::{Setup, Subject, SubjectQuota};
use crate::harness::timing::wall_clock;

/// Its default: a sharded map with the default hasher.
pub(super) type DefaultGovernor = Governor<DashMapStateStore<String>>;
/// The same map with the hasher that Tollgate and throttlecrab use.
pub(super) type AhashGovernor = Governor<DashMapStateStore<String, ahash::RandomState>>;
/// One map behind one lock.
pub(super) type HashMapGovernor = Governor<HashMapStateStore<String>>;

/// governor with a map for its state. Which one is fastest depends on the number of threads.
pub(super) struct Governor<M: StateStore<Key = String>>(RateLimiter<String, M, DefaultClock>);

impl<M> Subject for Governor<M>
where
    M: ShrinkableKeyedStateStore<String> + Default + Sync + 'static,
{
    fn new(setup: &Setup) -> Self {
        let quota = setup.quota;
        let one_per = Duration::from_secs(quota.period_secs.into()) / quota.count;
        let burst = NonZeroU32::new(quota.burst).expect("quotas have a burst");
        let quota = Quota::with_period(one_per)
            .expect("quotas have a period")
            .allow_burst(burst);
        Self(RateLimiter::new(
            quota,
            M::default(),
            DefaultClock::default(),
        ))
    }

    #[inline]
    fn allow(&self, key: &String) -> bool {
        self.0.check_key(key).is_ok()
    }

    fn keys(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// One limiter; the key is ignored.
pub(super) struct Single(Ratelimiter);

/// A limiter for each key, in a map as a user of the crate would build it.
pub(super) struct Keyed {
    limiters: DashMap<String, Ratelimiter, RandomState>,
    quota: SubjectQuota,
}

fn ratelimiter(quota: SubjectQuota) -> Ratelimiter {
    Ratelimiter::builder(quota.count.into())
        .period(Duration::from_secs(quota.period_secs.into()))
        .max_tokens(quota.burst.into())
        .initial_available(quota.burst.into())
        .build()
        .expect("quotas have a burst and a period")
}

impl Subject for Single {
    fn new(setup: &Setup) -> Self {
        Self(ratelimiter(setup.quota))
    }

    #[inline]
    fn allow(&self, _: &String) -> bool {
        self.0.try_wait().is_ok()
    }
}

impl Subject for Keyed {
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
            .or_insert_with(|| ratelimiter(self.quota));
        limiter.try_wait().is_ok()
    }

    fn keys(&self) -> Option<usize> {
        Some(self.limiters.len())
    }
}

/// throttlecrab with the store that is fastest with many keys.
///
/// Its adaptive store scans all keys every 100,000 operations, and on every operation while its map
/// is more than three quarters full; its probabilistic store scans them once in a thousand
/// operations. The periodic store scans once a minute.
pub(super) struct Periodic {
    limiter: Mutex<throttlecrab::RateLimiter<PeriodicStore>>,
    quota: SubjectQuota,
}

#[inline]
fn allow_at_time(
    limiter: &mut throttlecrab::RateLimiter<PeriodicStore>,
    quota: SubjectQuota,
    key: &str,
) -> bool {
    let answer = limiter.rate_limit(
        key,
        quota.burst.into(),
        quota.count.into(),
        quota.period_secs.into(),
        1,
        wall_clock(),
    );
    answer.expect("quotas are valid").0
}

impl Subject for Periodic {
    fn new(setup: &Setup) -> Self {
        Self {
            limiter: Mutex::new(throttlecrab::RateLimiter::new(PeriodicStore::new())),
            quota: setup.quota,
        }
    }

    #[inline]
    fn allow(&self, key: &String) -> bool {
        allow_at_time(&mut self.limiter.lock(), self.quota, key)
    }

    #[inline]
    fn allow_alone(&mut self, key: &String) -> bool {
        allow_at_time(self.limiter.get_mut(), self.quota, key)
    }
}

/// A counter takes 32 bytes, and tables are not full.
#[repr(align(32))]
struct CounterWord(AtomicU64);

/// The lower bound of any limiter's work: find a counter by the key's hash, read the time, change a
/// word.
pub(super) struct AtomicCounter {
    clock: SystemClock,
    hash: RandomState,
    words: Box<[CounterWord]>,
}

impl Subject for AtomicCounter {
    fn new(setup: &Setup) -> Self {
        // As many words as Tollgate has for half of `keys_max`.
        let words = (setup.keys_max / 2).max(1) as usize * 9 / 5;
        Self {
            clock: SystemClock::new(),
            hash: RandomState::new(),
            words: (0..words.max(1))
                .map(|_| CounterWord(AtomicU64::new(0)))
                .collect(),
        }
    }

    #[inline]
    fn allow(&self, key: &String) -> bool {
        let place = (u128::from(self.hash.hash_one(key)) * self.words.len() as u128) >> 64;
        let word = &self.words[usize::try_from(place).unwrap_or_default()].0;
        // Always true, but the compiler does not know.
        word.swap(self.clock.now().get(), Relaxed) < u64::MAX
    }
}
