//! The store: sends calls to the links, and turns replies into outcomes.

mod cross_slot;
mod lease_calls;
mod leased;
mod routed_call;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tollgate::lease::LeaseTable;
use tollgate::store::{DEMANDS_MAX, Intent, SpendReply, StoreFuture};
use tollgate::{Demand, Key, Outcome, PermitId, Quota, Source, Store, StoreError};

use self::routed_call::{RoutedCall, join};
use crate::builder::RedisBuilder;
use crate::endpoint::RedisConfigError;
use crate::error::{CallError, ServerError};
use crate::link::CallResult;
use crate::topology::{ServerTopology, hash_slot};
use crate::wire::{CallEncoder, DemandTerms, Operation, ScriptReply, StoreCall};

/// A store that keeps counters on Redis or Valkey.
///
/// Clones share the connections and leases. The connections are closed when the last clone is
/// dropped.
#[derive(Clone, Debug)]
pub struct RedisStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    topology: ServerTopology,
    encoder: CallEncoder,
    /// How long a decision may wait for the store.
    timeout: Duration,
    max_retries: u32,
    runtime: Handle,
    /// The leases of this instance.
    leases: LeaseTable,
    /// True while a task sweeps the lease table.
    has_sweeper: AtomicBool,
}

/// Counters and gauges of a store.
///
/// In a cluster, the counters are those of the current servers: what was sent to a server that has
/// left the cluster is no longer included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Script calls sent. One script call carries a batch of store calls.
    pub script_calls: u64,
    /// Store calls sent. The more of them a script call carries, the less each of them costs.
    pub store_calls: u64,
    /// Connections established.
    pub connections: u64,
    /// Servers that are available now.
    pub up: usize,
    /// Servers known now.
    pub servers: usize,
    /// Counters of leased and eventual limits of which this instance has a lease or other state.
    pub leased_keys: usize,
    /// Units of those counters that are leased and not spent yet, or spent and not reported to the
    /// store yet.
    pub leased_units: u64,
}

impl RedisStore {
    /// Connects to a standalone server by its URL, such as `redis://127.0.0.1:6379`. For other
    /// topologies and settings see [`RedisBuilder`].
    ///
    /// It must be called inside a Tokio runtime, and succeeds even if the server is not available;
    /// see [`ready`](Self::ready).
    pub fn connect(url: impl AsRef<str>) -> Result<Self, RedisConfigError> {
        RedisBuilder::standalone(url).build()
    }

    pub(crate) fn new(
        topology: ServerTopology,
        encoder: CallEncoder,
        timeout: Duration,
        max_retries: u32,
        leases: LeaseTable,
    ) -> Self {
        let inner = Inner {
            topology,
            encoder,
            timeout,
            max_retries,
            runtime: Handle::current(),
            leases,
            has_sweeper: AtomicBool::new(false),
        };

        Self {
            inner: Arc::new(inner),
        }
    }

    /// Waits until all servers are available, at most for `patience`. Returns whether they are.
    ///
    /// Waiting is optional: until then, the limits' failure policies decide. The future must be
    /// awaited inside a Tokio runtime.
    pub async fn ready(&self, patience: Duration) -> bool {
        let up = async {
            match &self.inner.topology {
                ServerTopology::Single(link) => link.state().wait_until_up().await,

                ServerTopology::Cluster(cluster) => {
                    while !cluster.is_complete() {
                        sleep(Duration::from_millis(5)).await;
                    }
                }
            }
        };
        timeout(patience, up).await.is_ok()
    }

    /// The current counters and gauges.
    pub fn stats(&self) -> Stats {
        let leases = &self.inner.leases;
        let mut stats = Stats {
            leased_keys: leases.keys(),
            leased_units: leases.units(),
            ..Stats::default()
        };

        for link in self.inner.topology.links() {
            let counters = &link.state().counters;
            stats.script_calls += counters.script_calls.load(Relaxed);
            stats.store_calls += counters.store_calls.load(Relaxed);
            stats.connections += counters.connections.load(Relaxed);
            stats.up += usize::from(link.is_up());
            stats.servers += 1;
        }
        stats
    }

    fn route(&self, call: StoreCall) -> RoutedCall {
        RoutedCall::start(self.inner.clone(), call, self.deadline())
    }

    /// Makes a call in a task of its own, which completes even if its caller no longer waits. The
    /// task keeps the store alive.
    fn spawn_call(
        &self,
        call: StoreCall,
    ) -> impl Future<Output = CallResult> + Send + 'static + use<> {
        let task = self.inner.runtime.spawn(self.route(call).run());
        join(task)
    }

    /// Releases or renews a permit. False if the limit has no permits, or the permit has expired.
    fn change_permit<'a>(
        &'a self,
        operation: Operation,
        demand: &Demand<'_>,
        permit_id: PermitId,
    ) -> StoreFuture<'a, bool> {
        if !matches!(demand.quota, Quota::Concurrency(_)) {
            return StoreFuture::ready(Ok(false));
        }

        let demands = std::slice::from_ref(demand);
        let call = self.inner.encoder.call(operation, demands, permit_id);
        let reply = self.spawn_call(call);
        pending(async move { Ok(reply.await?.succeeded) })
    }
}

