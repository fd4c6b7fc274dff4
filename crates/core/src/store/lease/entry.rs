//! What an instance holds and knows of one counter.
//!
//! An entry is pure: time is an argument, and store calls are only described. `available` units may
//! be spent locally. Under leased consistency the store has charged them when they were leased.
//! Under eventual consistency they are reported to the store afterwards, and at most a quantum of
//! them may be unreported.

mod upkeep;

use super::pending::PendingCall;
use super::policy::{self, BatchSize, DemandMeter, LeaseTerms};
use super::request::{CallFailure, CallPurpose, CallRequest, LeaseGrant, LeaseRequest};
use crate::algorithm::{KeyLock, Outcome, Quota, Verdict};
use crate::consistency::Consistency;
use crate::demand::{Demand, DemandBuf};
use crate::store::Source;
use crate::time::Micros;

/// What the instance holds of a counter and the store accounts for.
#[derive(Clone, Copy, Debug)]
enum LeaseState {
    /// The store has charged the units in advance.
    Leased {
        /// Units that the store counts as lent to this instance.
        lent: u64,
        /// The units that the call in flight keeps.
        kept: u64,
        /// The generation under which the store counts the lent units; 0 when there are none.
        generation: u64,
        /// True when the store must learn that the lent units are spent, because until then the
        /// bucket refills only to its capacity less these units.
        is_settled: bool,
        /// When the window of the leased units ends, on this instance's clock.
        window_ends_at: Micros,
    },
    /// The store learns about units after they were spent.
    Eventual {
        /// Units spent locally and not reported yet.
        unreported: u64,
        /// The units that the call in flight reports.
        reporting: u64,
    },
}

/// The units, the cached denial and the call in flight of one counter.
#[derive(Debug)]
pub(super) struct LeaseEntry {
    /// Units that may be spent locally before `expires_at`.
    available: u64,
    expires_at: Micros,
    /// The next batch is leased when fewer units than this are available; 0 if a request must wait
    /// for it.
    low_mark: u64,
    /// When the entry was last used to decide a demand.
    used_at: Micros,
    meter: DemandMeter,
    state: LeaseState,
    quota: Quota,
    terms: LeaseTerms,
    /// Units left at the store at its last reply.
    store_remaining: u64,
    /// When the budget is full again.
    full_at: Micros,
    /// When the store has more units left than at its last reply.
    more_at: Micros,
    /// How long one unit takes to refill; longer than anything else for a window.
    unit_time: Micros,
    /// The cached denial: a demand for this many units more than are available is denied until
    /// `denied_until`.
    denied_cost: u64,
    denied_until: Micros,
    /// When the store would allow `denied_cost` units. Can be later than `denied_until`, because a
    /// denial is cached for a limited time.
    retry_at: Micros,
    /// The time of the store's last reply on the store's timeline; 0 before the first.
    called_at: Micros,
    /// The same, or before the first reply the time on this instance's clock.
    store_replied_at: Micros,
    /// The time of the store's last reply on this instance's clock.
    replied_at: Micros,
    /// The call in flight.
    pub(super) pending: Option<PendingCall>,
    /// Units for which requests wait until the call in flight is finished.
    waiting: u64,
    /// Units for which requests waited for the last call, and which the next one should bring.
    waited: u64,
    /// A demand for the counter, whose cost is ignored.
    demand: Box<DemandBuf>,
    /// True while the entry is in the shard's queue of entries that hold units.
    pub(super) is_in_sweep_queue: bool,
}

