//! The memory of a subject: bytes per key, and what a flood of keys that are used only once does to
//! it, as an attacker sends them.
//!
//! Tables double in size when they are full, so the bytes at one number of keys are a matter of
//! luck. Therefore the lowest and the highest value between half of the keys and all of them are
//! given as well: one doubling covers every load factor.

use std::any::type_name;

use super::allocator::Count;
use super::subjects::{Setup, Subject};
use super::timed::{names, write_name};
use crate::harness::prelude::*;

/// How often memory is read between half of the keys and all of them.
const LOOKS: usize = 64;
/// The number of keys that have used up their budget before the flood.
const OFFENDERS_COUNT: u32 = 1_000;
/// Keys are written to reused buffers, outside the measured time and without allocating, so that
/// bytes and nanoseconds are those of the subject.
const BATCH: u32 = 10_000;

pub(super) fn footprint<S: Subject>(setup: Setup, keys: &[String]) -> Figures {
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

    Figures::from([("bytes_per_key", last), ("best", best), ("worst", worst)])
}

/// Sends `keys` new keys.
pub(super) fn flood<S: Subject>(setup: Setup, keys: u32) -> Figures {
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
        let name = type_name::<S>();
        assert_eq!(allowed, batch.len(), "{name} denied a new key");
        took += span;
    }

    let is_denied = |key: &&String| !subject.allow_alone(key);
    let still_denied = offenders.iter().filter(is_denied).count();
    let mut figures = Figures::from([
        ("peak_bytes", float(count.peak())),
        ("ns_per_insert", took.ns_per_op(keys)),
        // The keys that had used up their budget before the flood, and those of them that are still denied
        // afterwards, because they were not forgotten.
        ("offenders", f64::from(OFFENDERS_COUNT)),
        ("offenders_still_denied", float(still_denied as u64)),
    ]);
    figures.extend(subject.keys().map(|kept| ("keys_kept", float(kept as u64))));
    figures
}
