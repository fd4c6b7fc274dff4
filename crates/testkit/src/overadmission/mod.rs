//! From a log of what was let through, by how much the limit was ever exceeded.
//!
//! One pass, constant work per event on average, exact integers. For every key it finds, over *every* interval, the largest
//! difference between what was admitted in it and what the limit allows for an interval of that length. At or below
//! zero means that the limit was never exceeded. Refunds are not part of a log: do not give any back while one is taken.

#[cfg(test)]
mod tests;
mod tracks;

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;

use tollgate::algorithm::WindowStart;
use tollgate::{Calendar, Micros, Quota};

use tracks::Track;

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

/// What a limit allows in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// In any closed interval of length s at most `burst + per * s / period_micros`.
    Rate {
        /// What may come at once.
        burst: u64,
        /// So many ...
        per: u64,
        /// ... every so many microseconds.
        period_micros: u64,
    },
    /// In any half-open interval of length `window` at most `limit`.
    PerWindow {
        /// The most.
        limit: u64,
        /// The length.
        window: Micros,
    },
}

impl Bound {
    /// What the algorithm promises for any interval; a concurrency limit promises nothing about intervals.
    pub fn for_quota(quota: &Quota) -> Option<Self> {
        let limit = quota.limit();
        let rate = |(per, period_micros)| Some(Self::Rate { burst: limit, per, period_micros });
        let twice = |window| Some(Self::PerWindow { limit: 2 * limit, window });
        match quota {
            Quota::SlidingLog(quota) => Some(Self::PerWindow { limit, window: quota.window() }),
            Quota::SlidingWindow(quota) => twice(quota.window()),
            Quota::FixedWindow(quota) => match quota.start() {
                WindowStart::FirstHit(length) => twice(length),
                WindowStart::Clock(unit) => twice(shortest(unit)),
            },
            Quota::TokenBucket(quota) => rate(quota.refill()),
            Quota::LeakyBucket(quota) => rate(quota.leak()),
            Quota::Concurrency(_) => None,
        }
    }

    const fn denominator(self) -> u64 {
        match self {
            Self::Rate { period_micros, .. } => period_micros,
            Self::PerWindow { .. } => 1,
        }
    }
}

/// An interval of the shortest length that a unit can have meets at most two units. Only months differ in length.
fn shortest(unit: Calendar) -> Micros {
    if unit == Calendar::Month { Micros::from_secs(28 * 86_400) } else { unit.length_max() }
}

/// An exact number of units over (or, below zero, under) what was allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    numerator: i128,
    denominator: u64,
}

impl Excess {
    /// True when more was admitted than allowed.
    pub const fn is_over(self) -> bool {
        self.numerator > 0
    }

    /// The numerator and the denominator, not in lowest terms.
    pub const fn parts(self) -> (i128, u64) {
        (self.numerator, self.denominator)
    }
}

/// A whole number, or a whole number and a fraction: `-2`, `0`, `3`, `1 1/3`.
impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let denominator = i128::from(self.denominator);
        let (whole, rest) = ((self.numerator / denominator).abs(), (self.numerator % denominator).abs());
        let sign = if self.numerator < 0 { "-" } else { "" };
        match (whole, rest) {
            (whole, 0) => write!(f, "{sign}{whole}"),
            (0, rest) => write!(f, "{sign}{rest}/{denominator}"),
            (whole, rest) => write!(f, "{sign}{whole} {rest}/{denominator}"),
        }
    }
}

/// The interval in which a key came closest to its bound, or went furthest beyond it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worst<K> {
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

impl<K: fmt::Debug> fmt::Display for Worst<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, start, end, admitted, excess } = self;
        write!(f, "{key:?} was admitted {admitted} from {start:?} to {end:?}, {excess} over its limit")
    }
}

/// Reads a log and remembers the worst interval of every key.
#[derive(Clone, Debug)]
pub struct OverAdmission<K> {
    bound: Bound,
    tracks: HashMap<K, Track>,
}

impl<K: Eq + Hash + Clone> OverAdmission<K> {
    /// Nothing read yet.
    pub fn new(bound: Bound) -> Self {
        Self { bound, tracks: HashMap::new() }
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
            let track = self.tracks.entry(event.key).or_insert_with(|| Track::new(self.bound));
            track.admit(event.at, event.cost);
        }
    }

    /// The worst interval of one key; `None` when nothing of it was admitted.
    pub fn worst_of(&self, key: &K) -> Option<Worst<K>> {
        self.tracks.get(key).map(|track| self.worst_on(key, track))
    }

    /// The worst interval of all; `None` when nothing was admitted.
    pub fn worst(&self) -> Option<Worst<K>> {
        let all = self.tracks.iter().map(|(key, track)| self.worst_on(key, track));
        all.max_by_key(|worst| worst.excess.numerator)
    }

    fn worst_on(&self, key: &K, track: &Track) -> Worst<K> {
        let interval = track.worst();
        let excess = Excess { numerator: interval.excess, denominator: self.bound.denominator() };
        Worst {
            key: key.clone(),
            start: interval.start,
            end: interval.end,
            admitted: interval.admitted,
            excess,
        }
    }
}
