//! The subjects. Each is configured for speed as its own documentation recommends, and called as an
//! application calls it.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ahash::RandomState;
use dashmap::DashMap;
use governor::clock::DefaultClock;
use governor::state::StateStore;
use governor::state::keyed::{DashMapStateStore, HashMapStateStore, ShrinkableKeyedStateStore};
use governor::{Quota, RateLimiter};
use parking_lot::Mutex;
use ratelimit::Ratelimiter;
use throttlecrab::PeriodicStore;
use tollgate::limiter::LimitHandle;
use tollgate::{Clock as _, Limit, Limiter, MemoryStore, Rate, SystemClock};

use super::footprint;
use super::timed::{self, Filled};
use crate::harness::prelude::*;

/// How to set up a subject, in numbers that every subject can express.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    burst: u32,
    /// Units refilled every `period_secs`.
    count: u32,
    period_secs: u32,
    /// The most keys to store, for subjects that have such a bound.
    pub(super) keys_max: u32,
}

impl Setup {
    /// Never denies, and no key is ever full again, so that no subject may drop a key while it is
    /// measured.
    pub(super) const fn ample(keys_max: u32) -> Self {
        Self {
            burst: 1_000_000_000,
            count: 3,
            period_secs: 7,
            keys_max,
        }
    }

    /// Used up after ten requests, for the rest of the run.
    pub(super) const fn scarce(keys_max: u32) -> Self {
        Self {
            burst: 10,
            count: 1,
            period_secs: 86_400,
            keys_max,
        }
    }

    fn period(&self) -> Duration {
        Duration::from_secs(self.period_secs.into())
    }
}

/// A rate limiter. Calls are resolved at compile time, so that a subject pays for nothing but
/// itself.
pub(super) trait Subject: Sync + Sized + 'static {
    fn new(setup: Setup) -> Self;

    /// Checks one request of this key, from any thread.
    #[expect(
        clippy::ptr_arg,
        reason = "governor's map takes a reference to its own key type"
    )]
    fn allow(&self, key: &String) -> bool;

    /// The same for a program with one thread, where that is cheaper.
    #[inline]
    fn allow_alone(&mut self, key: &String) -> bool {
        self.allow(key)
    }

    /// The number of keys that it stores, if it reports that.
    fn keys(&self) -> Option<usize> {
        None
    }
}

/// A type of subject, as functions that are compiled for it.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) fill: fn(Setup, &[String], bool) -> Filled,
    pub(super) insert: fn(Setup, &[String]) -> Figures,
    pub(super) footprint: fn(Setup, &[String]) -> Figures,
    pub(super) flood: fn(Setup, u32) -> Figures,
}

impl Kind {
    const fn new<S: Subject>(name: &'static str) -> Self {
        Self {
            name,
            fill: timed::fill::<S>,
            insert: timed::insert::<S>,
            footprint: footprint::footprint::<S>,
            flood: footprint::flood::<S>,
        }
    }
}

/// The subjects for traffic with many keys.
pub(super) const KEYED: [Kind; 8] = with_ratelimit(Kind::new::<Keyed>("ratelimit"));

/// The subjects for traffic with one key.
pub(super) const SINGLE: [Kind; 8] = with_ratelimit(Kind::new::<Single>("ratelimit"));

/// The subjects whose behaviour under a flood of new keys is shown.
pub(super) const FLOODED: [Kind; 4] = [KEYED[0], KEYED[2], KEYED[3], KEYED[7]];

/// Not a rate limiter, but as fast as memory allows one to be.
pub(super) const ATOMIC_COUNTER: Kind = Kind::new::<AtomicCounter>("atomic-counter");

/// governor has its default, a sharded map with the default hasher; the same map with the hasher that
/// Tollgate and throttlecrab use; and one map behind one lock. Which one is fastest depends on the
/// number of threads.
const fn with_ratelimit(ratelimit: Kind) -> [Kind; 8] {
    type Ahash = DashMapStateStore<String, RandomState>;
    [
        Kind::new::<Tollgate<false>>("tollgate"),
        Kind::new::<IsAllowed>("tollgate-is-allowed"),
        Kind::new::<Tollgate<true>>("tollgate-sliding"),
        Kind::new::<Governor<DashMapStateStore<String>>>("governor"),
        Kind::new::<Governor<Ahash>>("governor-ahash"),
        Kind::new::<Governor<HashMapStateStore<String>>>("governor-hashmap"),
        ratelimit,
        Kind::new::<Periodic>("throttlecrab"),
    ]
}

/// The length of the sliding window: longer than the run, so that no key expires meanwhile.
const WINDOW: Duration = Duration::from_hours(24);

/// Tollgate with its embedded store, called through the limiter, as an application does: with the
/// token bucket, which the other subjects have too, or the sliding window, which they do not have.
struct Tollgate<const IS_SLIDING: bool> {
    limiter: Limiter,
    store: MemoryStore,
}

/// The token bucket of a limit that is looked up once, calling `is_allowed` only: what most other
/// subjects return.
struct IsAllowed {
    api: LimitHandle<'static>,
    store: MemoryStore,
}

