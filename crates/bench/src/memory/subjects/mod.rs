//! What is measured. Each subject is set up the way its own documentation would for speed, and
//! asked through the call that a program would make.

mod atomic_counter;
mod governor;
mod ratelimit;
mod throttlecrab;
mod tollgate;

use super::entrant::{Entrant, Kind};

/// What a key may do, in numbers that every subject can express.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ration {
    pub(super) burst: u32,
    /// So many come back every `period_secs`.
    pub(super) count: u32,
    pub(super) period_secs: u32,
}

impl Ration {
    /// Nothing is ever refused, and no key is ever full again, so that no subject may forget one
    /// while it is measured.
    pub(super) const AMPLE: Self = Self {
        burst: 1_000_000_000,
        count: 3,
        period_secs: 7,
    };
    /// Used up after ten, and for the rest of the run.
    pub(super) const SCARCE: Self = Self {
        burst: 10,
        count: 1,
        period_secs: 86_400,
    };
}

/// How to set a subject up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) ration: Ration,
    /// The most keys to keep, for subjects that know such a bound.
    pub(super) keys_max: u32,
}

/// A rate limiter. Everything here is resolved at compile time, so that a subject pays for nothing
/// but itself.
pub(super) trait Subject: Sync + Sized + 'static {
    const NAME: &'static str;

    fn new(setup: &Setup) -> Self;

    /// Asks for one request of this key, from any thread.
    #[expect(
        clippy::ptr_arg,
        reason = "governor's map is asked with a reference to its own key type"
    )]
    fn allow(&self, key: &String) -> bool;

    /// The same for a program of one thread, where that is cheaper.
    #[inline]
    fn allow_alone(&mut self, key: &String) -> bool {
        self.allow(key)
    }

    /// How many keys it keeps, where it can tell.
    fn keys(&self) -> Option<usize>;
}

/// The subjects for traffic of many keys.
pub(super) fn keyed() -> Vec<Box<dyn Entrant>> {
    let mut subjects = with_keys();
    subjects.insert(6, Kind::<ratelimit::Keyed>::entrant());
    subjects
}

/// The subjects for traffic of one key.
pub(super) fn single() -> Vec<Box<dyn Entrant>> {
    let mut subjects = with_keys();
    subjects.insert(6, Kind::<ratelimit::Single>::entrant());
    subjects
}

fn with_keys() -> Vec<Box<dyn Entrant>> {
    vec![
        Kind::<tollgate::Bucket>::entrant(),
        Kind::<tollgate::AllowedOnly>::entrant(),
        Kind::<tollgate::Sliding>::entrant(),
        Kind::<governor::DefaultGovernor>::entrant(),
        Kind::<governor::WithAhash>::entrant(),
        Kind::<governor::OneLock>::entrant(),
        Kind::<throttlecrab::Periodic>::entrant(),
    ]
}

/// Not a rate limiter, but as fast as memory would let one be.
pub(super) fn limit() -> Box<dyn Entrant> {
    Kind::<atomic_counter::AtomicCounter>::entrant()
}

/// The subjects whose behaviour under a flood of new keys is shown.
pub(super) fn flooded() -> Vec<Box<dyn Entrant>> {
    vec![
        Kind::<tollgate::Bucket>::entrant(),
        Kind::<tollgate::Sliding>::entrant(),
        Kind::<governor::DefaultGovernor>::entrant(),
        Kind::<throttlecrab::Periodic>::entrant(),
    ]
}

/// What a reader has to know to judge the numbers.
pub(super) const NOTES: [&str; 8] = [
    "tollgate: the token bucket, limiter.check(\"api\", key).now_or_never(), a whole decision; tollgate-is-allowed: a limit looked \
     up once, api.check(key).passes(), a yes or no; tollgate-sliding: the sliding window, a whole decision.",
    "governor: DashMap and SipHash, as it comes; governor-ahash: DashMap and aHash; governor-hashmap: one parking_lot::Mutex \
     around std's HashMap. All keyed by String. Ratios are to governor as it comes.",
    "ratelimit has no keys. In hot and denied-hot it is one bare limiter that is never looked up; elsewhere a \
     DashMap<String, Ratelimiter> with aHash, which is the caller's own work.",
    "throttlecrab: PeriodicStore, the fastest of its stores with many keys (the other two scan all keys every so many \
     operations). It needs &mut: owned outright with 1 thread, behind a parking_lot::Mutex with more. It is handed \
     SystemTime::now(), as in its documentation.",
    "tollgate and throttlecrab answer with what remains and when to retry; governor and ratelimit answer yes or no, and on no \
     how long to wait.",
    "atomic-counter is what the machine allows, no limiter: it hashes the key once, reads the time and puts it into one atomic word \
     of 32 bytes for each key. It confuses keys and refuses nothing. So short a loop has several questions under way at once, \
     which a server does not.",
    "In uniform and zipf the texts of the keys lie in memory as far away as their counters, which costs every subject the \
     same two cache misses beside its own. In uniform-read and zipf-read each text was just written, as by a server that \
     has read a request; writing it is part of the time.",
    "Only tollgate has a bound on keys; governor forgets when its user calls retain_recent, which nothing here does.",
];
