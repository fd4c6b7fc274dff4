//! The store: requests to lanes, answers to outcomes.

mod across;
mod attempt;
mod leased;
mod travel;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};
use tollgate::lease::LeaseTable;
use tollgate::store::{DEMANDS_MAX, Intent, SpendReply, StoreFuture};
use tollgate::{Demand, Key, Outcome, PermitId, Quota, Source, Store, StoreError};

use self::attempt::{Attempt, joined};
use crate::builder::RedisBuilder;
use crate::endpoint::RedisConfigError;
use crate::failure::{Cause, Failure};
use crate::topology::{Topology, slot_of};
use crate::wire::{Answered, Asked, Keys, Request, Verb};

/// Counters on Redis or Valkey. Clones share everything; the last one to go ends the connections.
#[derive(Clone, Debug)]
pub struct RedisStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    topology: Topology,
    keys: Keys,
    timeout: Duration,
    max_retries: u32,
    runtime: Handle,
    /// What this process holds of leased limits.
    leases: LeaseTable,
    /// Somebody looks after it.
    is_swept: AtomicBool,
}

/// How much a store has done, on the servers it has now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Script calls sent.
    pub calls: u64,
    /// Requests in them: the more to a call, the less each costs.
    pub requests: u64,
    /// Connections made.
    pub connections: u64,
    /// Servers that can be asked now.
    pub up: usize,
    /// Servers there are.
    pub servers: usize,
    /// Counters of leased and eventual limits of which this process holds or knows something.
    pub leased_keys: usize,
    /// Units that it holds of them: taken and not spent, or spent and not told.
    pub leased_units: u64,
}

impl RedisStore {
    /// A standalone server, as in `redis://127.0.0.1:6379`; for anything else see [`RedisBuilder`].
    /// Must be called inside a Tokio runtime.
    pub fn connect(url: impl AsRef<str>) -> Result<Self, RedisConfigError> {
        RedisBuilder::standalone(url).build()
    }

    pub(crate) fn new(
        topology: Topology,
        keys: Keys,
        timeout: Duration,
        max_retries: u32,
        leases: LeaseTable,
    ) -> Self {
        let (runtime, is_swept) = (Handle::current(), AtomicBool::new(false));
        Self {
            inner: Arc::new(Inner {
                topology,
                keys,
                timeout,
                max_retries,
                runtime,
                leases,
                is_swept,
            }),
        }
    }

    /// Waits until every server can be asked, for so long at most; says whether they can. Nobody
    /// has to: until then the limits' failure policies answer. To be awaited inside the runtime.
    pub async fn ready(&self, patience: Duration) -> bool {
        let up = async {
            match &self.inner.topology {
                Topology::Single(lane) => lane.shared().up().await,
                Topology::Cluster(cluster) => {
                    while !cluster.is_whole() {
                        sleep(Duration::from_millis(5)).await;
                    }
                }
            }
        };
        timeout(patience, up).await.is_ok()
    }

    /// How much has been done.
    pub fn stats(&self) -> Stats {
        let leases = &self.inner.leases;
        let mut stats = Stats {
            leased_keys: leases.keys(),
            leased_units: leases.units(),
            ..Stats::default()
        };
        for lane in self.inner.topology.lanes() {
            let counts = &lane.shared().counts;
            stats.calls += counts.calls.load(Relaxed);
            stats.requests += counts.requests.load(Relaxed);
            stats.connections += counts.connections.load(Relaxed);
            stats.up += usize::from(lane.is_up());
            stats.servers += 1;
        }
        stats
    }

    fn attempt(&self, request: Request) -> Attempt {
        Attempt::start(
            self.inner.clone(),
            request,
            Instant::now() + self.inner.timeout,
        )
    }

    /// Does something for its effect: it goes on when nobody waits for it, and the store with it.
    fn effect(
        &self,
        request: Request,
    ) -> impl Future<Output = Result<Answered, Failure>> + Send + 'static {
        let task = self.inner.runtime.spawn(self.attempt(request).run());
        async move { joined(task.await) }
    }

    fn change_lease<'a>(
        &'a self,
        verb: Verb,
        check: &Demand<'_>,
        lease: PermitId,
    ) -> StoreFuture<'a, bool> {
        if !matches!(check.quota, Quota::Concurrency(_)) {
            return StoreFuture::ready(Ok(false));
        }
        let done = self.effect(
            self.inner
                .keys
                .request(verb, std::slice::from_ref(check), lease),
        );
        pending(async move { Ok(done.await?.passed) })
    }
}

