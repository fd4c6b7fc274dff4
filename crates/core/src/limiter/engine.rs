//! The engine: the stores behind a limiter, and one call that decides over a list of demands.
//!
//! Limits whose consistency is [`Local`](Consistency::Local) have their counters in a memory store of
//! this process, all others in the shared store.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::error::Error;
use super::failure::{self, LocalFallback, ResolvedDecision, StoreMonitor};
use super::permit_ids::PermitIds;
use super::rules::Rules;
use super::store_part::StorePart;
use crate::algorithm::{Outcome, PermitId};
use crate::clock::Clock;
use crate::consistency::Consistency;
use crate::demand::Demand;
use crate::limit::Rule;
use crate::memory::MemoryStore;
use crate::store::{Intent, PartList, Source, SpendReply, Store, StoreError, StoreFuture};

pub(super) struct Engine {
    /// The counters that replicas share.
    pub(super) shared: Arc<dyn Store>,
    /// The counters of this process, created with the first demand on a local limit.
    pub(super) local: Arc<OnceLock<MemoryStore>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) rules: Rules,
    pub(super) permit_ids: Arc<PermitIds>,
    pub(super) monitor: Arc<StoreMonitor>,
}

/// Shows the stores and the names of the limits.
impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("shared", &self.shared)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// The rule of the limit with this name, or the name.
    #[inline]
    pub(super) fn lookup<'a>(&'a self, limit: &'a str) -> Result<&'a Rule, &'a str> {
        self.rules.get(limit).ok_or(limit)
    }

    /// The store that has the counters of a limit.
    #[inline]
    pub(super) fn store_for(&self, limit: &Rule) -> &dyn Store {
        match limit.consistency() {
            Consistency::Local => self.local_store(),
            _ => &*self.shared,
        }
    }

    pub(super) fn local_store(&self) -> &MemoryStore {
        let clock = || self.clock.clone();
        self.local
            .get_or_init(|| MemoryStore::builder().shared_clock(clock()).build())
    }

    /// Spends the demands of a request: all of them, or none. The local counters are charged first,
    /// because they need no store call.
    pub(super) fn spend<'a>(
        &'a self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        if !demands.iter().any(|demand| demand.key.is_local()) {
            return self.shared.spend(demands, intent, permit_id);
        }

        let indexed = || demands.iter().enumerate();
        let is_local = |(_, demand): &(usize, &Demand<'_>)| demand.key.is_local();

        let mut parts = PartList::new(permit_id);
        let local = StorePart::Memory(self.local_store(), Source::Local);
        parts.push(local, indexed().filter(is_local));
        if indexed().any(|row| !is_local(&row)) {
            let shared = StorePart::Shared(&*self.shared);
            parts.push(shared, indexed().filter(|row| !is_local(row)));
        }
        parts.spend(intent)
    }

    /// Like [`spend`](Self::spend) without waiting. `None` if a store call is needed; then nothing
    /// has been charged.
    pub(super) fn try_spend(
        &self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> Option<SpendReply> {
        let is_local = |demand: &Demand<'_>| demand.key.is_local();
        if demands.iter().all(is_local) {
            return self.spend(demands, intent, permit_id).now()?.ok();
        }
        if !demands.iter().any(is_local) {
            return self.shared.try_spend_all(demands, intent, permit_id);
        }
        None
    }

    /// Returns units to the limits. Takes effect even if the future is dropped.
    pub(super) fn refund<'a>(&'a self, demands: &[Demand<'_>]) -> StoreFuture<'a, ()> {
        let (local, shared): (Vec<Demand<'_>>, Vec<Demand<'_>>) = demands
            .iter()
            .copied()
            .partition(|demand| demand.key.is_local());

        if !local.is_empty() {
            // The memory store has done the refund when the call returns.
            drop(self.local_store().refund(&local));
        }
        if shared.is_empty() {
            return StoreFuture::ready(Ok(()));
        }
        self.shared.refund(&shared)
    }

    /// Reports to the monitor that the store has replied, if an outcome came from the store.
    #[inline]
    pub(super) fn record_reply(&self, demands: &[Demand<'_>], intent: Intent, reply: &SpendReply) {
        let mut outcomes = reply.outcomes().iter();
        if self.monitor.is_degraded() && outcomes.any(|(_, source)| *source == Source::Store) {
            self.record_recovery(demands, intent, reply);
        }
    }

    /// Reports a reply during an outage, with whether the store was charged.
    #[cold]
    fn record_recovery(&self, demands: &[Demand<'_>], intent: Intent, reply: &SpendReply) {
        let is_charged = |(demand, (outcome, source)): (&Demand<'_>, &(Outcome, Source))| {
            *source == Source::Store && outcome.verdict.is_allowed() && demand.cost > 0
        };
        let mut rows = demands.iter().zip(reply.outcomes());
        let was_charged = intent == Intent::Spend && rows.any(is_charged);

        self.monitor.record_success(self.clock.now(), was_charged);
    }

    /// Decides a request by the limits' failure policies, because the store failed.
    #[cold]
    pub(super) fn fall_back(
        &self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: Option<PermitId>,
        error: &StoreError,
    ) -> ResolvedDecision {
        let now = self.clock.now();
        let local = self
            .monitor
            .record_failure(error, now, || LocalFallback::new(self.clock.clone(), now));

        let stores = failure::FallbackStores {
            shares: &local,
            local_limits: self.local_store(),
        };
        let decision = stores.decide(demands, intent, permit_id);
        self.monitor.count_decision(&decision);
        ResolvedDecision {
            decision,
            local: Some(local),
        }
    }

    /// Counts the error of a store call other than a check, for which there is no fallback.
    pub(super) fn count_error<T>(&self, result: Result<T, StoreError>) -> Result<T, Error> {
        result
            .inspect_err(|error| self.monitor.count_error(error))
            .map_err(Error::from)
    }
}