impl<const IS_SLIDING: bool> Subject for Tollgate<IS_SLIDING> {
    fn new(setup: Setup) -> Self {
        let burst = setup.burst.into();
        let limit = if IS_SLIDING {
            Limit::sliding_window("api", burst, WINDOW)
        } else {
            Limit::token_bucket("api", burst, Rate::new(setup.count.into(), setup.period()))
        };
        let store = MemoryStore::builder()
            .keys_max(setup.keys_max as usize)
            .build();
        Self {
            limiter: Limiter::new(store.clone(), [limit]).expect("valid limits"),
            store,
        }
    }

    #[inline]
    fn allow(&self, key: &String) -> bool {
        let decision = self.limiter.check("api", key).try_now();
        decision.expect("the key is short").is_allowed()
    }

    fn keys(&self) -> Option<usize> {
        Some(self.store.keys())
    }
}

impl Subject for IsAllowed {
    fn new(setup: Setup) -> Self {
        let Tollgate { limiter, store } = Tollgate::<false>::new(setup);
        // An application would keep the limiter as long as it runs; the few that are created here
        // are leaked.
        let limiter: &'static Limiter = Box::leak(Box::new(limiter));
        Self {
            api: limiter.limit("api").expect("the limit exists"),
            store,
        }
    }

    #[inline]
    fn allow(&self, key: &String) -> bool {
        let decision = self.api.check(key).try_is_allowed();
        decision.expect("the key is short")
    }

    fn keys(&self) -> Option<usize> {
        Some(self.store.keys())
    }
}

/// governor with a map for its state.
struct Governor<M: StateStore<Key = String>>(RateLimiter<String, M, DefaultClock>);

impl<M> Subject for Governor<M>
where
    M: ShrinkableKeyedStateStore<String> + Default + Sync + 'static,
{
    fn new(setup: Setup) -> Self {
        let quota = Quota::with_period(setup.period() / setup.count).expect("setups have a period");
        let burst = NonZeroU32::new(setup.burst).expect("setups have a burst");
        let (state, clock) = (M::default(), DefaultClock::default());
        Self(RateLimiter::new(quota.allow_burst(burst), state, clock))
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
struct Single(Ratelimiter);

/// A limiter for each key, in a map as a user of the crate would build it.
struct Keyed {
    limiters: DashMap<String, Ratelimiter, RandomState>,
    setup: Setup,
}

fn ratelimiter(setup: Setup) -> Ratelimiter {
    let builder = Ratelimiter::builder(setup.count.into())
        .period(setup.period())
        .max_tokens(setup.burst.into())
        .initial_available(setup.burst.into());
    builder.build().expect("setups have a burst and a period")
}

impl Subject for Single {
    fn new(setup: Setup) -> Self {
        Self(ratelimiter(setup))
    }

    #[inline]
    fn allow(&self, _: &String) -> bool {
        self.0.try_wait().is_ok()
    }
}

impl Subject for Keyed {
    fn new(setup: Setup) -> Self {
        Self {
            limiters: DashMap::default(),
            setup,
        }
    }

    #[inline]
    fn allow(&self, key: &String) -> bool {
        if let Some(limiter) = self.limiters.get(key) {
            return limiter.try_wait().is_ok();
        }
        let entry = self.limiters.entry(key.clone());
        let limiter = entry.or_insert_with(|| ratelimiter(self.setup));
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
struct Periodic {
    limiter: Mutex<throttlecrab::RateLimiter<PeriodicStore>>,
    setup: Setup,
}

#[inline]
fn allow_at_time(
    limiter: &mut throttlecrab::RateLimiter<PeriodicStore>,
    setup: Setup,
    key: &str,
) -> bool {
    let [burst, count, period] = [setup.burst, setup.count, setup.period_secs].map(i64::from);
    let decision = limiter.rate_limit(key, burst, count, period, 1, wall_clock());
    decision.expect("setups are valid").0
}

impl Subject for Periodic {
    fn new(setup: Setup) -> Self {
        Self {
            limiter: Mutex::new(throttlecrab::RateLimiter::new(PeriodicStore::new())),
            setup,
        }
    }

    #[inline]
    fn allow(&self, key: &String) -> bool {
        allow_at_time(&mut self.limiter.lock(), self.setup, key)
    }

    #[inline]
    fn allow_alone(&mut self, key: &String) -> bool {
        allow_at_time(self.limiter.get_mut(), self.setup, key)
    }
}

/// A counter takes 32 bytes, and tables are not full.
#[derive(Default)]
#[repr(align(32))]
struct CounterWord(AtomicU64);

/// The lower bound of any limiter's work: find a counter by the key's hash, read the time, change a
/// word.
struct AtomicCounter {
    clock: SystemClock,
    hash: RandomState,
    words: Box<[CounterWord]>,
}

impl Subject for AtomicCounter {
    fn new(setup: Setup) -> Self {
        // As many words as Tollgate has for half of `keys_max`.
        let words = (setup.keys_max / 2).max(1) as usize * 9 / 5;
        Self {
            clock: SystemClock::new(),
            hash: RandomState::new(),
            words: (0..words).map(|_| CounterWord::default()).collect(),
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
