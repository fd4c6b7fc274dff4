//! The subjects. Each is configured for speed as its own documentation recommends, and called as an
//! application calls it.

mod atomic_counter;
mod governor;
mod ratelimit;
mod throttlecrab;
mod tollgate;

use super::entrant::{Entrant, SubjectKind};

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
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) quota: SubjectQuota,
    /// The most keys to store, for subjects that have such a bound.
    pub(super) keys_max: u32,
}

/// A rate limiter. Calls are resolved at compile time, so that a subject pays for nothing but
/// itself.
pub(super) trait Subject: Sync + Sized + 'static {
    const NAME: &'static str;

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
    fn keys(&self) -> Option<usize>;
}

/// The subjects for traffic with many keys.
pub(super) fn keyed() -> Vec<Box<dyn Entrant>> {
    let mut subjects = with_keys();
    subjects.insert(6, SubjectKind::<ratelimit::Keyed>::entrant());
    subjects
}

/// The subjects for traffic with one key.
pub(super) fn single() -> Vec<Box<dyn Entrant>> {
    let mut subjects = with_keys();
    subjects.insert(6, SubjectKind::<ratelimit::Single>::entrant());
    subjects
}

fn with_keys() -> Vec<Box<dyn Entrant>> {
    vec![
        SubjectKind::<tollgate::TollgateBucket>::entrant(),
        SubjectKind::<tollgate::TollgateIsAllowed>::entrant(),
        SubjectKind::<tollgate::TollgateSliding>::entrant(),
        SubjectKind::<governor::DefaultGovernor>::entrant(),
        SubjectKind::<governor::AhashGovernor>::entrant(),
        SubjectKind::<governor::HashMapGovernor>::entrant(),
        SubjectKind::<throttlecrab::Periodic>::entrant(),
    ]
}

/// Not a rate limiter, but as fast as memory allows one to be.
pub(super) fn limit() -> Box<dyn Entrant> {
    SubjectKind::<atomic_counter::AtomicCounter>::entrant()
}

/// The subjects whose behaviour under a flood of new keys is shown.
pub(super) fn flooded() -> Vec<Box<dyn Entrant>> {
    vec![
        SubjectKind::<tollgate::TollgateBucket>::entrant(),
        SubjectKind::<tollgate::TollgateSliding>::entrant(),
        SubjectKind::<governor::DefaultGovernor>::entrant(),
        SubjectKind::<throttlecrab::Periodic>::entrant(),
    ]
}

/// What a reader needs to know to interpret the numbers.
pub(super) const NOTES: [&str; 8] = [
    "tollgate: the token bucket, limiter.check(\"api\", key).try_now(), a full decision. \
     tollgate-is-allowed: a limit looked up once, api.check(key).is_allowed(), is_allowed only. \
     tollgate-sliding: the sliding window, a full decision.",
    "governor: DashMap and SipHash, default settings; governor-ahash: DashMap and aHash; \
     governor-hashmap: one parking_lot::Mutex around std's HashMap. All keyed by String. Ratios \
     are to governor with default settings.",
    "ratelimit has no keys. In hot and denied-hot it is one limiter without a lookup; elsewhere a \
     DashMap<String, Ratelimiter> with aHash, which its user has to write.",
    "throttlecrab: PeriodicStore, its fastest store with many keys (the other two scan all keys \
     after a number of operations). It needs &mut: owned by the thread with 1 thread, behind a \
     parking_lot::Mutex with more. It gets SystemTime::now(), as in its documentation.",
    "tollgate and throttlecrab return what remains and when to retry; governor and ratelimit \
     return whether the request is allowed and, if not, how long to wait.",
    "atomic-counter is not a limiter but what the machine allows: it hashes the key once, reads \
     the time and stores it in one atomic word of 32 bytes for each key. It ignores hash \
     collisions and never denies. In so short a loop the processor overlaps several checks, \
     which does not happen in a server.",
    "In uniform and zipf the texts of the keys are in memory as far away as their counters, which \
     costs every subject the same two cache misses in addition to its own. In uniform-read and \
     zipf-read each text was just written, as in a server that has read a request; writing it is \
     part of the time.",
    "Only tollgate has a bound on keys; governor drops keys when its user calls retain_recent, \
     which this benchmark does not.",
];
