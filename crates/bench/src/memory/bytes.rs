//! Memory per key.
//!
//! Tables double in size when they are full, so the bytes at one number of keys are a matter of
//! luck. Therefore the lowest and the highest value between half of the keys and all of them are
//! given as well: one doubling covers every load factor.

use serde::Serialize;

use super::subjects::{Setup, Subject};
use crate::allocator::Count;
use crate::stats::tenth;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Footprint {
    pub(super) subject: &'static str,
    pub(super) keys: usize,
    pub(super) bytes_per_key: f64,
    pub(super) best: f64,
    pub(super) worst: f64,
}

/// How often memory is read between half of the keys and all of them.
const LOOKS: usize = 64;

pub(super) fn measure<S: Subject>(setup: &Setup, keys: &[String]) -> Footprint {
    let count = Count::start();
    let subject = S::new(setup);
    let (first, second) = keys.split_at(keys.len() / 2);
    let mut known = insert(&subject, first);
    let mut looks = vec![per_key(count.live(), known)];
    for some in second.chunks(second.len().div_ceil(LOOKS).max(1)) {
        known += insert(&subject, some);
        looks.push(per_key(count.live(), known));
    }
    let (best, worst) = looks.iter().fold((f64::MAX, 0.0_f64), |(low, high), look| {
        (low.min(*look), high.max(*look))
    });
    drop(subject);
    let last = looks.last().copied().unwrap_or_default();
    Footprint {
        subject: S::NAME,
        keys: keys.len(),
        bytes_per_key: last,
        best,
        worst,
    }
}

fn insert<S: Subject>(subject: &S, keys: &[String]) -> u32 {
    let allowed = keys.iter().filter(|key| subject.allow(key)).count();
    u32::try_from(allowed).expect("keys are numbered by u32")
}

#[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 bytes")]
fn per_key(bytes: u64, keys: u32) -> f64 {
    tenth(bytes as f64 / f64::from(keys))
}