impl RedisStore {
    /// Puts the checks to the store, whatever is held of them here.
    fn ask<'a>(
        &'a self,
        checks: &[Demand<'_>],
        intent: Intent,
        lease: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        let verb = if intent == Intent::Spend {
            Verb::Spend
        } else {
            Verb::Peek
        };
        let request = self.inner.keys.request(verb, checks, lease);
        if self.inner.topology.is_cluster() && checks.len() > 1 {
            let slots: SmallVec<[u16; 4]> = request.keys.iter().map(|key| slot_of(key)).collect();
            if slots.iter().any(|slot| *slot != request.slot) {
                return pending(across::spend(self.clone(), checks, &slots, intent, lease));
            }
        }
        let asked: SmallVec<[Asked; 1]> = checks.iter().map(Asked::new).collect();
        match self.attempt(request).fail_fast() {
            Err(failure) => StoreFuture::ready(Err(failure.into())),
            Ok(attempt) => {
                pending(async move { Ok(spent(&attempt.run().await?, &asked, intent)?) })
            }
        }
    }

    /// Gives back at the store.
    fn give_back<'a>(&'a self, checks: &[Demand<'_>]) -> StoreFuture<'a, ()> {
        let is_cluster = self.inner.topology.is_cluster();
        let request = |checks: &[Demand<'_>]| {
            self.inner
                .keys
                .request(Verb::Refund, checks, PermitId::NONE)
        };
        let groups: Vec<_> = if is_cluster {
            checks
                .iter()
                .map(|check| self.effect(request(std::slice::from_ref(check))))
                .collect()
        } else {
            vec![self.effect(request(checks))]
        };
        pending(async move {
            for group in groups {
                group.await?;
            }
            Ok(())
        })
    }
}

impl Store for RedisStore {
    fn spend<'a>(
        &'a self,
        checks: &[Demand<'_>],
        intent: Intent,
        lease: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        if !(1..=DEMANDS_MAX).contains(&checks.len()) {
            let cause = Cause::new(format!(
                "{} checks; there must be from 1 to {DEMANDS_MAX}",
                checks.len()
            ));
            return StoreFuture::ready(Err(Failure::Refused(cause).into()));
        }
        if !checks.iter().any(leased::is_leased) {
            return self.ask(checks, intent, lease);
        }
        match checks {
            _ if intent == Intent::Peek => self.look(checks, lease),
            [check] if check.cost == 0 => self.look(checks, lease),
            [check] => self.spend_leased(check),
            _ => self.spend_jointly(checks, lease),
        }
    }

    #[inline]
    fn try_spend(
        &self,
        check: &Demand<'_>,
        intent: Intent,
        _: PermitId,
    ) -> Option<(Outcome, Source)> {
        if !leased::is_leased(check) || intent == Intent::Peek || check.cost == 0 {
            return None;
        }
        let (outcome, source, trip) = self.inner.leases.try_spend(check)?;
        if let Some(trip) = trip {
            self.send(*trip);
        }
        Some((outcome, source))
    }

    fn refund<'a>(&'a self, checks: &[Demand<'_>]) -> StoreFuture<'a, ()> {
        let is_elsewhere =
            |check: &&Demand<'_>| !leased::is_leased(check) || !self.inner.leases.refund(check);
        let elsewhere: SmallVec<[Demand<'_>; 4]> =
            checks.iter().filter(is_elsewhere).copied().collect();
        if elsewhere.is_empty() {
            StoreFuture::ready(Ok(()))
        } else {
            self.give_back(&elsewhere)
        }
    }

    fn reset<'a>(&'a self, key: &Key<'_>) -> StoreFuture<'a, ()> {
        self.inner.leases.forget(key);
        let done = self.effect(self.inner.keys.reset(key));
        pending(async move { Ok(done.await.map(drop)?) })
    }

    fn release<'a>(&'a self, check: &Demand<'_>, lease: PermitId) -> StoreFuture<'a, bool> {
        self.change_lease(Verb::Release, check, lease)
    }

    fn renew<'a>(&'a self, check: &Demand<'_>, lease: PermitId) -> StoreFuture<'a, bool> {
        self.change_lease(Verb::Renew, check, lease)
    }

    fn return_leases(&self) -> StoreFuture<'_, ()> {
        self.return_all()
    }
}

fn pending<'a, T>(
    future: impl Future<Output = Result<T, StoreError>> + Send + 'a,
) -> StoreFuture<'a, T> {
    StoreFuture::Pending(Box::pin(future))
}

fn spent(answered: &Answered, asked: &[Asked], intent: Intent) -> Result<SpendReply, Failure> {
    let disagree = || Cause::new("a counter was written by something else, or by another version");
    answered
        .spent(asked, intent)
        .ok_or_else(|| Failure::Refused(disagree()))
}
