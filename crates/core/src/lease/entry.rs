//! What an instance holds and knows of one counter.
//!
//! An entry is pure: time is an argument, and store calls are only described. `available` units may
//! be spent locally. Under leased consistency the store has charged them when they were leased.
//! Under eventual consistency they are reported to the store afterwards, and at most a quantum of
//! them may be unreported.

mod upkeep;

use super::call::{CallFailure, CallPurpose, CallRequest, LeaseGrant, LeaseRequest};
use super::pending::PendingCall;
use super::policy::{self, DemandRate, LEASE_LIFE};
use crate::algorithm::{Outcome, Quota, Verdict};
use crate::consistency::Consistency;
use crate::demand::{Demand, DemandBuf};
use crate::store::Source;
use crate::time::Micros;

/// What an entry can do for a demand.
#[derive(Debug)]
pub(super) enum EntryStep {
    /// The demand is decided locally. `is_renewal_due` is true when it is time to lease the next
    /// batch.
    Decided {
        outcome: Outcome,
        source: Source,
        is_renewal_due: bool,
    },
    /// A call is in flight that may decide the demand.
    Wait(PendingCall),
    /// The store must decide the demand.
    Call,
}

/// The units, the cached denial and the call in flight of one counter.
#[derive(Debug)]
pub(super) struct LeaseEntry {
    /// Units that may be spent locally before `expires_at`.
    available: u64,
    expires_at: Micros,
    /// The next batch is leased when at most this many units are available.
    low_mark: u64,
    /// When the entry was last used to decide a demand.
    used_at: Micros,
    demand_rate: DemandRate,
    /// The consistency of `demand`, copied to where it is faster to read.
    is_eventual: bool,
    quota: Quota,
    /// Units left at the store at its last reply.
    store_remaining: u64,
    /// When the budget is full again.
    full_at: Micros,
    /// The cached denial: a demand for this many units more than are available is denied until
    /// `denied_until`.
    denied_cost: u64,
    denied_until: Micros,
    /// When the store would allow `denied_cost` units. Can be later than `denied_until`, because a
    /// denial is cached for a limited time.
    retry_at: Micros,
    /// Leased: units that the store counts as lent to this instance. Eventual: units spent locally
    /// and not reported yet.
    outstanding: u64,
    /// While a call is in flight. Leased: the units that it keeps. Eventual: the units that it
    /// reports.
    call_units: u64,
    /// The generation under which the store counts the outstanding units; 0 when it is not known.
    generation: u64,
    /// When the window of the leased units ends, on this instance's clock.
    window_ends_at: Micros,
    /// The time of the store's last reply on the store's timeline.
    store_replied_at: Micros,
    /// The time of the store's last reply on this instance's clock.
    replied_at: Micros,
    /// The call in flight.
    pending: Option<PendingCall>,
    /// A demand for the counter, whose cost is ignored.
    demand: Box<DemandBuf>,
    /// True while the entry is in the shard's queue of entries that hold units.
    pub(super) is_in_sweep_queue: bool,
    /// True while the entry is in the shard's queue of entries that may be removed.
    pub(super) is_in_removal_queue: bool,
}

impl LeaseEntry {
    pub(super) fn new(demand: &Demand<'_>, now: Micros) -> Self {
        let mut entry = Self {
            available: 0,
            expires_at: Micros::ZERO,
            low_mark: 0,
            used_at: now,
            demand_rate: DemandRate::default(),
            is_eventual: demand.key.consistency() == Consistency::Eventual,
            quota: *demand.quota(),
            store_remaining: demand.quota().limit(),
            full_at: Micros::ZERO,
            denied_cost: 0,
            denied_until: Micros::ZERO,
            retry_at: Micros::ZERO,
            outstanding: 0,
            call_units: 0,
            generation: 0,
            window_ends_at: Micros::MAX,
            store_replied_at: now,
            replied_at: now,
            pending: None,
            demand: Box::new(demand.to_buf()),
            is_in_sweep_queue: false,
            is_in_removal_queue: false,
        };

        if entry.is_eventual {
            // Requests do not wait for the store's first reply: what is allowed until then is
            // within the quantum.
            (entry.available, entry.expires_at) = (entry.quantum(), Micros::MAX);
        }
        entry
    }

