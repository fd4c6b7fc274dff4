//! The memory of a subject: bytes per key, and what a flood of keys that are used only once does to
//! it, as an attacker sends them.
//!
//! Tables double in size when they are full, so the bytes at one number of keys are a matter of
//! luck. Therefore the lowest and the highest value between half of the keys and all of them are
//! given as well: one doubling covers every load factor.

use std::any::type_name;

use super::allocator::Count;
use super::cases::{names, write_name};
use super::subjects::{Setup, Subject};
use crate::harness::{Figures, Span, float, time};

/// Bytes per key with all keys, and the lowest and highest from half of them on.
pub(super) const BYTES: &str = "bytes_per_key";
pub(super) const BEST: &str = "best";
pub(super) const WORST: &str = "worst";

/// The configured bound, for subjects that have one.
pub(super) const KEYS_MAX: &str = "keys_max";
pub(super) const KEYS_KEPT: &str = "keys_kept";
pub(super) const PEAK: &str = "peak_bytes";
pub(super) const NS_PER_KEY: &str = "ns_per_insert";
/// The keys that had used up their budget before the flood, and those of them that are still denied
/// afterwards, because they were not forgotten.
pub(super) const OFFENDERS: &str = "offenders";
pub(super) const STILL_DENIED: &str = "offenders_still_denied";

/// How often memory is read between half of the keys and all of them.
const LOOKS: usize = 64;
/// The number of keys that have used up their budget before the flood.
const OFFENDERS_COUNT: u32 = 1_000;
/// Keys are written to reused buffers, outside the measured time and without allocating, so that
/// bytes and nanoseconds are those of the subject.
const BATCH: u32 = 10_000;

pub(super) fn footprint<S: Subject>(setup: &Setup, keys: &[String]) -> Figures {
    let count = Count::start();
    let subject = S::new(setup);
    let (first, second) = keys.split_at(keys.len() / 2);
    let insert = |keys: &[String]| keys.iter().filter(|key| subject.allow(key)).count() as u64;
    let per_key = |known| float(count.live()) / float(known);

    let mut known = insert(first);
    let mut last = per_key(known);
    let (mut best, mut worst) = (last, last);
    for some in second.chunks(second.len().div_ceil(LOOKS).max(1)) {
        known += insert(some);
        last = per_key(known);
        (best, worst) = (best.min(last), worst.max(last));
    }

    Figures::from([(BYTES, last), (BEST, best), (WORST, worst)])
}

/// Sends `keys` new keys.
pub(super) fn flood<S: Subject>(setup: &Setup, keys: u32) -> Figures {
    let offenders: Vec<String> = (0..OFFENDERS_COUNT)
        .map(|number| format!("bad!:{number:010}"))
        .collect();
    let mut batch = names(BATCH);
    let count = Count::start();
    let mut subject = S::new(setup);
    for key in &offenders {
        while subject.allow_alone(key) {}
    }

    let mut took = Span::default();
    for start in (0..keys).step_by(BATCH as usize) {
        for (number, key) in (start..).zip(&mut batch) {
            write_name(number, key);
        }
        let (span, allowed) = time(|| batch.iter().filter(|key| subject.allow_alone(key)).count());
        assert_eq!(
            allowed,
            batch.len(),
            "{} denied a new key",
            type_name::<S>()
        );
        took += span;
    }

    let is_denied = |key: &&String| !subject.allow_alone(key);
    let still_denied = offenders.iter().filter(is_denied).count();
    let mut figures = Figures::from([
        (PEAK, float(count.peak())),
        (NS_PER_KEY, took.ns_per_op(keys)),
        (OFFENDERS, f64::from(OFFENDERS_COUNT)),
        (STILL_DENIED, float(still_denied as u64)),
    ]);
    figures.extend(subject.keys().map(|kept| (KEYS_KEPT, float(kept as u64))));
    figures
}
