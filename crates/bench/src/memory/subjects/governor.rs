//! governor with each of its maps, because which one is fastest depends on the number of threads.

use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::DefaultClock;
use governor::state::keyed::{DashMapStateStore, HashMapStateStore, ShrinkableKeyedStateStore};
use governor::{Quota, RateLimiter};

use super::{Setup, Subject};

/// Its default: a sharded map with the default hasher.
pub(in super::super) type DefaultGovernor = Governor<DashMapDefault>;
/// The same map with the hasher that Tollgate and throttlecrab use.
pub(in super::super) type AhashGovernor = Governor<DashMapAhash>;
/// One map behind one lock.
pub(in super::super) type HashMapGovernor = Governor<StdHashMap>;

/// A map for governor's state.
pub(in super::super) trait GovernorMap: Sync + 'static {
    const NAME: &'static str;
    type Store: ShrinkableKeyedStateStore<String> + Default + Sync;
}

pub(in super::super) struct DashMapDefault;
pub(in super::super) struct DashMapAhash;
pub(in super::super) struct StdHashMap;

impl GovernorMap for DashMapDefault {
    const NAME: &'static str = "governor";
    type Store = DashMapStateStore<String>;
}

impl GovernorMap for DashMapAhash {
    const NAME: &'static str = "governor-ahash";
    type Store = DashMapStateStore<String, ahash::RandomState>;
}

impl GovernorMap for StdHashMap {
    const NAME: &'static str = "governor-hashmap";
    type Store = HashMapStateStore<String>;
}

pub(in super::super) struct Governor<M: GovernorMap> {
    limiter: RateLimiter<String, M::Store, DefaultClock>,
    map: PhantomData<M>,
}

impl<M: GovernorMap> Subject for Governor<M> {
    const NAME: &'static str = M::NAME;

    fn new(setup: &Setup) -> Self {
        let quota = setup.quota;
        let one_per = Duration::from_secs(quota.period_secs.into()) / quota.count;
        let burst = NonZeroU32::new(quota.burst).expect("quotas have a burst");
        let quota = Quota::with_period(one_per)
            .expect("quotas have a period")
            .allow_burst(burst);
        Self {
            limiter: RateLimiter::new(quota, M::Store::default(), DefaultClock::default()),
            map: PhantomData,
        }
    }

    #[inline]
    fn allow(&self, key: &String) -> bool {
        self.limiter.check_key(key).is_ok()
    }

    fn keys(&self) -> Option<usize> {
        Some(self.limiter.len())
    }
}