impl RedisStore {
    /// Spends or peeks at the store, regardless of leases.
    fn call_store<'a>(
        &'a self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        let operation = if intent == Intent::Spend {
            Operation::Spend
        } else {
            Operation::Peek
        };
        let call = self.inner.encoder.call(operation, demands, permit_id);

        if self.inner.topology.is_cluster() && demands.len() > 1 {
            let slots: SmallVec<[u16; 4]> = call.keys.iter().map(|key| hash_slot(key)).collect();
            if slots.iter().any(|slot| *slot != call.slot) {
                let store = self.clone();
                return pending(cross_slot::spend(store, demands, &slots, intent, permit_id));
            }
        }

        let terms: SmallVec<[DemandTerms; 1]> = demands.iter().map(DemandTerms::new).collect();
        match self.route(call).accepted() {
            Err(error) => StoreFuture::ready(Err(error.into())),
            Ok(routed_call) => {
                pending(async move { Ok(spend_reply(&routed_call.run().await?, &terms, intent)?) })
            }
        }
    }

    /// Refunds at the store, regardless of leases.
    fn refund_at_store<'a>(&'a self, demands: &[Demand<'_>]) -> StoreFuture<'a, ()> {
        let refund = |demands: &[Demand<'_>]| {
            let encoder = &self.inner.encoder;
            self.spawn_call(encoder.call(Operation::Refund, demands, PermitId::NONE))
        };

        // In a cluster the demands may be in different slots.
        let refunds: Vec<_> = if self.inner.topology.is_cluster() {
            demands
                .iter()
                .map(|demand| refund(std::slice::from_ref(demand)))
                .collect()
        } else {
            vec![refund(demands)]
        };
        pending(async move {
            for refund in refunds {
                refund.await?;
            }
            Ok(())
        })
    }
}

impl Store for RedisStore {
    fn spend<'a>(
        &'a self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        let count = demands.len();
        if !(1..=DEMANDS_MAX).contains(&count) {
            let error =
                format!("{count} demands are out of range: must be between 1 and {DEMANDS_MAX}");
            return StoreFuture::ready(Err(CallError::Refused(ServerError::new(error)).into()));
        }

        if !demands.iter().any(leased::is_leased) {
            return self.call_store(demands, intent, permit_id);
        }
        match demands {
            _ if intent == Intent::Peek => self.peek_leased(demands, permit_id),
            [demand] if demand.cost == 0 => self.peek_leased(demands, permit_id),
            [demand] => self.spend_leased(demand),
            _ => self.spend_several(demands, permit_id),
        }
    }

    #[inline]
    fn try_spend(
        &self,
        demand: &Demand<'_>,
        intent: Intent,
        _: PermitId,
    ) -> Option<(Outcome, Source)> {
        if !leased::is_leased(demand) || intent == Intent::Peek || demand.cost == 0 {
            return None;
        }

        let (outcome, source, renewal) = self.inner.leases.try_spend(demand)?;
        if let Some(call) = renewal {
            self.call_in_background(*call);
        }
        Some((outcome, source))
    }

    fn refund<'a>(&'a self, demands: &[Demand<'_>]) -> StoreFuture<'a, ()> {
        // Units that came from a lease go back to the lease.
        let is_at_store =
            |demand: &&Demand<'_>| !leased::is_leased(demand) || !self.inner.leases.refund(demand);
        let at_store: SmallVec<[Demand<'_>; 4]> =
            demands.iter().filter(is_at_store).copied().collect();

        if at_store.is_empty() {
            StoreFuture::ready(Ok(()))
        } else {
            self.refund_at_store(&at_store)
        }
    }

    fn reset<'a>(&'a self, key: &Key<'_>) -> StoreFuture<'a, ()> {
        self.inner.leases.forget(key);
        let reply = self.spawn_call(self.inner.encoder.reset(key));
        pending(async move { Ok(reply.await.map(drop)?) })
    }

    fn release<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool> {
        self.change_permit(Operation::Release, demand, permit_id)
    }

    fn renew<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool> {
        self.change_permit(Operation::Renew, demand, permit_id)
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

fn spend_reply(
    reply: &ScriptReply,
    terms: &[DemandTerms],
    intent: Intent,
) -> Result<SpendReply, CallError> {
    reply
        .spend_reply(terms, intent)
        .ok_or_else(written_by_others)
}

/// The error when the script and our arithmetic do not agree on a verdict.
fn written_by_others() -> CallError {
    CallError::Refused(ServerError::new(
        "a counter was written by another program or by another version of Tollgate",
    ))
}