    /// Takes over what still matters of an entry for the same counter with another quota. Units
    /// leased under the old quota expire by themselves. Unreported units stay unreported; otherwise
    /// every change of the quota would allow another quantum.
    pub(super) fn carry_over(&mut self, old: &Self) {
        if self.is_eventual && old.is_eventual {
            self.outstanding = old.outstanding;
            self.available = self.quantum().saturating_sub(self.outstanding);
        }
    }

    /// Returns true when the entry was created with this quota.
    #[inline]
    pub(super) fn matches_quota(&self, quota: &Quota) -> bool {
        self.quota == *quota
    }

    pub(super) const fn has_pending_call(&self) -> bool {
        self.pending.is_some()
    }

    pub(super) const fn pending_call(&self) -> Option<&PendingCall> {
        self.pending.as_ref()
    }

    /// Returns true when `call` is the call in flight of this entry.
    pub(super) fn is_pending_call(&self, call: &PendingCall) -> bool {
        self.pending.as_ref().is_some_and(|own| own.is_same(call))
    }

    /// Decides a demand locally if possible: from available units, or by the cached denial.
    #[inline]
    pub(super) fn spend(&mut self, cost: u64, now: Micros) -> EntryStep {
        if cost <= self.available && now < self.expires_at {
            self.available -= cost;
            self.used_at = now;
            self.demand_rate.record(cost, now);
            if self.is_eventual {
                self.outstanding += cost;
            }

            let is_renewal_due = self.available <= self.low_mark
                && self.pending.is_none()
                && now >= self.denied_until;
            return EntryStep::Decided {
                outcome: self.allowed_outcome(now),
                source: Source::Lease,
                is_renewal_due,
            };
        }

        if let Some(outcome) = self.cached_denial(cost, now) {
            self.demand_rate.record(cost, now);
            self.used_at = now;
            return EntryStep::Decided {
                outcome,
                source: Source::DenyCache,
                is_renewal_due: false,
            };
        }

        self.pending
            .clone()
            .map_or(EntryStep::Call, EntryStep::Wait)
    }

    /// Combines the store's outcome of a peek with the units held locally.
    pub(super) fn add_local_units(&self, cost: u64, outcome: Outcome, now: Micros) -> Outcome {
        let available = self.available_at(now);
        let remaining = if self.is_eventual {
            outcome.remaining.saturating_sub(self.outstanding)
        } else {
            let sum = outcome.remaining.saturating_add(available);
            sum.min(outcome.limit)
        };

        let fits = cost <= available && cost <= outcome.limit;
        let verdict = if fits {
            Verdict::ALLOW
        } else {
            outcome.verdict
        };
        Outcome {
            verdict,
            remaining,
            ..outcome
        }
    }

    /// Refunds units that a request spent locally. Returns false when the units were not spent
    /// locally, or are already reported by a call in flight.
    pub(super) fn refund(&mut self, cost: u64, now: Micros) -> bool {
        self.denied_until = Micros::ZERO;
        self.restore_units(cost, now)
    }

    /// Undoes a local decision because another limit denied the request. `generation` is the
    /// generation of the lease that the units came from.
    ///
    /// Unlike a refund this does not clear the cached denial, because no more units are available
    /// than before. Units of a window that has ended are gone with it.
    pub(super) fn undo_spend(&mut self, cost: u64, generation: u64, now: Micros) -> bool {
        let is_window = self.quota.window_end(generation).is_some();
        if is_window && !self.is_eventual && self.generation != generation && self.generation != 0 {
            return true;
        }
        self.restore_units(cost, now)
    }

