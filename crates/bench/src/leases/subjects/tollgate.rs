//! Tollgate through the limiter, as a program would: on memory, and on a server in each
//! consistency.

use std::io;
use std::time::Duration;

use tokio::runtime::{Handle, Runtime};
use tollgate::{Consistency, Error, Limit, Limiter, MemoryStore};
use tollgate_redis::{RedisBuilder, RedisStore};

use super::super::case::LIMIT;
use super::super::entrant::{Subject, Told};
use super::{EVENTUAL, LEASED, MEMORY, STRICT};

/// Long enough for any decision on a machine that does too much else; see the notes.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How long the store may take to connect.
const PATIENCE: Duration = Duration::from_secs(5);

/// A limiter on a server, with the runtime on which its store works.
pub(in super::super) struct Shared {
    pub(in super::super) limiter: Limiter,
    pub(in super::super) store: RedisStore,
    // After the store, whose tasks it ends.
    pub(in super::super) runtime: Runtime,
}

impl Shared {
    /// Connects under a prefix of its own, so that it shares counters with nobody it should not.
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
                return Err(io::Error::other("the store does not connect"));
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

/// The answer if it is there at once, else the answer of the store.
#[inline]
fn ask(limiter: &Limiter, runtime: &Handle, key: &str) -> io::Result<Told> {
    match limiter.check(LIMIT, key).now_or_never() {
        Ok(decision) => Ok(Told {
            is_allowed: decision.is_allowed(),
            is_local: true,
        }),
        Err(Error::WouldBlock) => wait(limiter, runtime, key),
        Err(error) => Err(io::Error::other(error)),
    }
}

#[cold]
fn wait(limiter: &Limiter, runtime: &Handle, key: &str) -> io::Result<Told> {
    let decision = runtime
        .block_on(async { limiter.check(LIMIT, key).await })
        .map_err(io::Error::other)?;
    Ok(Told {
        is_allowed: decision.is_allowed(),
        is_local: false,
    })
}

/// The embedded store.
pub(in super::super) struct Memory {
    limiter: Limiter,
    /// Never asked for anything; there so that both are asked in the same way.
    runtime: Runtime,
}

impl Memory {
    pub(in super::super) fn new(limit: Limit) -> io::Result<Self> {
        Ok(Self {
            limiter: Limiter::new(MemoryStore::new(), [limit]),
            runtime: super::runtime()?,
        })
    }
}

impl Subject for Memory {
    const NAME: &'static str = MEMORY;

    #[inline]
    fn ask(&self, key: &str) -> io::Result<Told> {
        ask(&self.limiter, self.runtime.handle(), key)
    }

    fn calls(&self) -> u64 {
        0
    }

    fn rest(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A limit that is asked first for what is held here: of which consistency, says the flag.
pub(in super::super) struct Held<const IS_EVENTUAL: bool>(Shared);
/// It is spent from what was taken in advance, ...
pub(in super::super) type Leased = Held<false>;
/// ... or told afterwards.
pub(in super::super) type Eventual = Held<true>;

impl<const IS_EVENTUAL: bool> Held<IS_EVENTUAL> {
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
        Shared::connect(url, prefix, limit.consistency(consistency), replicas).map(Self)
    }
}

impl Shared {
    #[inline]
    fn ask_first_here(&self, key: &str) -> io::Result<Told> {
        ask(&self.limiter, self.runtime.handle(), key)
    }
}

/// By itself, in whatever consistency its limit has, it always waits: a strict limit that is only
/// asked for what is there at once has been charged all the same.
impl Subject for Shared {
    const NAME: &'static str = STRICT;

    fn ask(&self, key: &str) -> io::Result<Told> {
        wait(&self.limiter, self.runtime.handle(), key)
    }

    fn calls(&self) -> u64 {
        self.store.stats().calls
    }

    fn rest(&self) -> io::Result<()> {
        self.runtime
            .block_on(self.limiter.return_leases())
            .map_err(io::Error::other)
    }
}

impl<const IS_EVENTUAL: bool> Subject for Held<IS_EVENTUAL> {
    const NAME: &'static str = if IS_EVENTUAL { EVENTUAL } else { LEASED };

    #[inline]
    fn ask(&self, key: &str) -> io::Result<Told> {
        self.0.ask_first_here(key)
    }

    fn calls(&self) -> u64 {
        self.0.calls()
    }

    fn rest(&self) -> io::Result<()> {
        self.0.rest()
    }
}
