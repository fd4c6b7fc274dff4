//! The subjects that may decide without the store, and the threads that make one decision after the
//! other with them: Tollgate called through the limiter, as an application does, and the trypema
//! crate's hybrid provider, which counts locally and reports to a server every few milliseconds.

use std::sync::Arc;
use std::time::Instant;

use tollgate::{Consistency, Error, Limit, Limiter, MemoryStore};
use tollgate_redis::{RedisBuilder, RedisStore};
use trypema::hybrid::HybridRateLimiterProvider;
use trypema::redis::{RedisKey, RedisKeyRef};
use trypema::{RateLimit, RateLimitDecision, RateLimiterBuilder as _, WindowSize};

use super::{Case, KEY, LIMIT, STRICT};
use crate::harness::prelude::*;

/// The number of decisions between two readings of the clock.
const STRIDE: u64 = 256;

/// A rate limiter that may decide without a store call.
pub(super) trait Subject: Send + Sync {
    /// Checks one request of this key, from any thread; `None` if that needs the store.
    fn try_ask(&self, key: &str) -> Result<Option<bool>>;

    /// Checks the same request with the store, and waits for it.
    fn wait(&self, key: &str) -> Result<bool>;

    /// The number of store calls so far.
    fn calls(&self) -> u64;

    /// Returns all leased units, so that the subject does nothing while others are measured.
    fn rest(&self) -> Result<()> {
        Ok(())
    }

    /// Checks one request of this key, and waits for the store if it must.
    fn ask(&self, key: &str) -> Result<bool> {
        Ok(match self.try_ask(key)? {
            Some(is_allowed) => is_allowed,
            None => self.wait(key)?,
        })
    }

    /// Checks requests of this key until then. The loop is compiled for each subject, so that a
    /// subject pays for nothing but itself.
    fn ask_until(&self, key: &str, until: Instant) -> Result<DecisionTotals> {
        let mut totals = DecisionTotals::default();
        while now() < until {
            totals.asked += STRIDE;
            for _ in 0..STRIDE {
                let known = self.try_ask(key)?;
                totals.local += u64::from(known.is_some());
                let is_allowed = match known {
                    Some(is_allowed) => is_allowed,
                    None => self.wait(key)?,
                };
                totals.allowed += u64::from(is_allowed);
            }
        }
        Ok(totals)
    }
}

/// Totals of the decisions.
#[derive(Debug, Default)]
pub(super) struct DecisionTotals {
    asked: u64,
    allowed: u64,
    /// Made without waiting for the store.
    local: u64,
}

/// Threads with a subject that has been called before and, in the denied case, has used up its
/// budget.
pub(super) fn entrant(
    name: &str,
    subject: Box<dyn Subject>,
    case: Case,
    threads: usize,
) -> Result<Entrant<'static>> {
    while subject.ask(KEY)? && case == Case::Denied {}
    subject.rest()?;
    let load = counted(threads, "thread");
    Ok(Entrant::new(name, load, move |length| {
        round(&*subject, case, threads, length)
    }))
}

fn round(subject: &dyn Subject, case: Case, threads: usize, length: Duration) -> Result<Figures> {
    let calls_before = subject.calls();
    let (results, span) = together(threads, |_| {
        // Applications have their keys as strings.
        let key = KEY.to_owned();
        subject.ask_until(&key, now() + length)
    });
    let calls = subject.calls() - calls_before;
    subject.rest()?;

    let mut sum = DecisionTotals::default();
    for totals in results {
        let totals = totals?;
        sum.asked += totals.asked;
        sum.allowed += totals.allowed;
        sum.local += totals.local;
    }
    let (asked, allowed) = (sum.asked, sum.allowed);
    let is_correct = case.is_correct(allowed, asked);
    ensure!(
        is_correct,
        "{}: {allowed} of {asked} were allowed",
        case.name()
    );
    let ns = span.ns() / float(asked);
    Ok(Figures::from([
        (NS, ns),
        (RATE, float(threads as u64) * 1e9 / ns),
        // The share of decisions that did not wait for the store.
        ("local", float(sum.local) / float(asked)),
        (CALLS, float(calls) / float(asked)),
        // The share of the time that threads waited for a core. It is subtracted from the times, but
        // caches get cold meanwhile.
        ("waited", span.waited_share()),
    ]))
}

/// A limiter with the runtime of its store. Decisions are made without a store call if possible.
pub(super) struct TollgateSubject {
    limiter: Limiter,
    store: Option<RedisStore>,
    // Dropped after the store, whose tasks it runs.
    runtime: tokio::runtime::Runtime,
}

impl TollgateSubject {
    /// Has the embedded store. Its runtime is never used; it exists so that all subjects are called
    /// in the same way.
    pub(super) fn in_memory(limit: Limit) -> Result<Self> {
        Ok(Self {
            limiter: Limiter::new(MemoryStore::new(), [limit])?,
            store: None,
            runtime: Runtime::TwoWorkers.build()?,
        })
    }

