//! Monitors whether the store is available: keeps the state, logs its changes and counts errors.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::log;
use crate::decision::Decision;
use crate::store::StoreError;
use crate::time::Micros;

/// An outage ends when the store replies and the last failure is longer ago than this. In a cluster
/// that lost some of its slots, successes and failures alternate; they are one outage, with one log
/// line.
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
    /// The duration of all outages together, including the current one. An outage counts from its
    /// first failure to the first reply after its last one, so a single slow reply counts for as
    /// long as it took until the next one came.
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
    /// True while an outage is recent for some limit. Without one, a decision reads only this flag.
    has_recent_outage: AtomicBool,
    /// When the store failed last, in microseconds.
    last_failure: AtomicU64,
    /// For how long after it the outage is recent, in microseconds: the longest time of all limits
    /// that local counters have decided.
    recent_micros: AtomicU64,
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
    /// The first reply after the last failure that shows that the store has recovered.
    recovered_at: Option<Micros>,
    /// True if the store replied to the last failed call, but refused it. Such a store may still
    /// answer reads, so only a charge shows that it has recovered.
    is_refusing: bool,
    /// How many requests were decided by failure policies.
    decisions: u64,
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
            let recovered_at = current.recovered_at.map_or(now, |at| at.min(now));
            current.recovered_at = Some(recovered_at);
            if now.since(current.last_failure) <= QUIET_TIME {
                return;
            }

            self.is_degraded.store(false, Relaxed);
            // Under the lock, so that `health` always counts the outage exactly once.
            let duration = recovered_at.since(current.since);
            self.past_micros.fetch_add(duration.get(), Relaxed);
            outage.take().map(|outage| (outage, duration))
        };

        // The lock is released before logging, because a subscriber may call the limiter.
        if let Some((outage, duration)) = ended {
            log::outage_ended(duration.get() / 1_000, outage.decisions);
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
                    decisions: 0,
                }
            });
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
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(in crate::limiter) fn health(&self, now: Micros) -> Health {
        let (degraded_since, current, past) = {
            let outage = self.outage.lock();
            let since = outage.as_ref().map(|outage| outage.since);
            let duration = outage.as_ref().map_or(Micros::ZERO, |outage| {
                outage.recovered_at.unwrap_or(now).since(outage.since)
            });
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
            },
        }
    }
}