impl LeaseEntry {
    pub(super) fn new(demand: &Demand<'_>, now: Micros) -> Self {
        let quota = *demand.quota();
        let (state, available, expires_at) = if demand.key.consistency() == Consistency::Eventual {
            // Requests do not wait for the store's first reply: what is allowed until then is
            // within the quantum.
            let state = LeaseState::Eventual {
                unreported: 0,
                reporting: 0,
            };
            let quantum = policy::quantum(quota.limit(), demand.key.replicas().get());
            (state, quantum.min(quota.limit()), Micros::MAX)
        } else {
            let state = LeaseState::Leased {
                lent: 0,
                kept: 0,
                generation: 0,
                is_settled: false,
                window_ends_at: Micros::MAX,
            };
            (state, 0, Micros::ZERO)
        };

        Self {
            available,
            expires_at,
            low_mark: 0,
            used_at: now,
            meter: DemandMeter::new(now),
            state,
            terms: LeaseTerms::for_quota(&quota),
            quota,
            store_remaining: quota.limit(),
            full_at: Micros::ZERO,
            more_at: Micros::ZERO,
            unit_time: quota.refill_time(1).unwrap_or(Micros::MAX),
            denied_cost: 0,
            denied_until: Micros::ZERO,
            retry_at: Micros::ZERO,
            called_at: Micros::ZERO,
            store_replied_at: now,
            replied_at: now,
            pending: None,
            waiting: 0,
            waited: 0,
            demand: Box::new(demand.to_buf()),
            is_in_sweep_queue: false,
        }
    }

    /// Takes over what still matters of an entry for the same counter with another quota. Units
    /// leased under the old quota expire by themselves. Unreported units stay unreported; otherwise
    /// every change of the quota would allow another quantum.
    pub(super) fn carry_over(&mut self, old: &Self) {
        self.is_in_sweep_queue = old.is_in_sweep_queue;
        if let (LeaseState::Eventual { unreported, .. }, LeaseState::Eventual { .. }) =
            (&mut self.state, old.state)
        {
            *unreported = old.outstanding();
            self.available = self.available.saturating_sub(*unreported);
        }
    }

    /// Returns true when the entry was created with this quota.
    #[inline]
    pub(super) fn matches_quota(&self, quota: &Quota) -> bool {
        self.quota == *quota
    }

    /// Returns true when `call` is the call in flight of this entry.
    pub(super) fn is_pending_call(&self, call: &PendingCall) -> bool {
        self.pending.as_ref().is_some_and(|own| own.is_same(call))
    }

    /// Returns true when [`spend`](Self::spend) would decide a demand.
    pub(super) fn can_decide(&self, cost: u64, now: Micros) -> bool {
        let is_held = cost <= self.available && now < self.expires_at;
        is_held || self.cached_denial(cost, now).is_some()
    }

    /// Decides a demand locally if possible: from available units, or by the cached denial.
    #[inline]
    pub(super) fn spend(&mut self, cost: u64, now: Micros) -> Option<(Outcome, Source)> {
        let decided = if cost <= self.available && now < self.expires_at {
            self.available -= cost;
            if let LeaseState::Eventual { unreported, .. } = &mut self.state {
                *unreported += cost;
            }
            (self.allowed_outcome(now), Source::Lease)
        } else {
            (self.cached_denial(cost, now)?, Source::DenyCache)
        };

        self.used_at = now;
        self.meter.record(cost, &self.terms, now);
        Some(decided)
    }

    /// Returns true when it is time to lease the next batch.
    #[inline]
    pub(super) fn is_renewal_due(&self, now: Micros) -> bool {
        self.available < self.low_mark && self.pending.is_none() && now >= self.denied_until
    }

    /// The call in flight, for which a request for `cost` units now waits.
    pub(super) fn wait_for_call(&mut self, cost: u64) -> Option<PendingCall> {
        let pending = self.pending.clone()?;
        self.waiting = self.waiting.saturating_add(cost);
        Some(pending)
    }

    /// Combines the store's outcome of a peek with the units held locally.
    pub(super) fn add_local_units(&self, cost: u64, outcome: Outcome, now: Micros) -> Outcome {
        let available = self.available_at(now);
        let fits = cost <= available && cost <= outcome.limit;
        let verdict = if fits {
            Verdict::ALLOW
        } else {
            outcome.verdict
        };
        let remaining = self.remaining(outcome.remaining, available, outcome.limit);
        Outcome {
            verdict,
            remaining,
            ..outcome
        }
    }

    /// Units on lease and not spent.
    pub(super) fn held_units(&self, now: Micros) -> u64 {
        match self.state {
            LeaseState::Leased { .. } => self.available_at(now),
            LeaseState::Eventual { .. } => 0,
        }
    }

    /// Refunds units that a request spent locally. Returns false when the units were not spent
    /// locally, or are already reported by a call in flight.
    pub(super) fn refund(&mut self, cost: u64, now: Micros) -> bool {
        self.denied_until = Micros::ZERO;
        self.restore_units(cost, now)
    }

