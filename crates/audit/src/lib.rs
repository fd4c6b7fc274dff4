//! Checks from a log of admissions by how much a rate limit was exceeded.
//!
//! For every key, the audit finds the interval with the largest excess: the difference between what
//! was admitted in the interval and what the limit allows for an interval of that length. It
//! considers *all* intervals. An excess at or below zero means that the limit held. The audit needs
//! one pass over the log, constant time per event on average, bounded memory per key, and only
//! integer arithmetic.
//!
//! A client on a network does not know when exactly its request was admitted, only that it was
//! between sending the request and receiving the response. So an admission has a [`TimeSpan`], and an
//! interval contains it only if it contains the whole span. An excess that is found is therefore
//! certain, whatever the delays of the network. Logs with exact times use spans of length zero.
//!
//! Refunds are not supported: the log must be free of them. This crate does not depend on how the
//! log was made, nor on how the algorithms keep their promises.
//!
//! ```
//! use tollgate::Micros;
//! use tollgate_audit::{Bound, Event, OverAdmission};
//!
//! // At most 2 in any second.
//! let bound = Bound::PerWindow { limit: 2, window: Micros::from_secs(1) };
//! let log = [0, 400, 900].map(|ms| Event {
//!     at: Micros::from_millis(ms),
//!     key: "ann",
//!     cost: 1,
//!     allowed: true,
//! });
//!
//! let worst = OverAdmission::from_log(bound, log).worst().unwrap();
//! assert_eq!(worst.admitted, 3);
//! assert!(worst.excess.is_over());
//! ```

mod bound;
#[cfg(test)]
mod tests;
mod track;

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;

use tollgate::Micros;

pub use bound::{Bound, Excess};
pub use track::{AdmissionTrack, AuditInterval, TimeSpan};

/// A logged decision.
#[derive(Clone, Debug)]
pub struct Event<K> {
    /// The time of the decision, by the clock of the limit.
    pub at: Micros,
    /// The key of the counter.
    pub key: K,
    /// The cost of the request, in units.
    pub cost: u64,
    /// Whether it was allowed. Denied requests are ignored.
    pub allowed: bool,
}

/// The interval with the largest excess of a key. If the limit held, the one closest to an excess.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorstInterval<K> {
    /// The key.
    pub key: K,
    /// Time of its first event.
    pub start: Micros,
    /// Time of its last event.
    pub end: Micros,
    /// Units admitted in it.
    pub admitted: u128,
    /// Units above what the limit allows; below zero if the limit held.
    pub excess: Excess,
}

impl<K: fmt::Debug> fmt::Display for WorstInterval<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} was admitted {} from {:?} to {:?}, {} over its limit",
            self.key, self.admitted, self.start, self.end, self.excess
        )
    }
}

/// Audits a log with exact times, and keeps the worst interval of every key.
#[derive(Clone, Debug)]
pub struct OverAdmission<K> {
    bound: Bound,
    tracks: HashMap<K, (Micros, AdmissionTrack)>,
}

impl<K: Eq + Hash + Clone> OverAdmission<K> {
    /// An audit without events.
    pub fn new(bound: Bound) -> Self {
        Self {
            bound,
            tracks: HashMap::new(),
        }
    }

    /// Audits a whole log. The events of each key must be in the order of time.
    ///
    /// # Panics
    ///
    /// Panics if the events of a key are not in the order of time.
    pub fn from_log(bound: Bound, log: impl IntoIterator<Item = Event<K>>) -> Self {
        let mut audit = Self::new(bound);
        log.into_iter().for_each(|event| audit.read(event));
        audit
    }

    /// Adds an event. It must not be earlier than the last one of its key.
    ///
    /// # Panics
    ///
    /// Panics if it is earlier.
    pub fn read(&mut self, event: Event<K>) {
        if event.allowed && event.cost > 0 {
            let new = || (event.at, AdmissionTrack::new(self.bound));
            let (last, track) = self.tracks.entry(event.key).or_insert_with(new);
            assert!(
                *last <= event.at,
                "events must be in the order of time: {:?} came after {last:?}",
                event.at
            );

            *last = event.at;
            track.admit(TimeSpan::exact(event.at), event.cost);
        }
    }

    /// The worst interval of one key. `None` if nothing was admitted for it.
    pub fn worst_of(&self, key: &K) -> Option<WorstInterval<K>> {
        self.tracks
            .get(key)
            .and_then(|(_, track)| worst_on(key, track))
    }

    /// The worst interval of all keys. `None` if nothing was admitted.
    pub fn worst(&self) -> Option<WorstInterval<K>> {
        let all = self
            .tracks
            .iter()
            .filter_map(|(key, (_, track))| worst_on(key, track));
        all.max_by_key(|worst| worst.excess.parts().0)
    }
}

fn worst_on<K: Clone>(key: &K, track: &AdmissionTrack) -> Option<WorstInterval<K>> {
    let worst = track.worst()?;
    Some(WorstInterval {
        key: key.clone(),
        start: worst.start,
        end: worst.end,
        admitted: worst.admitted,
        excess: worst.excess,
    })
}
