//! governor with each of its maps, because which one is fastest depends on the threads.

use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::DefaultClock;
use governor::state::keyed::{DashMapStateStore, HashMapStateStore, ShrinkableKeyedStateStore};
use governor::{Quota, RateLimiter};

use super::{Setup, Subject};

/// The sharded map and hasher it comes with.
pub(in super::super) type DefaultGovernor = Governor<Dash>;
/// The same map with the hasher that Tollgate and throttlecrab use.
pub(in super::super) type WithAhash = Governor<DashAhash>;
/// One lock around one map.
pub(in super::super) type OneLock = Governor<OneMap>;

/// A choice of map.
pub(in super::super) trait Map: Sync + 'static {
    const NAME: &'static str;
    type Store: ShrinkableKeyedStateStore<String> + Default + Sync;
}

pub(in super::super) struct Dash;
pub(in super::super) struct DashAhash;
pub(in super::super) struct OneMap;

impl Map for Dash {
    const NAME: &'static str = "governor";
    type Store = DashMapStateStore<String>;
}

impl Map for DashAhash {
    const NAME: &'static str = "governor-ahash";
    type Store = DashMapStateStore<String, ahash::RandomState>;
}

impl Map for OneMap {
    const NAME: &'static str = "governor-hashmap";
    type Store = HashMapStateStore<String>;
}

pub(in super::super) struct Governor<M: Map> {
    limiter: RateLimiter<String, M::Store, DefaultClock>,
    map: PhantomData<M>,
}

impl<M: Map> Subject for Governor<M> {
    const NAME: &'static str = M::NAME;

    fn new(setup: &Setup) -> Self {
        let ration = setup.ration;
        let one_per = Duration::from_secs(ration.period_secs.into()) / ration.count;
        let burst = NonZeroU32::new(ration.burst).expect("rations have a burst");
        let quota = Quota::with_period(one_per)
            .expect("rations have a period")
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
