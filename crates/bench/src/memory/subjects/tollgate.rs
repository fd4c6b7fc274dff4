//! Tollgate with its embedded store, called through the limiter, as an application does.

use std::time::Duration;

use tollgate::limiter::LimitHandle;
use tollgate::{Limit, Limiter, MemoryStore, Rate};

use super::{Setup, Subject};

/// The length of the sliding window: longer than the run, so that no key expires meanwhile.
const WINDOW: Duration = Duration::from_hours(24);

/// The token bucket, which the other subjects have too.
pub(in super::super) struct TollgateBucket(Tollgate);

/// The token bucket of a limit that is looked up once, calling `is_allowed` only: what most other
/// subjects return.
pub(in super::super) struct TollgateIsAllowed {
    api: LimitHandle<'static>,
    store: MemoryStore,
}

/// The sliding window, which the other subjects do not have.
pub(in super::super) struct TollgateSliding(Tollgate);

struct Tollgate {
    limiter: Limiter,
    store: MemoryStore,
}

impl Tollgate {
    fn new(setup: &Setup, limit: Limit) -> Self {
        let store = MemoryStore::builder()
            .keys_max(setup.keys_max as usize)
            .build();
        Self {
            limiter: Limiter::new(store.clone(), [limit]).expect("valid limits"),
            store,
        }
    }

    #[inline]
    fn allow(&self, key: &str) -> bool {
        let decision = self.limiter.check("api", key).try_now();
        decision
            .expect("the limit exists and the key is short")
            .is_allowed()
    }
}

fn bucket(setup: &Setup) -> Limit {
    let quota = setup.quota;
    let rate = Rate::new(
        quota.count.into(),
        Duration::from_secs(quota.period_secs.into()),
    );
    Limit::token_bucket("api", quota.burst.into(), rate)
}

impl Subject for TollgateIsAllowed {
    const NAME: &'static str = "tollgate-is-allowed";

    fn new(setup: &Setup) -> Self {
        let Tollgate { limiter, store } = Tollgate::new(setup, bucket(setup));
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
        self.api.check(key).is_allowed().expect("the key is short")
    }

    fn keys(&self) -> Option<usize> {
        Some(self.store.keys())
    }
}

impl Subject for TollgateBucket {
    const NAME: &'static str = "tollgate";

    fn new(setup: &Setup) -> Self {
        Self(Tollgate::new(setup, bucket(setup)))
    }

    #[inline]
    fn allow(&self, key: &String) -> bool {
        self.0.allow(key)
    }

    fn keys(&self) -> Option<usize> {
        Some(self.0.store.keys())
    }
}

impl Subject for TollgateSliding {
    const NAME: &'static str = "tollgate-sliding";

    fn new(setup: &Setup) -> Self {
        Self(Tollgate::new(
            setup,
            Limit::sliding_window("api", setup.quota.burst.into(), WINDOW),
        ))
    }

    #[inline]
    fn allow(&self, key: &String) -> bool {
        self.0.allow(key)
    }

    fn keys(&self) -> Option<usize> {
        Some(self.0.store.keys())
    }
}
