//! The subjects. Each is configured for speed as its own documentation recommends, and called as an
//! application calls it.

mod others;
mod tollgate;

use super::footprint;
use super::timed::{self, Filled};
use crate::harness::Figures;

/// The quota of a key, in numbers that every subject can express.
#[derive(Clone, Copy, Debug)]
pub(super) struct SubjectQuota {
    pub(super) burst: u32,
    /// Units refilled every `period_secs`.
    pub(super) count: u32,
    pub(super) period_secs: u32,
}

impl SubjectQuota {
    /// Never denies, and no key is ever full again, so that no subject may drop a key while it is
    /// measured.
    pub(super) const AMPLE: Self = Self {
        burst: 1_000_000_000,
        count: 3,
        period_secs: 7,
    };
    /// Used up after ten requests, for the rest of the run.
    pub(super) const SCARCE: Self = Self {
        burst: 10,
        count: 1,
        period_secs: 86_400,
    };
}

/// How to set up a subject.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) quota: SubjectQuota,
    /// The most keys to store, for subjects that have such a bound.
    pub(super) keys_max: u32,
}

/// A rate limiter. Calls are resolved at compile time, so that a subject pays for nothing but
/// itself.
pub(super) trait Subject: Sync + Sized + 'static {
    fn new(setup: &Setup) -> Self;

    /// Checks one request of this key, from any thread.
    #[expect(
        clippy::ptr_arg,
        reason = "governor's map takes a reference to its own key type"
    )]
    fn allow(&self, key: &String) -> bool;

    /// The same for a program with one thread, where that is cheaper.
    #[inline]
    fn allow_alone(&mut self, key: &String) -> bool {
        self.allow(key)
    }

    /// The number of keys that it stores, if it reports that.
    fn keys(&self) -> Option<usize> {
        None
    }
}

/// A type of subject, as functions that are compiled for it.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) fill: fn(&Setup, &[String], bool) -> Filled,
    pub(super) insert: fn(&Setup, &[String]) -> Figures,
    pub(super) footprint: fn(&Setup, &[String]) -> Figures,
    pub(super) flood: fn(&Setup, u32) -> Figures,
}

impl Kind {
    const fn new<S: Subject>(name: &'static str) -> Self {
        Self {
            name,
            fill: timed::fill::<S>,
            insert: timed::insert::<S>,
            footprint: footprint::footprint::<S>,
            flood: footprint::flood::<S>,
        }
    }
}

/// The subjects for traffic with many keys.
pub(super) const KEYED: [Kind; 8] = with_ratelimit(Kind::new::<others::Keyed>("ratelimit"));

/// The subjects for traffic with one key.
pub(super) const SINGLE: [Kind; 8] = with_ratelimit(Kind::new::<others::Single>("ratelimit"));

const fn with_ratelimit(ratelimit: Kind) -> [Kind; 8] {
    [
        BUCKET,
        Kind::new::<tollgate::IsAllowed>("tollgate-is-allowed"),
        SLIDING,
        GOVERNOR,
        Kind::new::<others::AhashGovernor>("governor-ahash"),
        Kind::new::<others::HashMapGovernor>("governor-hashmap"),
        ratelimit,
        THROTTLECRAB,
    ]
}

const BUCKET: Kind = Kind::new::<tollgate::Bucket>("tollgate");
const SLIDING: Kind = Kind::new::<tollgate::Sliding>("tollgate-sliding");
const GOVERNOR: Kind = Kind::new::<others::DefaultGovernor>("governor");
const THROTTLECRAB: Kind = Kind::new::<others::Periodic>("throttlecrab");

/// The subjects that can be selected by name.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KEYED.iter().chain([&ATOMIC_COUNTER]).map(|kind| kind.name)
}

/// Not a rate limiter, but as fast as memory allows one to be.
pub(super) const ATOMIC_COUNTER: Kind = Kind::new::<others::AtomicCounter>("atomic-counter");

/// The subjects whose behaviour under a flood of new keys is shown.
pub(super) const FLOODED: [Kind; 4] = [BUCKET, SLIDING, GOVERNOR, THROTTLECRAB];
