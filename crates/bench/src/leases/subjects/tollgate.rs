//! Tollgate called through the limiter, as an application does: with the embedded store, and with a
//! server at each consistency.

use std::io;
use std::time::Duration;

use tokio::runtime::{Handle, Runtime};
use tollgate::{Consistency, Error, Limit, Limiter, MemoryStore};
use tollgate_redis::{RedisBuilder, RedisStore};

use super::super::case::LIMIT;
use super::super::entrant::{Subject, SubjectDecision};
use super::{EVENTUAL, LEASED, MEMORY, STRICT};

/// Long enough for any decision on a busy machine; see the notes.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How long the store may take to connect.
const PATIENCE: Duration = Duration::from_secs(5);

/// A limiter on a server, with the runtime of its store.
pub(in super::super) struct SharedLimiter {
    pub(in super::super) limiter: Limiter,
    pub(in super::super) store: RedisStore,
    // Dropped after the store, whose tasks it runs.
    pub(in super::super) runtime: Runtime,
}

impl SharedLimiter {
    /// Connects with a unique prefix, so that counters are shared only where they should be.
    pub(in super::super) fn connect(
        url: &str,
        prefix: &str,
        limit: Limit,
        replicas: u32,
    ) -> io::Result<Self> {
        let runtime = super::runtime()?;
        let (limiter, store) = runtime.block_on(async {
            let store = RedisBuilder::standalone(url)
                .prefix(prefix)
                .timeout(TIMEOUT)
                .build();
            let store = store.map_err(io::Error::other)?;
            if !store.ready(PATIENCE).await {
                return Err(io::Error::other("the store did not connect"));
            }
            let limiter = Limiter::builder()
                .store(store.clone())
                .limit(limit)
                .expected_replicas(replicas)
                .build();
            Ok((limiter.map_err(io::Error::other)?, store))
        })?;
        Ok(Self {
            limiter,
            store,
            runtime,
        })
    }
}

/// Decides without a store call if possible, otherwise waits for the store.
#[inline]
fn ask(limiter: &Limiter, runtime: &Handle, key: &str) -> io::Result<SubjectDecision> {
    match limiter.check(LIMIT, key).try_now() {
        Ok(decision) => Ok(SubjectDecision {
            is_allowed: decision.is_allowed(),
            is_local: true,
        }),
        Err(Error::WouldBlock) => wait(limiter, runtime, key),
        Err(error) => Err(io::Error::other(error)),
    }
}

#[cold]
fn wait(limiter: &Limiter, runtime: &Handle, key: &str) -> io::Result<SubjectDecision> {
    let decision = runtime
        .block_on(async { limiter.check(LIMIT, key).await })
        .map_err(io::Error::other)?;
    Ok(SubjectDecision {
        is_allowed: decision.is_allowed(),
        is_local: false,
    })
}

/// The embedded store.
pub(in super::super) struct Memory {
    limiter: Limiter,
    /// Never used; it exists so that all subjects are called in the same way.
    runtime: Runtime,
}

impl Memory {
    pub(in super::super) fn new(limit: Limit) -> io::Result<Self> {
        Ok(Self {
            limiter: Limiter::new(MemoryStore::new(), [limit]).expect("valid limits"),
            runtime: super::runtime()?,
        })
    }
}

impl Subject for Memory {
    const NAME: &'static str = MEMORY;

    #[inline]
    fn ask(&self, key: &str) -> io::Result<SubjectDecision> {
        ask(&self.limiter, self.runtime.handle(), key)
    }

    fn calls(&self) -> u64 {
        0
    }

    fn rest(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A limit that is decided from local units first: a leased or an eventual one.
pub(in super::super) struct LocalFirst<const IS_EVENTUAL: bool>(SharedLimiter);
/// Spends units that were leased in advance.
pub(in super::super) type Leased = LocalFirst<false>;
/// Spends first and reports to the store afterwards.
pub(in super::super) type Eventual = LocalFirst<true>;

impl<const IS_EVENTUAL: bool> LocalFirst<IS_EVENTUAL> {
    pub(in super::super) fn connect(
        url: &str,
        prefix: &str,
        limit: Limit,
        replicas: u32,
    ) -> io::Result<Self> {
        let consistency = if IS_EVENTUAL {
            Consistency::Eventual
        } else {
            Consistency::Leased
        };
        SharedLimiter::connect(url, prefix, limit.consistency(consistency), replicas).map(Self)
    }
}

impl SharedLimiter {
    #[inline]
    fn check_locally_first(&self, key: &str) -> io::Result<SubjectDecision> {
        ask(&self.limiter, self.runtime.handle(), key)
    }
}

/// Always waits for the store, at any consistency: with a strict limit, `now_or_never` would charge
/// the store without getting a decision.
impl Subject for SharedLimiter {
    const NAME: &'static str = STRICT;

    fn ask(&self, key: &str) -> io::Result<SubjectDecision> {
        wait(&self.limiter, self.runtime.handle(), key)
    }

    fn calls(&self) -> u64 {
        self.store.stats().script_calls
    }

    fn rest(&self) -> io::Result<()> {
        self.runtime
            .block_on(self.limiter.return_leases())
            .map_err(io::Error::other)
    }
}

impl<const IS_EVENTUAL: bool> Subject for LocalFirst<IS_EVENTUAL> {
    const NAME: &'static str = if IS_EVENTUAL { EVENTUAL } else { LEASED };

    #[inline]
    fn ask(&self, key: &str) -> io::Result<SubjectDecision> {
        self.0.check_locally_first(key)
    }

    fn calls(&self) -> u64 {
        self.0.calls()
    }

    fn rest(&self) -> io::Result<()> {
        self.0.rest()
    }
}
