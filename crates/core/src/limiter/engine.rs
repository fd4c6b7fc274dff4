//! The engine: the stores behind a limiter, and one call that decides over a list of demands.
//!
//! Limits whose consistency is [`Local`](Consistency::Local) have their counters in a memory store of
//! this process, all others in the shared store.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::error::Error;
use super::failure::{self, LocalFallback, StoreMonitor, is_denial};
use super::permit_ids::PermitIds;
use super::request::Demands;
use super::rules::Rules;
use super::store_part::StorePart;
use crate::algorithm::{Outcome, PermitId};
use crate::clock::Clock;
use crate::consistency::Consistency;
use crate::decision::Decision;
use crate::demand::Demand;
use crate::limit::Rule;
use crate::memory::MemoryStore;
use crate::store::{
    Ending, Intent, PartList, ReservationEnd, SettleReply, Settlement, Source, SpendReply, Store,
    StoreError, StoreFuture,
};

pub(super) struct Engine {
    /// The counters that replicas share.
    pub(super) shared: Arc<dyn Store>,
    /// The counters of this process, created with the first demand on a local limit.
    pub(super) local: Arc<OnceLock<MemoryStore>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) rules: Rules,
    pub(super) permit_ids: Arc<PermitIds>,
    pub(super) monitor: Arc<StoreMonitor>,
    /// The counters of the failure policy `Local`, created when the first of them is charged or
    /// drained.
    pub(super) local_fallback: Arc<OnceLock<LocalFallback>>,
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

    pub(super) fn local_fallback(&self) -> &LocalFallback {
        self.local_fallback
            .get_or_init(|| LocalFallback::new(self.clock.clone()))
    }

    /// The store that a decision has charged for a limit.
    pub(super) fn charged_store(&self, limit: &Rule, decision: &Decision) -> &dyn Store {
        match limit.consistency() {
            Consistency::Local => self.local_store(),
            _ if decision.is_degraded() => self.local_fallback().store(),
            _ => &*self.shared,
        }
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

    /// Charges one demand that needs no permit if its limit allows it, without waiting, and returns
    /// whether it does. [`Error::WouldBlock`] if a store call is needed; then nothing has been
    /// charged.
    #[inline(always)]
    pub(super) fn try_is_allowed(&self, demand: &Demand<'_>) -> Result<bool, Error> {
        let Some(is_allowed) = self.store_for(demand.limit).try_is_allowed(demand) else {
            return Err(Error::WouldBlock);
        };
        if demand.limit.consistency() != Consistency::Strict {
            self.record_lease(demand, Intent::Spend, is_allowed);
        }
        Ok(is_allowed || demand.limit.is_shadow())
    }

    /// Returns what a decision has charged. Takes effect even if the future is dropped.
    pub(super) fn refund_charged<'a>(
        &'a self,
        demands: &[Demand<'_>],
        decision: &Decision,
    ) -> StoreFuture<'a, ()> {
        let shared = |demands: &[Demand<'_>]| {
            if decision.is_degraded() {
                self.local_fallback().refund(demands);
                StoreFuture::ready(Ok(()))
            } else {
                self.shared.refund(demands)
            }
        };
        self.refund_parts(demands, shared)
    }

    /// Returns what a decision has reserved, except for permits.
    pub(super) fn cancel_charged(&self, demands: &[Demand<'_>], decision: &Decision) {
        let reservation = decision.permit_id().unwrap_or(PermitId::NONE);
        let units = demands.iter().filter(|demand| !demand.needs_permit());
        let (local, shared): (Vec<Demand<'_>>, Vec<Demand<'_>>) =
            units.copied().partition(|demand| demand.key.is_local());

        if !local.is_empty() {
            self.local_store().cancel(&local, reservation);
        }
        if decision.is_degraded() {
            self.local_fallback().refund(&shared);
        } else if !shared.is_empty() {
            let free = |demand| Settlement::new(demand, 0);
            let settlements: Vec<Settlement<'_>> = shared.into_iter().map(free).collect();
            let ending = Ending::new(reservation, ReservationEnd::Cancelled);
            // A settlement takes effect even if its future is dropped.
            drop(self.shared.settle(&settlements, ending));
        }
    }

    /// Returns units to the limits. Takes effect even if the future is dropped.
    pub(super) fn refund<'a>(&'a self, demands: &[Demand<'_>]) -> StoreFuture<'a, ()> {
        self.refund_parts(demands, |demands| self.shared.refund(demands))
    }

    /// Ends a reservation and applies its actual costs. The shared store decides how it ends, and
    /// the limits of this process follow. The replies are in the order of the settlements.
    pub(super) async fn settle(
        &self,
        settlements: &[Settlement<'_>],
        ending: Ending,
    ) -> Result<Vec<SettleReply>, Error> {
        let (local, shared): (Vec<usize>, Vec<usize>) =
            (0..settlements.len()).partition(|index| settlements[*index].demand.key.is_local());

        let nothing = SettleReply::for_permit(false, ending.end);
        let mut replies = vec![nothing; settlements.len()];
        let mut following = Some(ending);
        for (indexes, store) in [(shared, None), (local, Some(self))] {
            let (Some(ending), false) = (following, indexes.is_empty()) else {
                continue;
            };
            let part: Vec<Settlement<'_>> = indexes.iter().map(|at| settlements[*at]).collect();
            let store = store.map_or(&*self.shared, |engine| engine.local_store() as &dyn Store);
            let settled = store.settle(&part, ending).await.map_err(|error| {
                let demands: Vec<Demand<'_>> = part.iter().map(|row| row.demand).collect();
                self.record_error(error, &demands)
            })?;

            let units = part.iter().position(|row| !row.demand.is_permit());
            following = units.map_or(following, |first| settled[first].ending_of_others(ending));
            for (index, reply) in indexes.into_iter().zip(settled) {
                replies[index] = reply;
            }
        }
        Ok(replies)
    }

    /// Returns units to local limits, and to the others by `refund_shared`.
    fn refund_parts<'a>(
        &'a self,
        demands: &[Demand<'_>],
        refund_shared: impl FnOnce(&[Demand<'_>]) -> StoreFuture<'a, ()>,
    ) -> StoreFuture<'a, ()> {
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
        refund_shared(&shared)
    }

    /// Reports a reply to the monitor if an outcome came from the store, and to the local counters
    /// if it concerns them.
    #[inline]
    pub(super) fn record_reply(&self, demands: &[Demand<'_>], intent: Intent, reply: &SpendReply) {
        let outcomes = reply.outcomes();
        let is_from_store = |(_, source): &(Outcome, Source)| *source == Source::Store;
        if self.monitor.is_degraded() && outcomes.iter().any(is_from_store) {
            self.record_recovery(demands, intent, reply);
        }

        let is_denied = outcomes.iter().any(|(outcome, _)| is_denial(outcome));
        if is_denied && self.shared.can_fail() {
            self.record_denials(demands, outcomes);
        }
        let is_charged = intent == Intent::Count || !reply.is_denied(demands);
        if self.monitor.has_recent_outage() && is_charged {
            self.charge_locally(&reply.charged(demands, intent));
        }
    }

    /// Reports to the local counters that a lease has decided a demand.
    #[inline]
    pub(super) fn record_lease(&self, demand: &Demand<'_>, intent: Intent, is_allowed: bool) {
        if self.monitor.has_recent_outage() && intent.is_charge() && is_allowed {
            self.charge_locally(&[*demand]);
        }
    }

    #[cold]
    fn record_denials(&self, demands: &[Demand<'_>], outcomes: &[(Outcome, Source)]) {
        if demands.iter().any(LocalFallback::decides) {
            self.local_fallback().record_denials(demands, outcomes);
        }
    }

    /// Charges demands that the store has admitted to the local counters, if they belong to a limit
    /// for which an outage is recent.
    #[cold]
    fn charge_locally(&self, demands: &[Demand<'_>]) {
        let Some(elapsed) = self.monitor.time_since_outage(self.clock.now()) else {
            return;
        };

        for demand in demands {
            if elapsed <= failure::recent_time(demand) && LocalFallback::decides(demand) {
                self.local_fallback().charge(demand);
            }
        }
    }

    /// Reports a reply during an outage, with whether the store was charged.
    #[cold]
    fn record_recovery(&self, demands: &[Demand<'_>], intent: Intent, reply: &SpendReply) {
        let is_charged = |(demand, (outcome, source)): (&Demand<'_>, &(Outcome, Source))| {
            *source == Source::Store && outcome.verdict.is_allowed() && demand.cost > 0
        };
        let mut rows = demands.iter().zip(reply.outcomes());
        let was_charged = intent.is_charge() && rows.any(is_charged);

        self.monitor.record_success(self.clock.now(), was_charged);
    }

    /// Decides a request by the limits' failure policies, because the store failed.
    fn fall_back(
        &self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: Option<PermitId>,
        error: &StoreError,
    ) -> Decision {
        let decided_locally = demands
            .iter()
            .filter(|demand| LocalFallback::decides(demand));
        let recent_time = decided_locally.map(failure::recent_time).max();
        self.monitor
            .record_failure(error, self.clock.now(), recent_time);

        let stores = failure::FallbackStores {
            shares: self.local_fallback(),
            local_limits: self.local_store(),
        };
        let decision = stores.decide(demands, intent, permit_id, error.into());
        self.monitor.count_decision(&decision);
        decision
    }

    /// Decides a request whose store call failed: by the limits' failure policies, or if the store
    /// is available and has found a fault, by a denial.
    #[cold]
    pub(super) fn decide_failed(
        &self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: Option<PermitId>,
        error: &StoreError,
    ) -> Decision {
        let Some((refusal, limit)) = error.refusal() else {
            return self.fall_back(demands, intent, permit_id, error);
        };
        self.monitor
            .record_refusal(error, demands, self.clock.now());
        failure::refuse(demands, refusal, limit)
    }

    /// Counts the error of a store call about these demands other than a check, for which there is
    /// no fallback, and logs it if it is a fault in the store.
    pub(super) fn record_error(&self, error: StoreError, demands: &[Demand<'_>]) -> Error {
        self.record(&error, demands);
        error.into()
    }

    fn record(&self, error: &StoreError, demands: &[Demand<'_>]) {
        if error.refusal().is_some() {
            self.monitor
                .record_refusal(error, demands, self.clock.now());
        } else {
            self.monitor.count_error(error);
        }
    }

    /// The same for the demands of a request, which were valid when it was made.
    pub(super) fn record_request_error<'d>(
        &self,
        error: StoreError,
        demands: &impl Demands<'d>,
    ) -> Error {
        let recorded = demands.with(&self.rules, |demands| {
            self.record(&error, demands);
            Ok(())
        });
        if recorded.is_err() {
            self.record(&error, &[]);
        }
        error.into()
    }
}