    fn restore_units(&mut self, cost: u64, now: Micros) -> bool {
        if now >= self.expires_at {
            return false;
        }

        // Units that a call in flight reports or returns cannot be restored.
        let spent = match (self.is_eventual, self.pending.is_some()) {
            (true, true) => self.outstanding.saturating_sub(self.call_units),
            (true, false) => self.outstanding,
            (false, true) => self.call_units.saturating_sub(self.available),
            (false, false) => self.outstanding.saturating_sub(self.available),
        };

        let is_local = cost <= spent;
        if is_local {
            self.available += cost;
            self.outstanding -= if self.is_eventual { cost } else { 0 };
        }
        is_local
    }

    /// Caches the denial of a demand that the store decided together with others.
    pub(super) fn cache_denial(&mut self, cost: u64, outcome: &Outcome, now: Micros) {
        if let Verdict::Deny { retry_after } = outcome.verdict {
            self.record_outcome(outcome, now);
            self.cache_denied_cost(cost, retry_after, now);
        }
    }

    /// Records a demand that the store decides together with others. Returns true when it is time
    /// to lease a batch.
    pub(super) fn wants_batch(&mut self, cost: u64, now: Micros) -> bool {
        self.demand_rate.record(cost, now);
        self.used_at = now;
        self.pending.is_none()
            && !self.is_eventual
            && now >= self.denied_until
            && self.batch_size(cost, now) > 0
    }

    /// Starts a call. Returns what to request from the store, and the call for other requests to
    /// wait for.
    pub(super) fn start_call(
        &mut self,
        purpose: CallPurpose,
        cost: u64,
        now: Micros,
    ) -> (LeaseRequest, PendingCall) {
        self.demand_rate.record(cost, now);
        let pending = PendingCall::default();
        self.pending = Some(pending.clone());

        let request = if self.is_eventual {
            self.report_request()
        } else {
            let max_units = match purpose {
                CallPurpose::Return => 0,
                _ => self.batch_size(cost, now),
            };
            self.lease_request(purpose, max_units)
        };
        (request, pending)
    }

    /// Eventual: reports all unreported units.
    fn report_request(&mut self) -> LeaseRequest {
        self.call_units = self.outstanding;
        LeaseRequest {
            max_units: self.outstanding,
            ..LeaseRequest::default()
        }
    }

