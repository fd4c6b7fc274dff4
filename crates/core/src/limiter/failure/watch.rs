//! Whether the store answers: the state, what is logged when it changes, and the counts.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::Local;
use crate::clock::Clock;
use crate::decision::Decision;
use crate::store::StoreError;
use crate::time::Micros;

/// An outage is over when the store answers and has not failed for longer than this. In a cluster
/// that lost some of its slots, answers and failures alternate; they are one outage, with one line
/// in the log and one set of local counters.
const QUIET: Micros = Micros::from_secs(1);

/// How a limiter gets on with its store: see [`Limiter::health`](crate::Limiter::health).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// True while limits answer by their failure policies, and until the store has answered without
    /// a failure for a second.
    pub degraded: bool,
    /// When that began, on the limiter's clock.
    pub degraded_since: Option<Micros>,
    /// How long it has been so until now, all outages together.
    pub degraded_for: Micros,
    /// Decisions by failure policies so far that let the request pass.
    pub degraded_allowed: u64,
    /// Decisions by failure policies so far that refused the request.
    pub degraded_denied: u64,
    /// Questions so far that the store did not answer.
    pub store_errors: StoreErrors,
}

/// How often a store gave no answer, by [kind](StoreError::kind).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreErrors {
    /// Not within its deadline.
    pub timeout: u64,
    /// It could not be reached.
    pub away: u64,
    /// As much was waiting for it as may.
    pub overloaded: u64,
    /// It refused.
    pub refused: u64,
}

impl StoreErrors {
    /// Every kind with its count, in the words of [`StoreError::kind`].
    pub const fn by_kind(&self) -> [(&'static str, u64); 4] {
        [
            ("timeout", self.timeout),
            ("away", self.away),
            ("overloaded", self.overloaded),
            ("refused", self.refused),
        ]
    }

    /// All of them.
    pub const fn total(&self) -> u64 {
        self.timeout + self.away + self.overloaded + self.refused
    }
}

/// Normal, or degraded since a moment.
#[derive(Debug, Default)]
pub(in crate::limiter) struct Watch {
    /// Whether there is an outage: all that an answer has to look at as long as there is none.
    is_degraded: AtomicBool,
    outage: Mutex<Option<Outage>>,
    /// How long the outages took that are over, in microseconds.
    past_micros: AtomicU64,
    allowed: AtomicU64,
    denied: AtomicU64,
    timeout: AtomicU64,
    away: AtomicU64,
    overloaded: AtomicU64,
    refused: AtomicU64,
}

#[derive(Debug)]
struct Outage {
    since: Micros,
    last_failure: Micros,
    decisions: u64,
    local: Local,
}

impl Watch {
    /// The store answered.
    #[inline]
    pub(in crate::limiter) fn answered(&self, clock: &dyn Clock) {
        if self.is_degraded.load(Relaxed) {
            self.answered_again(clock.now());
        }
    }

    #[cold]
    fn answered_again(&self, now: Micros) {
        let over = {
            // Whoever holds the lock is at the same, or counts a failure.
            let Some(mut outage) = self.outage.try_lock() else {
                return;
            };
            let Some(open) = outage.as_mut() else { return };
            // A clock that was set back must not make the outage last until it catches up.
            open.last_failure = open.last_failure.min(now);
            if now.since(open.last_failure) <= QUIET {
                return;
            }
            self.is_degraded.store(false, Relaxed);
            // Before the lock is given up, so that nobody sees the outage in neither place.
            self.past_micros
                .fetch_add(now.since(open.since).get(), Relaxed);
            outage.take()
        };
        // Nothing is locked while it is logged: a subscriber may do as it likes.
        if let Some(Outage {
            since, decisions, ..
        }) = over
        {
            let degraded_ms = now.since(since).get() / 1_000;
            tracing::info!(
                degraded_ms,
                decisions,
                "the store answers again, and limits are counted there"
            );
        }
    }

    /// The store gave no answer to a question that the limits now answer by their policies. Gives
    /// the counters of the outage, fresh ones if this is where it begins.
    pub(super) fn failed(
        &self,
        error: &StoreError,
        now: Micros,
        fresh: impl FnOnce() -> Local,
    ) -> Local {
        self.count(error);
        let (begins, local) = {
            let mut outage = self.outage.lock();
            let begins = outage.is_none();
            let open = outage.get_or_insert_with(|| {
                self.is_degraded.store(true, Relaxed);
                Outage {
                    since: now,
                    last_failure: now,
                    decisions: 0,
                    local: fresh(),
                }
            });
            open.last_failure = now;
            open.decisions += 1;
            (begins, open.local.clone())
        };
        if begins {
            let (kind, error) = (error.kind(), Chain(error));
            tracing::warn!(
                kind,
                %error,
                "the store gives no answer; until it does, limits answer by their failure policies"
            );
        }
        local
    }

    /// A decision was made by policy.
    pub(super) fn decided(&self, decision: &Decision) {
        let counter = if decision.is_allowed() {
            &self.allowed
        } else {
            &self.denied
        };
        counter.fetch_add(1, Relaxed);
    }

    /// Counts an error. This alone begins no outage: no limit had to answer.
    pub(in crate::limiter) fn count(&self, error: &StoreError) {
        let counter = match error {
            StoreError::Timeout => &self.timeout,
            StoreError::Unavailable(_) => &self.away,
            StoreError::Overloaded => &self.overloaded,
            StoreError::Refused(_) => &self.refused,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// The counters of the outage, if there is one.
    pub(in crate::limiter) fn local(&self) -> Option<Local> {
        if !self.is_degraded.load(Relaxed) {
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
            (
                outage.as_ref().map(|outage| outage.since),
                self.past_micros.load(Relaxed),
            )
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
                away: self.away.load(Relaxed),
                overloaded: self.overloaded.load(Relaxed),
                refused: self.refused.load(Relaxed),
            },
        }
    }
}

/// An error with everything that caused it.
struct Chain<'e>(&'e StoreError);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