    /// Undoes a local decision because another limit denied the request. `spent_from` is the
    /// generation of the lease that the units came from.
    ///
    /// Unlike a refund this does not clear the cached denial, because no more units are available
    /// than before. Units of a window that has ended are gone with it.
    pub(super) fn undo_spend(&mut self, cost: u64, spent_from: u64, now: Micros) -> bool {
        let is_window = self.quota.window_end(spent_from).is_some();
        let generation = self.generation();
        if is_window && generation != spent_from && generation != 0 {
            return true;
        }
        self.restore_units(cost, now)
    }

    fn restore_units(&mut self, cost: u64, now: Micros) -> bool {
        // Units that a call in flight reports or returns cannot be restored.
        let is_calling = self.pending.is_some();
        let spent = match self.state {
            LeaseState::Leased { kept, .. } if is_calling => kept.saturating_sub(self.available),
            LeaseState::Leased { lent, .. } => lent.saturating_sub(self.available),
            LeaseState::Eventual {
                unreported,
                reporting,
            } => unreported.saturating_sub(if is_calling { reporting } else { 0 }),
        };
        if now >= self.expires_at || cost > spent {
            return false;
        }

        self.available += cost;
        if let LeaseState::Eventual { unreported, .. } = &mut self.state {
            *unreported -= cost;
        }
        true
    }

    /// Caches the denial of a demand that the store decided together with others.
    pub(super) fn cache_denial(&mut self, cost: u64, outcome: &Outcome, now: Micros) {
        if let Verdict::Deny { retry_after } = outcome.verdict {
            self.record_outcome(outcome, now);
            self.cache_denied_cost(cost, retry_after, Micros::ZERO, now);
        }
    }

    /// Records a demand that the store decides together with others. Returns true when it is time
    /// to lease a batch.
    pub(super) fn wants_batch(&mut self, cost: u64, now: Micros) -> bool {
        self.meter.record(cost, &self.terms, now);
        self.used_at = now;
        self.pending.is_none()
            && now >= self.denied_until
            && self.batch_size(cost, now) != BatchSize::default()
    }

    /// Starts a call, and returns what to request from the store.
    ///
    /// Eventual: reports all unreported units. Leased: settles the held units, and asks for a batch
    /// unless units are returned. Only a renewal keeps the available units; other calls return
    /// them.
    pub(super) fn start_call(
        &mut self,
        purpose: CallPurpose<'_>,
        cost: u64,
        now: Micros,
    ) -> CallRequest {
        self.meter.record(cost, &self.terms, now);
        let pending = self.pending.insert(PendingCall::default()).clone();
        let batch = match purpose {
            CallPurpose::Return => BatchSize::default(),
            CallPurpose::Decide(_) | CallPurpose::Renew => self.batch_size(cost, now),
        };
        self.waited = 0;

        let lease = match &mut self.state {
            LeaseState::Eventual {
                unreported,
                reporting,
            } => {
                *reporting = *unreported;
                LeaseRequest {
                    needed: *unreported,
                    wanted: *unreported,
                    ..LeaseRequest::default()
                }
            }
            LeaseState::Leased {
                lent,
                kept,
                generation,
                ..
            } => {
                // If the generation under which the store counts the available units is not known,
                // they cannot be carried over into the next lease.
                let held = if *generation == 0 { 0 } else { self.available };
                let is_renewal = matches!(purpose, CallPurpose::Renew);
                *kept = if is_renewal { held } else { 0 };
                self.available = *kept;
                LeaseRequest {
                    needed: batch.needed,
                    wanted: batch.wanted,
                    is_lent: true,
                    called_at: self.called_at,
                    generation: *generation,
                    held: *lent,
                    kept: *kept,
                    returned: held - *kept,
                }
            }
        };
        CallRequest {
            lease,
            cost,
            sent_at: now,
            pending,
        }
    }

