//! governor with each of its maps, because which one is fastest depends on the number of threads.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::DefaultClock;
use governor::state::keyed::{DashMapStateStore, HashMapStateStore, ShrinkableKeyedStateStore};
use governor::{Quota, RateLimiter};

use super::{Setup, Subject};

/// Its default: a sharded map with the default hasher.
pub(super) type DefaultGovernor = Governor<DashMapStateStore<String>>;
/// The same map with the hasher that Tollgate and throttlecrab use.
pub(super) type AhashGovernor = Governor<DashMapStateStore<String, ahash::RandomState>>;
/// One map behind one lock.
pub(super) type HashMapGovernor = Governor<HashMapStateStore<String>>;

/// A map for governor's state.
pub(super) trait GovernorMap:
    ShrinkableKeyedStateStore<String> + Default + Sync + 'static
{
    const NAME: &'static str;
}

impl GovernorMap for DashMapStateStore<String> {
    const NAME: &'static str = "governor";
}

impl GovernorMap for DashMapStateStore<String, ahash::RandomState> {
    const NAME: &'static str = "governor-ahash";
}

impl GovernorMap for HashMapStateStore<String> {
    const NAME: &'static str = "governor-hashmap";
}

pub(super) struct Governor<M: GovernorMap>(RateLimiter<String, M, DefaultClock>);

impl<M: GovernorMap> Subject for Governor<M> {
    const NAME: &'static str = M::NAME;

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
