//! Tollgate on its memory store, through the limiter, as a program would.

use std::time::Duration;

use tollgate::limiter::LimitHandle;
use tollgate::{Limit, Limiter, MemoryStore, Rate};

use super::{Setup, Subject};

/// The window of the sliding window: longer than the run, so that no key leaves it meanwhile.
const WINDOW: Duration = Duration::from_hours(24);

/// The token bucket, which the peers have too.
pub(in super::super) struct Bucket(Tollgate);

/// The token bucket of a limit looked up once, asked for no more than yes or no: the question that
/// the peers answer.
pub(in super::super) struct AllowedOnly {
    api: LimitHandle<'static>,
    store: MemoryStore,
}

/// The sliding window, which the peers do not have.
pub(in super::super) struct Sliding(Tollgate);

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
            limiter: Limiter::new(store.clone(), [limit]),
            store,
        }
    }

    #[inline]
    fn allow(&self, key: &str) -> bool {
        let decision = self.limiter.check("api", key).now_or_never();
        decision
            .expect("the limit exists and the key is short")
            .is_allowed()
    }
}

fn bucket(setup: &Setup) -> Limit {
    let ration = setup.ration;
    let rate = Rate::new(
        ration.count.into(),
        Duration::from_secs(ration.period_secs.into()),
    );
    Limit::token_bucket("api", ration.burst.into(), rate)
}

impl Subject for AllowedOnly {
    const NAME: &'static str = "tollgate-is-allowed";

    fn new(setup: &Setup) -> Self {
        let Tollgate { limiter, store } = Tollgate::new(setup, bucket(setup));
        // A program would keep the limiter for as long as it runs; a few are made here and never
        // given back.
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

impl Subject for Bucket {
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

impl Subject for Sliding {
    const NAME: &'static str = "tollgate-sliding";

    fn new(setup: &Setup) -> Self {
        Self(Tollgate::new(
            setup,
            Limit::sliding_window("api", setup.ration.burst.into(), WINDOW),
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
