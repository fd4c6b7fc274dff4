//! The store: sends calls to the links, and turns replies into outcomes.

mod lease_calls;
mod leased;
mod router;
mod strict;

pub(crate) use router::CallRouter;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::{sleep, timeout};
use tollgate::store::lease::LeaseTable;
use tollgate::store::{
    DEMANDS_MAX, Ending, Intent, SettleReply, Settlement, SpendReply, StoreFuture,
};
use tollgate::{Demand, Key, Outcome, PermitId, Source, Store};

pub(crate) use self::lease_calls::LeaseCaller;
use self::leased::is_leased;
use self::strict::pending;
use crate::error::{CallError, ServerError};
use crate::layout;
use crate::link::ServerLink;
use crate::wire::Operation;

/// A store that keeps counters on Redis or Valkey.
///
/// Clones share the connections and leases. The connections are closed when the last clone is
/// dropped.
#[derive(Clone)]
pub struct RedisStore {
    caller: Arc<LeaseCaller>,
}

/// Counters and gauges of a store.
///
/// In a cluster, the counters are those of the current servers: what was sent to a server that has
/// left the cluster is no longer included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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
    /// Keys that the servers have evicted while this store was connected to them, as of the last
    /// check, at most 30 seconds ago. They may include keys of other applications.
    pub evicted_keys: u64,
}

impl RedisStore {
    pub(crate) fn new(router: CallRouter, leases: LeaseTable) -> Self {
        let caller = Arc::new(LeaseCaller::new(router, leases));
        layout::start(&caller);
        Self { caller }
    }

    pub(crate) const fn from_caller(caller: Arc<LeaseCaller>) -> Self {
        Self { caller }
    }

    /// Waits until all servers are available, at most for `patience`. Returns whether they are.
    ///
    /// Waiting is optional: until then, the limits' failure policies decide. The future must be
    /// awaited inside a Tokio runtime.
    pub async fn ready(&self, patience: Duration) -> bool {
        let all_up = async {
            while !self.is_ready() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(patience, all_up).await.is_ok()
    }

    /// True when all servers are available, and no other version of Tollgate uses them. A server that is not used is sent a `PING` every second,
    /// so an outage shows even without traffic.
    pub fn is_ready(&self) -> bool {
        self.router().topology.is_complete() && self.router().layout.is_held()
    }

    /// How many store calls have been answered without an error. While this number grows, the store
    /// is available. In a cluster, the same holds as for [`Stats`].
    pub fn replies(&self) -> u64 {
        let links = self.router().topology.links();
        let replies = |link: &Arc<ServerLink>| link.counters.store_replies.load(Relaxed);
        links.iter().map(replies).sum()
    }

    /// The current counters and gauges.
    pub fn stats(&self) -> Stats {
        let leases = &self.caller.leases;
        let mut stats = Stats {
            leased_keys: leases.keys(),
            leased_units: leases.units(),
            ..Stats::default()
        };

        for link in self.router().topology.links() {
            stats.script_calls += link.counters.script_calls.load(Relaxed);
            stats.store_calls += link.counters.store_calls.load(Relaxed);
            stats.connections += link.counters.connections.load(Relaxed);
            stats.evicted_keys += link.server_check.evicted_keys();
            stats.up += usize::from(link.is_up());
            stats.servers += 1;
        }
        stats
    }

    /// What an operator should know about the servers: one text for each server that may forget
    /// counters, because it evicts keys when its memory is full, or does not say whether it does.
    /// Others are about a server of a cluster where one server was expected, and about another
    /// version of Tollgate that uses the store and counts differently.
    ///
    /// Servers are checked when a link has connected, and every 30 seconds while it is up.
    pub fn warnings(&self) -> Vec<String> {
        let links = self.router().topology.links();
        let warning = |link: &Arc<ServerLink>| {
            let failure = link
                .failure_after(1)
                .filter(ServerError::is_part_of_cluster);
            let failure = failure.map(|error| format!("the store cannot be used: {error}"));
            failure.or_else(|| link.server_check.warning())
        };
        let other_layout = self.router().layout.other().map(|error| error.to_string());
        links
            .iter()
            .filter_map(warning)
            .chain(other_layout)
            .collect()
    }

    pub(crate) fn router(&self) -> &Arc<CallRouter> {
        &self.caller.router
    }
}

/// Shows the counters and gauges.
impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisStore").field(&self.stats()).finish()
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

        let caller = &self.caller;
        match demands {
            _ if !intent.is_charge() && demands.iter().any(is_leased) => {
                caller.peek(demands, intent, permit_id)
            }
            // What is counted or reserved is not taken from leases: it must be corrected there later.
            _ if intent != Intent::Spend || !demands.iter().any(is_leased) => {
                let router = self.router();
                router.spend(demands, intent, permit_id, router.deadline())
            }
            [demand] if demand.cost == 0 => caller.peek(demands, Intent::Peek, permit_id),
            [demand] => caller.spend(demand),
            _ => caller.spend_several(demands, permit_id),
        }
    }

    #[inline]
    fn try_spend(
        &self,
        demand: &Demand<'_>,
        intent: Intent,
        _: PermitId,
    ) -> Option<(Outcome, Source)> {
        if !is_leased(demand) || intent != Intent::Spend || demand.cost == 0 {
            return None;
        }

        let (outcome, source, renewal) = self.caller.leases.try_spend(demand)?;
        if let Some(call) = renewal {
            self.caller.call_in_background(*call);
        }
        Some((outcome, source))
    }

    fn try_spend_all(
        &self,
        demands: &[Demand<'_>],
        intent: Intent,
        _: PermitId,
    ) -> Option<SpendReply> {
        let is_spend = intent == Intent::Spend;
        is_spend.then(|| self.caller.try_spend_several(demands))?
    }

    fn refund<'a>(&'a self, demands: &[Demand<'_>]) -> StoreFuture<'a, ()> {
        // Units that came from a lease go back to the lease.
        let is_at_store =
            |demand: &&Demand<'_>| !is_leased(demand) || !self.caller.leases.refund(demand);
        let at_store: SmallVec<[Demand<'_>; 4]> =
            demands.iter().filter(is_at_store).copied().collect();

        if at_store.is_empty() {
            StoreFuture::ready(Ok(()))
        } else {
            self.router().refund(&at_store)
        }
    }

    fn settle<'a>(
        &'a self,
        settlements: &[Settlement<'_>],
        ending: Ending,
    ) -> StoreFuture<'a, Vec<SettleReply>> {
        self.router().settle(settlements, ending)
    }

    fn reset<'a>(&'a self, key: &Key<'_>) -> StoreFuture<'a, ()> {
        self.caller.leases.forget(key);
        let reply = self.router().spawn(self.router().encoder.reset(key));
        pending(async move { Ok(reply.await.map(drop)?) })
    }

    fn release<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool> {
        self.router()
            .change_permit(Operation::Release, demand, permit_id)
    }

    fn renew<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool> {
        self.router()
            .change_permit(Operation::Renew, demand, permit_id)
    }

    fn return_leases(&self) -> StoreFuture<'_, ()> {
        pending(async { Ok(self.caller.return_leases().await?) })
    }
}
