//! Monitors whether the store is available: keeps the state, logs its changes and counts errors.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::local_fallback::LocalFallback;
use super::log;
use crate::decision::Decision;
use crate::store::StoreError;
use crate::time::Micros;

/// An outage ends when the store replies and the last failure is longer ago than this. In a cluster
/// that lost some of its slots, successes and failures alternate; they are one outage, with one log
/// line and one set of local counters.
const QUIET_TIME: Micros = Micros::from_secs(1);

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
    /// The duration of all outages together, including the current one.
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
    /// Calls that timed out.
    pub timeout: u64,
    /// Calls during which the store could not be reached.
    pub unavailable: u64,
    /// Calls that were not sent because too many were in flight.
    pub overloaded: u64,
    /// Calls that the store refused.
    pub refused: u64,
}

impl StoreErrors {
    /// Every kind, named as by [`StoreError::kind`], with its count.
    pub const fn by_kind(&self) -> [(&'static str, u64); 4] {
        [
            ("timeout", self.timeout),
            ("unavailable", self.unavailable),
            ("overloaded", self.overloaded),
            ("refused", self.refused),
        ]
    }

    /// The number of errors of all kinds.
    pub const fn total(&self) -> u64 {
        self.timeout + self.unavailable + self.overloaded + self.refused
    }
}

/// The state of the store as one limiter sees it, and the counters of [`Health`].
#[derive(Debug, Default)]
pub(in crate::limiter) struct StoreMonitor {
    /// True during an outage. Without one, a success reads only this flag.
    is_degraded: AtomicBool,
    outage: Mutex<Option<Outage>>,
    /// The duration of all past outages, in microseconds.
    past_micros: AtomicU64,
    allowed: AtomicU64,
    denied: AtomicU64,
    timeout: AtomicU64,
    unavailable: AtomicU64,
    overloaded: AtomicU64,
    refused: AtomicU64,
}

/// The current outage.
#[derive(Debug)]
struct Outage {
    since: Micros,
    last_failure: Micros,
    /// True if the store replied to the last failed call, but refused it. Such a store may still
    /// answer reads, so only a charge shows that it has recovered.
    is_refusing: bool,
    /// How many requests were decided by failure policies.
    decisions: u64,
    local: LocalFallback,
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
            if !is_proof || now.since(current.last_failure) <= QUIET_TIME {
                return;
            }

            self.is_degraded.store(false, Relaxed);
            // Under the lock, so that `health` always counts the outage exactly once.
            self.past_micros
                .fetch_add(now.since(current.since).get(), Relaxed);
            outage.take()
        };

        // The lock is released before logging, because a subscriber may call the limiter.
        if let Some(outage) = ended {
            let degraded_ms = now.since(outage.since).get() / 1_000;
            log::outage_ended(degraded_ms, outage.decisions);
        }
    }

    /// Records that the store failed and a request falls back to its limits' policies. Returns the
    /// local counters of the outage; if the outage begins now, they are created by `create`.
    pub(in crate::limiter) fn record_failure(
        &self,
        error: &StoreError,
        now: Micros,
        create: impl FnOnce() -> LocalFallback,
    ) -> LocalFallback {
        self.count_error(error);

        let (is_new, local) = {
            let mut outage = self.outage.lock();
            let is_new = outage.is_none();
            let current = outage.get_or_insert_with(|| {
                self.is_degraded.store(true, Relaxed);
                Outage {
                    since: now,
                    last_failure: now,
                    is_refusing: false,
                    decisions: 0,
                    local: create(),
                }
            });
            current.last_failure = now;
            current.is_refusing = matches!(error, StoreError::Refused(_));
            current.decisions += 1;
            (is_new, current.local.clone())
        };

        if is_new {
            log::outage_began(error);
        }
        local
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
        };
        counter.fetch_add(1, Relaxed);
    }

    /// The local counters of the current outage, if there is one.
    pub(in crate::limiter) fn local_fallback(&self) -> Option<LocalFallback> {
        if !self.is_degraded() {
            return None;
        }
        self.outage
            .lock()
            .as_ref()
            .map(|outage| outage.local.clone())
    }

    pub(in crate::limiter) fn health(&self, now: Micros) -> Health {
        let (degraded_since, past) = {
            let outage = self.outage.lock();
            let since = outage.as_ref().map(|outage| outage.since);
            (since, self.past_micros.load(Relaxed))
        };
        let current = degraded_since.map_or(Micros::ZERO, |since| now.since(since));

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
            },
        }
    }
}
