//! Monitors whether the store is available: keeps the state, logs its changes and counts errors.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::log;
use crate::decision::Decision;
use crate::demand::Demand;
use crate::store::StoreError;
use crate::time::Micros;

/// An outage ends when the store replies and the last failure is longer ago than this. In a cluster
/// that lost some of its slots, successes and failures alternate; they are one outage, with one log
/// line.
const QUIET_TIME: Micros = Micros::from_secs(1);

/// How often a failing program of the store is logged.
const SCRIPT_LOG_EVERY: Micros = Micros::from_secs(60);

/// The health of a limiter's store: see [`Limiter::health`](crate::Limiter::health).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// True while limits decide by their failure policies, and until the store has replied without
    /// a failure for a second. If the store refused calls, its reply must be to a charge: a store
    /// that refuses writes may still answer reads.
    pub degraded: bool,
    /// When the current outage began, on the limiter's clock; `None` when there is none.
    pub degraded_since: Option<Micros>,
    /// How long the store was unavailable altogether: the time from each failure to the next reply
    /// of the store. What the store decides between two failures does not count, so a store that
    /// fails one of a thousand calls is unavailable for about a thousandth of the time.
    pub degraded_for: Micros,
    /// How many requests failure policies have allowed.
    pub degraded_allowed: u64,
    /// How many requests failure policies have denied.
    pub degraded_denied: u64,
    /// How many store calls have failed.
    pub store_errors: StoreErrors,
}

/// Failed store calls by [kind](StoreError::kind).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreErrors {
    /// Calls to which the store did not reply in time.
    pub timeout: u64,
    /// Calls during which the store could not be reached.
    pub unavailable: u64,
    /// Calls that this process did not make or finish in the time of a decision.
    pub overloaded: u64,
    /// Calls that the store refused.
    pub refused: u64,
    /// Reservations beyond the most that a counter may have.
    pub bound: u64,
    /// Calls that found a malformed counter.
    pub malformed: u64,
    /// Calls in which the store's own program failed.
    pub script: u64,
}

impl StoreErrors {
    /// Every kind, named as by [`StoreError::kind`], with its count.
    pub const fn by_kind(&self) -> [(&'static str, u64); 7] {
        [
            ("store_timeout", self.timeout),
            ("unavailable", self.unavailable),
            ("overload", self.overloaded),
            ("refused", self.refused),
            ("bound", self.bound),
            ("malformed", self.malformed),
            ("script", self.script),
        ]
    }

    /// The number of errors of all kinds.
    pub const fn total(&self) -> u64 {
        let refusals = self.bound + self.malformed + self.script;
        self.timeout + self.unavailable + self.overloaded + self.refused + refusals
    }
}

/// The state of the store as one limiter sees it, and the counters of [`Health`].
#[derive(Debug, Default)]
pub(in crate::limiter) struct StoreMonitor {
    /// True during an outage. Without one, a success reads only this flag.
    is_degraded: AtomicBool,
    outage: Mutex<Option<Outage>>,
    /// True while an outage is recent for some limit. Without one, a decision reads only this flag.
    has_recent_outage: AtomicBool,
    /// When the store failed last, in microseconds.
    last_failure: AtomicU64,
    /// For how long after it the outage is recent, in microseconds: the longest time of all limits
    /// that local counters have decided.
    recent_micros: AtomicU64,
    /// How long the store was unavailable in all past outages, in microseconds.
    past_micros: AtomicU64,
    allowed: AtomicU64,
    denied: AtomicU64,
    timeout: AtomicU64,
    unavailable: AtomicU64,
    overloaded: AtomicU64,
    refused: AtomicU64,
    bound: AtomicU64,
    malformed: AtomicU64,
    script: AtomicU64,
    /// When a failure of the store's own program was logged last, in microseconds.
    script_logged_at: AtomicU64,
}

/// The current outage.
#[derive(Debug)]
struct Outage {
    since: Micros,
    last_failure: Micros,
    /// When the first reply after the last failure showed that the store has recovered.
    recovered_at: Option<Micros>,
    /// True if the store replied to the last failed call, but refused it. Such a store may still
    /// answer reads, so only a charge shows that it has recovered.
    is_refusing: bool,
    /// How long the store was unavailable up to the last failure or recovery.
    unavailable_for: Micros,
    /// How many requests were decided by failure policies.
    decisions: u64,
}

impl Outage {
    /// How long the store was unavailable so far.
    fn unavailable_until(&self, now: Micros) -> Micros {
        match self.recovered_at {
            None => self.unavailable_for.after(now.since(self.last_failure)),
            Some(_) => self.unavailable_for,
        }
    }
}

impl StoreMonitor {
    /// True during an outage.
    #[inline]
    pub(in crate::limiter) fn is_degraded(&self) -> bool {
        self.is_degraded.load(Relaxed)
    }

    /// Records that the store has replied during an outage. Ends the outage if it has recovered.
    pub(in crate::limiter) fn record_success(&self, now: Micros, was_charged: bool) {
        let ended = {
            // If the lock is taken, another thread is doing the same, or records a failure.
            let Some(mut outage) = self.outage.try_lock() else {
                return;
            };
            let Some(current) = outage.as_mut() else {
                return;
            };

            // If the clock was set back, the outage must not last until the clock catches up.
            current.last_failure = current.last_failure.min(now);
            let is_proof = was_charged || !current.is_refusing;
            if !is_proof {
                return;
            }
            current.unavailable_for = current.unavailable_until(now);
            current.recovered_at.get_or_insert(now);
            if now.since(current.last_failure) <= QUIET_TIME {
                return;
            }

            self.is_degraded.store(false, Relaxed);
            // Under the lock, so that `health` always counts the outage exactly once.
            self.past_micros
                .fetch_add(current.unavailable_for.get(), Relaxed);
            outage.take()
        };

        // The lock is released before logging, because a subscriber may call the limiter.
        if let Some(outage) = ended {
            log::outage_ended(outage.unavailable_for.get() / 1_000, outage.decisions);
        }
    }