    /// Connects with a unique prefix, so that counters are shared only where they should be.
    pub(super) fn connect(url: &str, prefix: &str, limit: Limit, replicas: u32) -> Result<Self> {
        let runtime = Runtime::TwoWorkers.build()?;
        let (limiter, store) = runtime.block_on(limiter(url, prefix, limit, replicas))?;
        Ok(Self {
            limiter,
            store: Some(store),
            runtime,
        })
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
    let builder = Limiter::builder().store(store.clone()).limit(limit);
    Ok((builder.expected_replicas(replicas).build()?, store))
}

impl Subject for TollgateSubject {
    #[inline]
    fn try_ask(&self, key: &str) -> Result<Option<bool>> {
        match self.limiter.check(LIMIT, key).try_now() {
            Err(Error::WouldBlock) => Ok(None),
            decision => Ok(Some(decision?.is_allowed())),
        }
    }

    #[cold]
    fn wait(&self, key: &str) -> Result<bool> {
        let check = async { self.limiter.check(LIMIT, key).await };
        Ok(self.runtime.block_on(check)?.is_allowed())
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
    in_process(STRICT, 1, Runtime::TwoWorkers, connect)
}

pub(super) struct Hybrid {
    provider: Arc<HybridRateLimiterProvider>,
    rate: RateLimit,
    server: Arc<Server>,
    // Dropped after the provider that runs on it.
    runtime: tokio::runtime::Runtime,
}

impl Hybrid {
    /// Connects with a limit of `limit` requests per hour. Its limits are rates over a sliding window.
    pub(super) fn connect(server: &Arc<Server>, prefix: &str, limit: u32) -> Result<Self> {
        let runtime = Runtime::TwoWorkers.build()?;
        let provider = runtime.block_on(async {
            let client = redis_rs::Client::open(server.url())?;
            let connection = client.get_connection_manager().await?;
            let builder = HybridRateLimiterProvider::builder(connection)
                .prefix(RedisKey::try_from(prefix.to_owned())?)
                .window_size(WindowSize::hours(1)?);
            anyhow::Ok(builder.build()?)
        })?;
        Ok(Self {
            provider,
            rate: RateLimit::per_hour(limit.into())?,
            server: server.clone(),
            runtime,
        })
    }
}

impl Subject for Hybrid {
    #[inline]
    fn try_ask(&self, key: &str) -> Result<Option<bool>> {
        let known = self
            .provider
            .absolute()
            .try_inc(RedisKeyRef::try_from(key)?, 1)?;
        Ok(known.map(|decision| matches!(decision, RateLimitDecision::Allowed)))
    }

    /// Does what its documentation says for a decision that is not known locally.
    #[cold]
    fn wait(&self, key: &str) -> Result<bool> {
        let key = RedisKey::try_from(key.to_owned())?;
        let inc = self.provider.absolute().inc(&key, &self.rate, 1);
        let decision = self.runtime.block_on(inc)?;
        Ok(matches!(decision, RateLimitDecision::Allowed))
    }

    /// All script calls of the server: there is no other client meanwhile.
    fn calls(&self) -> u64 {
        scripts_run(&self.server)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    /// Allows three checks; decides every other one locally and makes a store call for the rest.
    struct CountingSubject(AtomicU64);

    impl Subject for &CountingSubject {
        fn try_ask(&self, _: &str) -> Result<Option<bool>> {
            let asked = self.0.fetch_add(1, Relaxed);
            Ok(asked.is_multiple_of(2).then_some(asked < 3))
        }

        fn wait(&self, _: &str) -> Result<bool> {
            Ok(self.0.load(Relaxed) <= 3)
        }

        fn calls(&self) -> u64 {
            self.0.load(Relaxed) / 2
        }
    }

    #[test]
    fn every_decision_is_counted() {
        for threads in [1, 2] {
            let subject = CountingSubject(AtomicU64::new(4));
            let length = Duration::from_millis(2);
            let round = round(&&subject, Case::Denied, threads, length).unwrap();
            let is_half = |figure| (round[figure] - 0.5).abs() < 1e-9;
            assert!(is_half("local") && is_half(CALLS), "{round:?}");
            let speed = round[RATE] * round[NS] / 1e9;
            assert!((speed - float(threads as u64)).abs() < 1e-6, "{round:?}");
        }
    }

    #[test]
    fn a_denied_subject_is_called_until_it_denies() {
        static SUBJECT: CountingSubject = CountingSubject(AtomicU64::new(0));
        entrant("counting", Box::new(&SUBJECT), Case::Denied, 1).unwrap();
        assert_eq!(SUBJECT.0.load(Relaxed), 4);
    }

    #[test]
    fn wrong_decisions_are_an_error() {
        let subject = CountingSubject(AtomicU64::new(1));
        let error = round(&&subject, Case::Hot, 1, Duration::from_millis(1)).unwrap_err();
        assert!(error.to_string().starts_with("hot: 2 of "), "{error}");
    }
}
