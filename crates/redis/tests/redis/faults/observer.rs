//! Reads the counters through a store of its own, which has a long timeout and is not affected by
//! the faults that a test causes in the network.

use std::error::Error;
use std::iter::successors;

use testkit::wait;
use tokio::runtime::{Handle, Runtime};
use tollgate::store::Intent;
use tollgate::{DemandBuf, Limiter, PermitId, Store as _};
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
            .expect("the settings are valid");
        let limiter =
            Limiter::new(store.clone(), subjects::limits()).expect("the limits are valid");

        Self {
            runtime: runtime.handle().clone(),
            store,
            limiter,
        }
    }

    /// Charges each ledger with a base of its own.
    pub(crate) fn charge_bases(&self) {
        self.ready();

        for number in 0..KEYS {
            let ask = self
                .limiter
                .check(LEDGER, subjects::key(number))
                .cost(subjects::base(number));
            let decision = self
                .runtime
                .block_on(async { ask.await })
                .expect("the ledger exists");
            assert!(
                decision.is_allowed() && !decision.is_degraded(),
                "the ledgers are on the server"
            );
        }
    }

    /// The units used in the ledger of each key.
    pub(crate) fn charged(&self) -> [u64; KEYS] {
        self.ready();

        std::array::from_fn(|number| {
            // In a cluster, the first call after a failover may be redirected to a server without a
            // connection.
            wait::until(PATIENT, "a ledger", || {
                let peek = self.limiter.peek(LEDGER, subjects::key(number)).cost(0);
                let decision = self
                    .runtime
                    .block_on(async { peek.await })
                    .expect("the ledger exists");
                (!decision.is_degraded()).then(|| LEDGER_LIMIT - decision.remaining())
            })
        })
    }

    fn ready(&self) {
        assert!(
            self.runtime.block_on(self.store.ready(PATIENT)),
            "the servers are available"
        );
    }
}

/// The error of a store call, with its causes. `None` if the call succeeds.
pub(crate) async fn store_error(store: &RedisStore) -> Option<String> {
    let [.., ledger] = subjects::limits();
    let rule = ledger.validate().expect("the limits are valid");
    // A key that the load does not use. It is charged, because some faults affect writes only.
    let demand = DemandBuf::new(&rule, "observer", 1).expect("the key is valid");
    let error = store
        .spend(&[demand.as_demand()], Intent::Spend, PermitId::NONE)
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
