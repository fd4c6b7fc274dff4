//! A store of its own for looking at the servers: patient, and past whatever a test does to the
//! network.

use std::error::Error;
use std::iter::successors;

use testkit::wait;
use tokio::runtime::{Handle, Runtime};
use tollgate::store::Intent;
use tollgate::{Limiter, PermitId, Store as _};
use tollgate_redis::{RedisBuilder, RedisStore};

use super::subjects::{self, KEYS, LEDGER, LEDGER_LIMIT};
use crate::common::PATIENT;

pub(crate) struct Observer {
    runtime: Handle,
    store: RedisStore,
    limiter: Limiter,
}

impl Observer {
    pub(crate) fn new(runtime: &Runtime, store: RedisBuilder) -> Self {
        let store = store
            .timeout(PATIENT)
            .build()
            .expect("the settings are right");
        let limiter = Limiter::new(store.clone(), subjects::limits());
        Self {
            runtime: runtime.handle().clone(),
            store,
            limiter,
        }
    }

    /// Gives every ledger a beginning of its own.
    pub(crate) fn set_apart(&self) {
        self.ready();
        for number in 0..KEYS {
            let ask = self
                .limiter
                .check(LEDGER, subjects::key(number))
                .cost(subjects::base(number));
            let decision = self
                .runtime
                .block_on(async { ask.await })
                .expect("the ledger is a limit");
            assert!(
                decision.is_allowed() && !decision.is_degraded(),
                "the ledgers are on the server"
            );
        }
    }

    /// What the ledger of each key has used.
    pub(crate) fn charged(&self) -> [u64; KEYS] {
        self.ready();
        std::array::from_fn(|number| {
            // In a cluster, the first to ask after a fail-over may be sent to a server that is not
            // connected yet.
            wait::until(PATIENT, "a ledger", || {
                let peek = self.limiter.peek(LEDGER, subjects::key(number)).cost(0);
                let decision = self
                    .runtime
                    .block_on(async { peek.await })
                    .expect("the ledger is a limit");
                (!decision.is_degraded()).then(|| LEDGER_LIMIT - decision.remaining())
            })
        })
    }

    fn ready(&self) {
        assert!(
            self.runtime.block_on(self.store.ready(PATIENT)),
            "the servers are there"
        );
    }
}

/// Why a store does not answer, in its own words; `None` if it does.
pub(crate) async fn complaint_of(store: &RedisStore) -> Option<String> {
    let [.., ledger] = subjects::limits();
    let rule = ledger.rule().expect("the limits are right");
    // Nobody else asks about this key. It is spent from, because some servers only refuse to write.
    let check = rule.demand("observer", 1).expect("the key is right");
    let error = store
        .spend(&[check.as_demand()], Intent::Spend, PermitId::NONE)
        .await
        .err()?;
    let causes = successors(Some(&error as &dyn Error), |error| (*error).source());
    Some(
        causes
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(": "),
    )
}
