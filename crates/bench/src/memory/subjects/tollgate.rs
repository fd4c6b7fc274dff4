//! Tollgate with its embedded store, called through the limiter, as an application does.

use std::time::Duration;

use tollgate::limiter::LimitHandle;
use tollgate::{Limit, Limiter, MemoryStore, Rate};

use super::{Setup, Subject};

/// The length of the sliding window: longer than the run, so that no key expires meanwhile.
const WINDOW: Duration = Duration::from_hours(24);

/// The token bucket, which the other subjects have too.
pub(super) type Bucket = Tollgate<false>;
/// The sliding window, which the other subjects do not have.
pub(super) type Sliding = Tollgate<true>;

pub(super) struct Tollgate<const IS_SLIDING: bool> {
    limiter: Limiter,
    store: MemoryStore,
}

/// The token bucket of a limit that is looked up once, calling `is_allowed` only: what most other
/// subjects return.
pub(super) struct IsAllowed {
    api: LimitHandle<'static>,
    store: MemoryStore,
}

impl<const IS_SLIDING: bool> Subject for Tollgate<IS_SLIDING> {
    fn new(setup: &Setup) -> Self {
        let quota = setup.quota;
        let burst = quota.burst.into();
        let limit = if IS_SLIDING {
            Limit::sliding_window("api", burst, WINDOW)
        } else {
            let period = Duration::from_secs(quota.period_secs.into());
            Limit::token_bucket("api", burst, Rate::new(quota.count.into(), period))
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
        decision
            .expect("the limit exists and the key is short")
            .is_allowed()
    }

    fn keys(&self) -> Option<usize> {
        Some(self.store.keys())
    }
}

impl Subject for IsAllowed {
    fn new(setup: &Setup) -> Self {
        let Tollgate { limiter, store } = Bucket::new(setup);
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
        self.api
            .check(key)
            .try_is_allowed()
            .expect("the key is short")
    }

    fn keys(&self) -> Option<usize> {
        Some(self.store.keys())
    }
}
