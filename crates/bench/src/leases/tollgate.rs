//! Tollgate called through the limiter, as an application does: with the embedded store, and with a
//! server at each consistency.

use std::io;

use tokio::runtime::Runtime;
use tollgate::{Error, Limit, Limiter, MemoryStore};
use tollgate_redis::{RedisBuilder, RedisStore};

use super::case::LIMIT;
use super::threads::{Subject, SubjectDecision};
use crate::harness::callers;
use crate::harness::server::connect;

/// A limiter with the runtime of its store. With `ALWAYS_WAITS` every decision waits for the store,
/// as strict limits need: `try_now` would charge the store without getting a decision.
/// Otherwise decisions are made without a store call if possible.
pub(super) struct TollgateSubject<const ALWAYS_WAITS: bool> {
    pub(super) limiter: Limiter,
    store: Option<RedisStore>,
    // Dropped after the store, whose tasks it runs.
    pub(super) runtime: Runtime,
}

impl<const ALWAYS_WAITS: bool> TollgateSubject<ALWAYS_WAITS> {
    /// Has the embedded store. Its runtime is never used; it exists so that all subjects are called
    /// in the same way.
    pub(super) fn in_memory(limit: Limit) -> io::Result<Self> {
        Ok(Self {
            limiter: Limiter::new(MemoryStore::new(), [limit]).map_err(io::Error::other)?,
            store: None,
            runtime: callers::Runtime::TwoWorkers.build()?,
        })
    }

    /// Connects with a unique prefix, so that counters are shared only where they should be.
    pub(super) fn connect(
        url: &str,
        prefix: &str,
        limit: Limit,
        replicas: u32,
    ) -> io::Result<Self> {
        let runtime = callers::Runtime::TwoWorkers.build()?;
        let (limiter, store) = runtime.block_on(async {
            let store = connect(RedisBuilder::standalone(url).prefix(prefix)).await?;
            let limiter = Limiter::builder()
                .store(store.clone())
                .limit(limit)
                .expected_replicas(replicas)
                .build();
            Ok::<_, io::Error>((limiter.map_err(io::Error::other)?, store))
        })?;
        Ok(Self {
            limiter,
            store: Some(store),
            runtime,
        })
    }

    pub(super) fn script_calls(&self) -> u64 {
        self.store
            .as_ref()
            .map_or(0, |store| store.stats().script_calls)
    }

    #[cold]
    fn wait(&self, key: &str) -> io::Result<SubjectDecision> {
        let decision = self
            .runtime
            .block_on(async { self.limiter.check(LIMIT, key).await })
            .map_err(io::Error::other)?;
        Ok(SubjectDecision {
            is_allowed: decision.is_allowed(),
            is_local: false,
        })
    }
}

impl<const ALWAYS_WAITS: bool> Subject for TollgateSubject<ALWAYS_WAITS> {
    #[inline]
    fn ask(&self, key: &str) -> io::Result<SubjectDecision> {
        if ALWAYS_WAITS {
            return self.wait(key);
        }
        match self.limiter.check(LIMIT, key).try_now() {
            Ok(decision) => Ok(SubjectDecision {
                is_allowed: decision.is_allowed(),
                is_local: true,
            }),
            Err(Error::WouldBlock) => self.wait(key),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn calls(&self) -> u64 {
        self.script_calls()
    }

    fn rest(&self) -> io::Result<()> {
        if self.store.is_none() {
            return Ok(());
        }
        self.runtime
            .block_on(self.limiter.return_leases())
            .map_err(io::Error::other)
    }
}