    /// Applies the reply of the store. Returns the outcome for the request that caused the call;
    /// `None` when the counter's state in the reply belongs to another algorithm.
    pub(super) fn apply_grant(
        &mut self,
        request: &CallRequest,
        grant: &LeaseGrant,
        now: Micros,
    ) -> Option<Outcome> {
        self.end_call();

        // Repeat what the store did: spend the cost, then grant the units.
        let (state, outcome) = self.quota.spend(grant.state, request.cost, grant.at)?;
        let (state, charged) = self.quota.spend(state, grant.units, grant.at)?;
        self.called_at = grant.at;
        (self.store_replied_at, self.replied_at) = (grant.at, now);
        self.denied_until = Micros::ZERO;
        self.record_outcome(&charged, now);

        let is_allowed = outcome.verdict.is_allowed();
        let remaining = if is_allowed { charged.remaining } else { 0 };
        self.hold_units(request, grant, remaining);

        if let Verdict::Deny { retry_after } = outcome.verdict {
            self.cache_denied_cost(request.cost, retry_after, grant.turn_after, now);
            let retry_after = self.retry_at.max(self.denied_until).since(now);
            let verdict = Verdict::Deny { retry_after };
            return Some(Outcome { verdict, ..outcome });
        }
        if !is_allowed {
            return Some(outcome);
        }

        if remaining == 0 && !matches!(self.quota, Quota::SlidingLog(_)) {
            // The store has nothing left. Another call would be in vain until it has refilled.
            let next = self.quota.outcome(state, 1, grant.at)?;
            if let Verdict::Deny { retry_after } = next.verdict {
                self.cache_denied_cost(1, retry_after, grant.turn_after, now);
            }
        }
        Some(Outcome {
            verdict: outcome.verdict,
            ..self.allowed_outcome(now)
        })
    }

    fn end_call(&mut self) {
        self.pending = None;
        self.waited = std::mem::take(&mut self.waiting);
    }

    /// Makes units available after a reply: what the call kept and the store granted, or another
    /// quantum, at most the `remaining` units of the store.
    fn hold_units(&mut self, request: &CallRequest, grant: &LeaseGrant, remaining: u64) {
        let quantum = self.quantum();
        match &mut self.state {
            LeaseState::Eventual { unreported, .. } => {
                *unreported = unreported.saturating_sub(grant.units);
                self.available = quantum.saturating_sub(*unreported).min(remaining);
            }
            LeaseState::Leased {
                lent,
                generation,
                is_settled,
                window_ends_at,
                ..
            } => {
                let (kept, available) = if grant.is_known {
                    (request.lease.kept, self.available)
                } else {
                    (0, 0)
                };
                self.available = available.saturating_add(grant.units);
                *lent = kept.saturating_add(grant.units);
                *generation = if *lent > 0 { grant.generation } else { 0 };

                let is_brief = grant.length < self.terms.long;
                let mut length = grant.length;
                if let Some(window_end) = self.quota.window_end(grant.generation) {
                    let left = window_end.since(grant.at);
                    *window_ends_at = request.sent_at.after(left);
                    length = policy::window_lease(length, left);
                }
                *is_settled = !is_brief && self.quota.bucket().is_some();
                self.expires_at = request.sent_at.after(policy::lease_life(length));
            }
        }
        self.low_mark = match self.state {
            LeaseState::Eventual { .. } => self.available / 4 + 1,
            LeaseState::Leased { .. } => self.meter.low_mark(self.available),
        };
    }

    /// Applies the failure of a call that got no reply.
    pub(super) fn apply_failure(&mut self, request: &LeaseRequest, failure: CallFailure) {
        self.end_call();
        let LeaseState::Leased {
            lent, generation, ..
        } = &mut self.state
        else {
            // The units may have been reported, and are reported again. That counts too many units
            // at the store, never too few.
            return;
        };

        if failure == CallFailure::NotExecuted {
            self.available = self.available.saturating_add(request.returned);
        } else {
            // The store may count the available units under the old generation or a new one. They
            // are spent until they expire, and never settled.
            (*generation, *lent) = (0, 0);
        }
        self.low_mark = 0;
    }

    /// The generation of the lease; 0 when there is none.
    pub(super) const fn generation(&self) -> u64 {
        match self.state {
            LeaseState::Leased { generation, .. } => generation,
            LeaseState::Eventual { .. } => 0,
        }
    }

    pub(super) fn demand(&self) -> &DemandBuf {
        &self.demand
    }

    /// The present moment on the store's timeline, extrapolated from its last reply.
    pub(super) fn store_time(&self, now: Micros) -> Micros {
        self.store_replied_at.after(now.since(self.replied_at))
    }

