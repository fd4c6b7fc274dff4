//! From what was let through, by how much a limit was ever exceeded.
//!
//! For every key it finds, over *every* interval, the largest difference between what was admitted
//! in it and what the limit allows for an interval of that length. At or below zero means that the
//! limit was never exceeded. One pass, constant work per event on average, exact integers, and for
//! each key only so much memory.
//!
//! Whoever asks over a network does not know when exactly a request was let through, only that it
//! was between sending the question and receiving the answer. So an event has a [`Span`], and an
//! interval is held to contain it only if it contains the whole span: what is found is certain,
//! whatever the network did. Logs that know the moment have spans of length zero.
//!
//! Refunds are not part of a log: do not give any back while one is taken. This crate must not know
//! who keeps the log, nor how the algorithms compute what they promise.

mod bound;
#[cfg(test)]
mod tests;
mod track;

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;

use tollgate::Micros;

pub use bound::{Bound, Excess};
pub use track::{Interval, Span, Track};

/// One decision, as logged.
#[derive(Clone, Debug)]
pub struct Event<K> {
    /// When, on the timeline by which the limit counts.
    pub at: Micros,
    /// Whose counter.
    pub key: K,
    /// How much was asked for.
    pub cost: u64,
    /// Whether it was let through.
    pub allowed: bool,
}

/// The interval in which a key came closest to its bound, or went furthest beyond it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorstInterval<K> {
    /// Whose.
    pub key: K,
    /// Its first event.
    pub start: Micros,
    /// Its last event.
    pub end: Micros,
    /// What was admitted in it.
    pub admitted: u128,
    /// By how much that is over what was allowed.
    pub excess: Excess,
}

impl<K: fmt::Debug> fmt::Display for WorstInterval<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            start,
            end,
            admitted,
            excess,
        } = self;
        write!(
            f,
            "{key:?} was admitted {admitted} from {start:?} to {end:?}, {excess} over its limit"
        )
    }
}

/// Reads a log whose moments are known, and remembers the worst interval of every key.
#[derive(Clone, Debug)]
pub struct OverAdmission<K> {
    bound: Bound,
    tracks: HashMap<K, (Micros, Track)>,
}

impl<K: Eq + Hash + Clone> OverAdmission<K> {
    /// Nothing read yet.
    pub fn new(bound: Bound) -> Self {
        Self {
            bound,
            tracks: HashMap::new(),
        }
    }

    /// Reads a whole log, each key's events in the order of time.
    ///
    /// # Panics
    ///
    /// If a key's events are not in the order of time.
    pub fn of(bound: Bound, log: impl IntoIterator<Item = Event<K>>) -> Self {
        let mut checker = Self::new(bound);
        log.into_iter().for_each(|event| checker.read(event));
        checker
    }

    /// Reads one event, not earlier than the last one of its key.
    ///
    /// # Panics
    ///
    /// If it is earlier.
    pub fn read(&mut self, event: Event<K>) {
        if event.allowed && event.cost > 0 {
            let new = || (event.at, Track::exact(self.bound));
            let (last, track) = self.tracks.entry(event.key).or_insert_with(new);
            assert!(
                *last <= event.at,
                "a log is read in the order of time: {last:?} came after {:?}",
                event.at
            );
            *last = event.at;
            track.admit(Span::moment(event.at), event.cost);
        }
    }

    /// The worst interval of one key; `None` when nothing of it was admitted.
    pub fn worst_of(&self, key: &K) -> Option<WorstInterval<K>> {
        self.tracks
            .get(key)
            .and_then(|(_, track)| worst_on(key, track))
    }

    /// The worst interval of all; `None` when nothing was admitted.
    pub fn worst(&self) -> Option<WorstInterval<K>> {
        let all = self
            .tracks
            .iter()
            .filter_map(|(key, (_, track))| worst_on(key, track));
        all.max_by_key(|worst| worst.excess.parts().0)
    }
}

fn worst_on<K: Clone>(key: &K, track: &Track) -> Option<WorstInterval<K>> {
    let Interval {
        start,
        end,
        admitted,
        excess,
    } = track.worst()?;
    Some(WorstInterval {
        key: key.clone(),
        start,
        end,
        admitted,
        excess,
    })
}