    /// Records that the store failed and a request falls back to its limits' policies. The outage
    /// is recent for `recent_time`; `None` if no local counter decides the request.
    pub(in crate::limiter) fn record_failure(
        &self,
        error: &StoreError,
        now: Micros,
        recent_time: Option<Micros>,
    ) {
        self.count_error(error);

        let is_new = {
            let mut outage = self.outage.lock();
            let is_new = outage.is_none();
            let current = outage.get_or_insert_with(|| {
                self.is_degraded.store(true, Relaxed);
                Outage {
                    since: now,
                    last_failure: now,
                    recovered_at: None,
                    is_refusing: false,
                    unavailable_for: Micros::ZERO,
                    decisions: 0,
                }
            });
            current.unavailable_for = current.unavailable_until(now);
            current.last_failure = now;
            current.recovered_at = None;
            current.is_refusing = matches!(error, StoreError::Refused(_));
            current.decisions += 1;

            self.last_failure.store(now.get(), Relaxed);
            if let Some(recent_time) = recent_time {
                self.recent_micros.fetch_max(recent_time.get(), Relaxed);
                self.has_recent_outage.store(true, Relaxed);
            }
            is_new
        };

        if is_new {
            log::outage_began(error);
        }
    }

    /// Counts a fault in the store, by which a request is denied or an operation fails, and logs it:
    /// a malformed counter with its key, and a failing program once a minute.
    pub(in crate::limiter) fn record_refusal(
        &self,
        error: &StoreError,
        demands: &[Demand<'_>],
        now: Micros,
    ) {
        self.count_error(error);
        match error {
            StoreError::Malformed { limit } => {
                let is_only = demands.len() == 1 && limit.is_none();
                let is_found =
                    |demand: &&Demand<'_>| is_only || Some(*demand.limit.name()) == *limit;
                log::malformed_counter(error, demands.iter().find(is_found));
            }
            StoreError::Script(_) => {
                let last = Micros::new(self.script_logged_at.load(Relaxed));
                if last == Micros::ZERO || now.since(last) >= SCRIPT_LOG_EVERY || now < last {
                    self.script_logged_at.store(now.get(), Relaxed);
                    log::script_failed(error);
                }
            }
            _ => {}
        }
    }

    /// True while an outage is recent for some limit.
    #[inline]
    pub(in crate::limiter) fn has_recent_outage(&self) -> bool {
        self.has_recent_outage.load(Relaxed)
    }

    /// The time since the last failure; `None` if the outage is no longer recent for any limit.
    pub(in crate::limiter) fn time_since_outage(&self, now: Micros) -> Option<Micros> {
        if now.get() < self.last_failure.load(Relaxed) {
            // The clock was set back. The outage must not be recent until the clock catches up.
            self.last_failure.store(now.get(), Relaxed);
        }
        let elapsed = || now.since(Micros::new(self.last_failure.load(Relaxed)));
        let is_recent = || elapsed().get() <= self.recent_micros.load(Relaxed);
        if is_recent() {
            return Some(elapsed());
        }

        // Under the lock, so that a failure that is recorded meanwhile is not forgotten.
        let _outage = self.outage.lock();
        if !is_recent() {
            self.has_recent_outage.store(false, Relaxed);
        }
        None
    }

    /// Counts a decision by failure policies.
    pub(in crate::limiter) fn count_decision(&self, decision: &Decision) {
        let counter = if decision.is_allowed() {
            &self.allowed
        } else {
            &self.denied
        };
        counter.fetch_add(1, Relaxed);
    }

    /// Counts an error. This alone does not begin an outage: only a check that falls back does.
    pub(in crate::limiter) fn count_error(&self, error: &StoreError) {
        let counter = match error {
            StoreError::Timeout => &self.timeout,
            StoreError::Unavailable(_) => &self.unavailable,
            StoreError::Overloaded => &self.overloaded,
            StoreError::Refused(_) => &self.refused,
            StoreError::Bound { .. } => &self.bound,
            StoreError::Malformed { .. } => &self.malformed,
            StoreError::Script(_) => &self.script,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(in crate::limiter) fn health(&self, now: Micros) -> Health {
        let (degraded_since, current, past) = {
            let outage = self.outage.lock();
            let since = outage.as_ref().map(|outage| outage.since);
            let duration = outage
                .as_ref()
                .map_or(Micros::ZERO, |outage| outage.unavailable_until(now));
            (since, duration, self.past_micros.load(Relaxed))
        };

        Health {
            degraded: degraded_since.is_some(),
            degraded_since,
            degraded_for: Micros::new(past).after(current),
            degraded_allowed: self.allowed.load(Relaxed),
            degraded_denied: self.denied.load(Relaxed),
            store_errors: StoreErrors {
                timeout: self.timeout.load(Relaxed),
                unavailable: self.unavailable.load(Relaxed),
                overloaded: self.overloaded.load(Relaxed),
                refused: self.refused.load(Relaxed),
                bound: self.bound.load(Relaxed),
                malformed: self.malformed.load(Relaxed),
                script: self.script.load(Relaxed),
            },
        }
    }
}