    /// Leased: settles the held units, and asks for at most `max_units` more. Only a renewal keeps
    /// the available units; other calls return them.
    fn lease_request(&mut self, purpose: CallPurpose, max_units: u64) -> LeaseRequest {
        if self.generation == 0 {
            // The generation under which the store counts the available units is not known, so they
            // cannot be carried over into the next lease.
            (self.available, self.call_units) = (0, 0);
            return LeaseRequest {
                max_units,
                is_lent: true,
                ..LeaseRequest::default()
            };
        }

        let kept = if purpose == CallPurpose::Renew {
            self.available
        } else {
            0
        };
        let returned = self.available - kept;
        (self.available, self.call_units) = (kept, kept);
        LeaseRequest {
            max_units,
            is_lent: true,
            generation: self.generation,
            held: self.outstanding,
            kept,
            returned,
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
        self.pending = None;

        // Repeat what the store did: spend the cost, then grant the units.
        let (state, outcome) = self.quota.spend(grant.state, request.cost, grant.at)?;
        let is_allowed = outcome.verdict.is_allowed();
        let (state, charged) = self.quota.spend(state, grant.units, grant.at)?;
        (self.store_replied_at, self.replied_at) = (grant.at, now);
        self.denied_until = Micros::ZERO;
        self.record_outcome(&charged, now);

        if self.is_eventual {
            let remaining = if is_allowed { charged.remaining } else { 0 };
            self.apply_report(grant.units, remaining);
        } else {
            self.merge_lease(request, grant);
        }

        if let Verdict::Deny { retry_after } = outcome.verdict {
            self.cache_denied_cost(request.cost, retry_after, now);
            let retry_after = self.retry_at.max(self.denied_until).since(now);
            return Some(Outcome {
                verdict: Verdict::Deny { retry_after },
                ..outcome
            });
        }

        if charged.remaining == 0 && is_allowed && !matches!(self.quota, Quota::SlidingLog(_)) {
            // The store has nothing left. Another call would be in vain until it has refilled.
            let next = self.quota.outcome(state, 1, grant.at)?;
            if let Verdict::Deny { retry_after } = next.verdict {
                self.cache_denied_cost(1, retry_after, now);
            }
        }

        Some(if is_allowed {
            Outcome {
                verdict: outcome.verdict,
                ..self.allowed_outcome(now)
            }
        } else {
            outcome
        })
    }

    /// Applies the failure of a call that got no reply.
    pub(super) fn apply_failure(&mut self, request: &LeaseRequest, failure: CallFailure) {
        self.pending = None;
        if self.is_eventual {
            // The units may have been reported, and are reported again. That counts too many units
            // at the store, never too few.
            return;
        }

        match failure {
            CallFailure::NotExecuted if request.generation != 0 => {
                self.available = self.available.saturating_add(request.returned);
                self.generation = request.generation;
            }
            // The store may count the available units under the old generation or a new one. They
            // are spent until they expire, and never settled.
            CallFailure::NotExecuted | CallFailure::Unknown => {
                (self.generation, self.outstanding) = (0, 0);
            }
        }
        self.low_mark = 0;
    }

    pub(super) const fn generation(&self) -> u64 {
        self.generation
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

    fn batch_size(&self, cost: u64, now: Micros) -> u64 {
        // Every hit of a log has its own timestamp, so hits cannot be leased in advance.
        if matches!(self.quota, Quota::SlidingLog(_)) {
            return 0;
        }

        let window_left = if now < self.window_ends_at {
            self.window_ends_at.since(now)
        } else {
            Micros::MAX
        };
        self.demand_rate
            .batch_size(self.quota.limit(), cost, window_left)
    }

    /// Subtracts the units that the store has recorded from the unreported ones, and makes a new
    /// quantum available, at most the `remaining` units of the store.
    fn apply_report(&mut self, recorded: u64, remaining: u64) {
        self.outstanding = self.outstanding.saturating_sub(recorded);
        let room = self.quantum().saturating_sub(self.outstanding);
        self.available = room.min(remaining);
        self.low_mark = self.available / 4;
    }

    /// Merges the units that the call kept and those that were granted into one lease.
    fn merge_lease(&mut self, request: &CallRequest, grant: &LeaseGrant) {
        let (kept, available) = if grant.is_known {
            (request.lease.kept, self.available)
        } else {
            (0, 0)
        };
        self.available = available.saturating_add(grant.units);
        self.outstanding = kept.saturating_add(grant.units);
        self.generation = if self.outstanding > 0 {
            grant.generation
        } else {
            0
        };

        let life = match self.quota.window_end(grant.generation) {
            // As for the life of a lease, the clock may run a tenth too slow.
            Some(window_end) => {
                let left = window_end.since(grant.at);
                self.window_ends_at = request.sent_at.after(left);
                LEASE_LIFE.min(Micros::new(left.get() - left.get().div_ceil(10)))
            }
            None => LEASE_LIFE,
        };
        self.expires_at = request.sent_at.after(life);
        self.low_mark = self.available / 4;
    }

    fn record_outcome(&mut self, outcome: &Outcome, now: Micros) {
        self.store_remaining = outcome.remaining;
        self.full_at = now.after(outcome.reset_after);
    }

    /// Caches that the store denied `cost` units for `retry_after`.
    fn cache_denied_cost(&mut self, cost: u64, retry_after: Micros, now: Micros) {
        let retry_after = policy::realistic_retry(&self.quota, cost, retry_after);
        self.denied_cost = cost;
        self.retry_at = now.after(retry_after);
        self.denied_until = now.after(policy::deny_cache_time(&self.quota, retry_after));
    }

    /// The outcome of a demand that is allowed locally and already charged.
    #[inline]
    fn allowed_outcome(&self, now: Micros) -> Outcome {
        let limit = self.quota.limit();
        let remaining = if self.is_eventual {
            self.store_remaining.saturating_sub(self.outstanding)
        } else {
            self.store_remaining
                .saturating_add(self.available)
                .min(limit)
        };

        Outcome {
            verdict: Verdict::ALLOW,
            limit,
            remaining,
            reset_after: self.full_at.since(now),
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
