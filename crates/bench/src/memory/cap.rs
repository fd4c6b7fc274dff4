//! A flood of keys that are used only once, as an attacker sends them: its cost, and whether the
//! limiter forgets keys that had already used up their budget.

use std::fmt::Write as _;

use serde::Serialize;

use super::keys::name;
use super::subjects::{Setup, Subject};
use crate::allocator::Count;
use crate::stats::tenth;
use crate::timing::{Span, time};

#[derive(Clone, Copy, Debug)]
pub(super) struct Flood {
    pub(super) keys: u32,
    pub(super) offenders: u32,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct FloodResult {
    pub(super) subject: &'static str,
    pub(super) keys_sent: u32,
    /// The configured bound, for subjects that have one.
    pub(super) keys_max: Option<u32>,
    pub(super) keys_kept: Option<usize>,
    pub(super) peak_bytes: u64,
    pub(super) ns_per_insert: f64,
    pub(super) offenders: u32,
    pub(super) offenders_still_denied: usize,
}

/// Keys are written to reused buffers, outside the measured time and without allocating, so that
/// bytes and nanoseconds are those of the subject.
const BATCH: u32 = 10_000;

pub(super) fn flood<S: Subject>(setup: &Setup, flood: Flood) -> FloodResult {
    let offenders: Vec<String> = (0..flood.offenders)
        .map(|number| format!("bad!:{number:010}"))
        .collect();
    let mut batch: Vec<String> = (0..BATCH).map(name).collect();
    let count = Count::start();
    let mut subject = S::new(setup);
    for key in &offenders {
        while subject.allow_alone(key) {}
    }
    let mut took = Span::default();
    for start in (0..flood.keys).step_by(BATCH as usize) {
        write_names(&mut batch, start);
        let (span, allowed) = time(|| batch.iter().filter(|key| subject.allow_alone(key)).count());
        assert_eq!(allowed, batch.len(), "{} denied a new key", S::NAME);
        took += span;
    }
    let still_denied = offenders
        .iter()
        .filter(|key| !subject.allow_alone(key))
        .count();
    FloodResult {
        subject: S::NAME,
        keys_sent: flood.keys,
        keys_max: S::NAME.starts_with("tollgate").then_some(setup.keys_max),
        keys_kept: subject.keys(),
        peak_bytes: count.peak(),
        ns_per_insert: tenth(took.ns_per_op(flood.keys)),
        offenders: flood.offenders,
        offenders_still_denied: still_denied,
    }
}

fn write_names(batch: &mut [String], start: u32) {
    for (number, key) in (start..).zip(batch) {
        key.clear();
        write!(key, "user:{number:010}").expect("writing to a string cannot fail");
    }
}