    fn available_at(&self, now: Micros) -> u64 {
        if now < self.expires_at {
            self.available
        } else {
            0
        }
    }

    fn quantum(&self) -> u64 {
        policy::quantum(self.quota.limit(), self.demand.limit.replicas().get())
            .min(self.quota.limit())
    }

    /// How many units to lease; none where no units can be leased.
    fn batch_size(&self, cost: u64, now: Micros) -> BatchSize {
        match self.state {
            // Every hit of a log has its own timestamp, so hits cannot be leased in advance.
            LeaseState::Leased { window_ends_at, .. }
                if !matches!(self.quota, Quota::SlidingLog(_)) =>
            {
                let window_left = if now < window_ends_at {
                    window_ends_at.since(now)
                } else {
                    Micros::MAX
                };
                let most = self.quota.limit() / 4;
                let batch = self.meter.batch_size(&self.terms, cost, window_left);
                batch
                    .at_least(self.waited.saturating_sub(cost))
                    .at_most(most)
            }
            _ => BatchSize::default(),
        }
    }

    fn record_outcome(&mut self, outcome: &Outcome, now: Micros) {
        self.store_remaining = outcome.remaining;
        self.full_at = now.after(outcome.reset_after);
        self.more_at = now.after(outcome.more_after);
    }

    /// Caches that the store denied `cost` units for `retry_after`. The turn of this instance to
    /// call again comes after `turn_after`.
    fn cache_denied_cost(
        &mut self,
        cost: u64,
        retry_after: Micros,
        turn_after: Micros,
        now: Micros,
    ) {
        let retry_after = policy::realistic_retry(&self.quota, cost, retry_after);
        let cached_for = policy::deny_cache_time(&self.quota, retry_after, turn_after);
        self.denied_cost = cost;
        self.retry_at = now.after(retry_after);
        self.denied_until = now.after(cached_for);
    }

    /// How many of a counter's units are left, if `remaining` are left at the store.
    #[inline]
    fn remaining(&self, remaining: u64, available: u64, limit: u64) -> u64 {
        match self.state {
            LeaseState::Leased { .. } => remaining.saturating_add(available).min(limit),
            LeaseState::Eventual { unreported, .. } => remaining.saturating_sub(unreported),
        }
    }

    /// The outcome of a demand that is allowed locally and already charged.
    #[inline]
    fn allowed_outcome(&self, now: Micros) -> Outcome {
        let limit = self.quota.limit();
        Outcome {
            verdict: Verdict::ALLOW,
            limit,
            remaining: self.remaining(self.store_remaining, self.available, limit),
            reset_after: self.full_at.since(now),
            more_after: self.more_after(now),
            lock: KeyLock::NONE,
        }
    }

    /// How long until more units are left. After the moment that the store's last reply implies, it
    /// is an upper bound: a bucket refills a unit, and a window is empty.
    #[inline]
    fn more_after(&self, now: Micros) -> Micros {
        if now < self.more_at {
            self.more_at.since(now)
        } else {
            self.full_at.since(now).min(self.unit_time)
        }
    }

    /// When `more` units are available than the cached denial is about.
    #[cold]
    fn retry_at_for(&self, more: u64) -> Micros {
        match self.quota.refill_time(more) {
            Some(longer) => self.retry_at.after(longer),
            // The state of a window does not reveal when more units are available; they are at the
            // latest when the budget is full.
            None => self.full_at.max(self.retry_at),
        }
    }

    /// The denial of `cost` units, if it is known without a store call.
    #[inline]
    fn cached_denial(&self, cost: u64, now: Micros) -> Option<Outcome> {
        if cost > self.quota.limit() {
            return Some(Outcome {
                verdict: Verdict::Never,
                ..self.allowed_outcome(now)
            });
        }

        let denied = self.available_at(now).saturating_add(self.denied_cost);
        if now >= self.denied_until || cost < denied {
            return None;
        }

        let retry_at = match cost - denied {
            0 => self.retry_at,
            more => self.retry_at_for(more),
        };
        let retry_after = retry_at.max(self.denied_until).since(now);
        Some(Outcome {
            verdict: Verdict::Deny { retry_after },
            ..self.allowed_outcome(now)
        })
    }
}
