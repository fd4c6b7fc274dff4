//! Tollgate called through the limiter, as an application does: with the embedded store, and with a
//! server at each consistency.

use anyhow::Result;
use tokio::runtime::Runtime;
use tollgate::{Consistency, Error, Limit, Limiter, MemoryStore};
use tollgate_redis::{RedisBuilder, RedisStore};

use super::STRICT;
use super::case::{Case, KEY, LIMIT};
use super::threads::{Subject, SubjectDecision};
use crate::harness::{
    Caller as _, ConnectedCallers, Entrant, LimiterCaller, callers, connect, in_process,
};

/// A limiter with the runtime of its store. Decisions are made without a store call if possible.
pub(super) struct TollgateSubject {
    limiter: Limiter,
    store: Option<RedisStore>,
    // Dropped after the store, whose tasks it runs.
    runtime: Runtime,
}

impl TollgateSubject {
    /// Has the embedded store. Its runtime is never used; it exists so that all subjects are called
    /// in the same way.
    pub(super) fn in_memory(limit: Limit) -> Result<Self> {
        Ok(Self {
            limiter: Limiter::new(MemoryStore::new(), [limit])?,
            store: None,
            runtime: callers::Runtime::TwoWorkers.build()?,
        })
    }

    /// Connects with a unique prefix, so that counters are shared only where they should be.
    pub(super) fn connect(url: &str, prefix: &str, limit: Limit, replicas: u32) -> Result<Self> {
        let runtime = callers::Runtime::TwoWorkers.build()?;
        let (limiter, store) = runtime.block_on(limiter(url, prefix, limit, replicas))?;
        Ok(Self {
            limiter,
            store: Some(store),
            runtime,
        })
    }

    #[cold]
    fn wait(&self, key: &str) -> Result<SubjectDecision> {
        let check = async { self.limiter.check(LIMIT, key).await };
        let decision = self.runtime.block_on(check)?;
        Ok(SubjectDecision::waited(decision.is_allowed()))
    }
}

/// A limiter on a connected store.
async fn limiter(
    url: &str,
    prefix: &str,
    limit: Limit,
    replicas: u32,
) -> Result<(Limiter, RedisStore)> {
    let store = connect(RedisBuilder::standalone(url).prefix(prefix)).await?;
    let limiter = Limiter::builder()
        .store(store.clone())
        .limit(limit)
        .expected_replicas(replicas)
        .build()?;
    Ok((limiter, store))
}

impl Subject for TollgateSubject {
    #[inline]
    fn ask(&self, key: &str) -> Result<SubjectDecision> {
        match self.limiter.check(LIMIT, key).try_now() {
            Ok(decision) => Ok(SubjectDecision::local(decision.is_allowed())),
            Err(Error::WouldBlock) => self.wait(key),
            Err(error) => Err(error.into()),
        }
    }

    fn calls(&self) -> u64 {
        let store = self.store.as_ref();
        store.map_or(0, |store| store.stats().script_calls)
    }

    fn rest(&self) -> Result<()> {
        if self.store.is_none() {
            return Ok(());
        }
        Ok(self.runtime.block_on(self.limiter.return_leases())?)
    }
}

/// Tasks that share one store and its round trips.
pub(super) fn strict_entrant(
    url: &str,
    prefix: &str,
    case: Case,
    callers: usize,
) -> Result<Entrant<'static>> {
    let connect = async {
        let limit = case.limit().consistency(Consistency::Strict);
        let (limiter, store) = limiter(url, prefix, limit, 1).await?;
        let mut caller = LimiterCaller {
            limiter,
            limits: &[LIMIT],
            keys: [KEY.to_owned()].into(),
            is_allowed: true,
        };
        if case == Case::Denied {
            while caller.ask(0).await.is_ok() {}
            caller.is_allowed = false;
        }
        Ok(ConnectedCallers {
            callers: vec![caller; callers],
            calls: Some(Box::new(move || store.stats().script_calls)),
        })
    };
    in_process(STRICT, 1, callers::Runtime::TwoWorkers, connect)
}
