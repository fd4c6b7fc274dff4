//! The cases, which are kinds of traffic with their keys, and the time per decision of a subject. The
//! calls through pointers are made once per round; the loops inside are compiled for each subject.

use std::any::type_name;
use std::hint::black_box;
use std::num::NonZeroU32;

use clap::ValueEnum;
use fastrand::Rng;
use tollgate_load::KeyDistribution;

use super::subjects::{Setup, Subject};
use crate::harness::prelude::*;

/// A kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Case {
    /// One key, always allowed.
    Hot,
    /// Many keys with equal probability, always allowed.
    Uniform,
    /// Many keys with a Zipf distribution, always allowed.
    Zipf,
    /// As `Uniform`, with each key in the cache because it was just written.
    UniformRead,
    /// As `Zipf`, with each key in the cache because it was just written.
    ZipfRead,
    /// Keys that have used up their budget, always denied.
    Denied,
    /// One key that has used up its budget.
    DeniedHot,
    /// New keys.
    Insert,
}

impl Case {
    /// The decision that every subject must return. A subject with another decision is not
    /// measured.
    pub(super) const fn is_allowed(self) -> bool {
        !matches!(self, Self::Denied | Self::DeniedHot)
    }

    /// The number of keys that are used, out of this many.
    pub(super) const fn keys(self, all: u32) -> u32 {
        match self {
            Self::Hot | Self::DeniedHot => 1,
            Self::Denied => 10_000,
            _ => all,
        }
    }

    /// Whether the text of a key is in the cache at the time of the check, as if just read from a
    /// request, instead of anywhere in memory, as far away as its counter.
    pub(super) const fn is_read(self) -> bool {
        matches!(self, Self::UniformRead | Self::ZipfRead)
    }

    /// How often each of `count` keys is used.
    fn distribution(self, count: u32) -> KeyDistribution {
        let count = NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
        match self {
            // The second is half as frequent as the first, the third a third as frequent.
            Self::Zipf | Self::ZipfRead => {
                KeyDistribution::zipf(count, 1.0).expect("the exponent is valid")
            }
            _ => KeyDistribution::uniform(count),
        }
    }
}

/// The length of an order; a power of two, because the measured loop wraps around with a mask.
pub(super) const ORDER_LEN: usize = 1 << 22;

/// Writes a key into an existing string, as a server does when it reads a request. It must be fast,
/// because it is part of every subject's time.
#[inline]
pub(super) fn write_name(mut number: u32, name: &mut String) {
    let mut bytes = *b"user:0000000000";
    for digit in bytes[5..].iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
    }
    name.clear();
    name.push_str(std::str::from_utf8(&bytes).unwrap_or_default());
}

/// Keys as an application might write them.
pub(super) fn names(count: u32) -> Vec<String> {
    let mut names = vec![String::new(); count as usize];
    (0..)
        .zip(&mut names)
        .for_each(|(number, name)| write_name(number, name));
    names
}

/// The order in which keys are used, drawn before the clock starts. Popular keys are scattered over
/// memory, as in a real application.
pub(super) fn order(case: Case, count: u32) -> Vec<u32> {
    let distribution = case.distribution(count);
    let mut random = Rng::with_seed(1);
    let mut key_of_rank: Vec<u32> = (0..count).collect();
    random.shuffle(&mut key_of_rank);
    (0..ORDER_LEN)
        .map(|_| key_of_rank[distribution.sample(&mut random) as usize])
        .collect()
}

/// Nanoseconds that a thread spends on a decision.
pub(super) const NS: &str = "ns_per_op";

/// Runs a round on a subject that was filled.
pub(super) type Filled = Box<dyn FnMut(&Load<'_>) -> Figures>;

/// The load of a round, the same for every subject.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load<'a> {
    pub(super) keys: &'a [String],
    pub(super) order: &'a [u32],
    /// The position in the order at which to begin.
    pub(super) start: usize,
    /// Operations of each thread.
    pub(super) operations: u32,
    pub(super) threads: usize,
    pub(super) case: Case,
}

impl Load<'_> {
    /// Makes all decisions of one thread. Returns how many were allowed, which also keeps the
    /// decisions from being optimised away.
    #[inline]
    fn ask(&self, thread: usize, mut allow: impl FnMut(&String) -> bool) -> u32 {
        let order: &[u32; ORDER_LEN] = self.order.try_into().expect("orders have one length");
        let start = self.start + thread * (ORDER_LEN / self.threads);
        let numbers =
            (0..self.operations as usize).map(|step| order[(start + step) & (ORDER_LEN - 1)]);

        if self.case.is_read() {
            let mut key = String::new();
            let read = |number| {
                write_name(number, &mut key);
                u32::from(allow(&key))
            };
            numbers.map(read).sum()
        } else {
            let known = |number| u32::from(allow(&self.keys[number as usize]));
            numbers.map(known).sum()
        }
    }
}

/// Creates a subject that contains these keys and, if `use_up`, has denied each of them.
pub(super) fn fill<S: Subject>(setup: Setup, keys: &[String], use_up: bool) -> Filled {
    let mut subject = S::new(setup);
    for key in keys {
        while subject.allow_alone(key) && use_up {}
    }
    Box::new(move |load| round(&mut subject, load))
}

/// Measures inserting new keys into an empty subject.
pub(super) fn insert<S: Subject>(setup: Setup, keys: &[String]) -> Figures {
    let mut subject = S::new(setup);
    let (took, allowed) = time(|| keys.iter().filter(|key| subject.allow_alone(key)).count());
    assert_eq!(allowed, keys.len(), "{} denied a new key", type_name::<S>());
    // Freeing is not part of inserting.
    drop(black_box(subject));
    let keys = u32::try_from(keys.len()).expect("keys are numbered by u32");
    figures(took, keys)
}

fn round<S: Subject>(subject: &mut S, load: &Load<'_>) -> Figures {
    let (took, allowed) = if load.threads == 1 {
        time(|| load.ask(0, |key| subject.allow_alone(key)))
    } else {
        // The mean over threads is the time that one of them spends on a decision.
        let (allowed, took) = together(load.threads, |thread| {
            load.ask(thread, |key| subject.allow(key))
        });
        (took, allowed.iter().sum())
    };
    let asked = load.operations * u32::try_from(load.threads).expect("a few threads");
    let expected = if load.case.is_allowed() { asked } else { 0 };
    assert_eq!(
        allowed,
        expected,
        "{} made a wrong decision, so its time is meaningless",
        type_name::<S>()
    );
    figures(took, asked)
}

fn figures(span: Span, operations: u32) -> Figures {
    Figures::from([
        (NS, span.ns_per_op(operations)),
        // The share of the time that was lost to other programs. It is not in [`NS`], but caches got cold
        // meanwhile.
        ("waited", span.waited_share()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_one_length() {
        assert_eq!(names(123_457).last().unwrap(), "user:0000123456");
        assert_eq!(names(3).len(), 3);
    }

    #[test]
    fn the_most_popular_key_is_as_frequent_as_the_law_says_and_not_the_first() {
        let order = order(Case::Zipf, 1_000);
        let mut hits = [0_usize; 1_000];
        order.iter().for_each(|key| hits[*key as usize] += 1);
        // The thousandth harmonic number is 7.485, so the first rank has 13.36 % of all hits.
        let most = *hits.iter().max().unwrap();
        let expected = ORDER_LEN * 1_336 / 10_000;
        assert!(most.abs_diff(expected) < expected / 20, "{most}");
        assert!(hits.iter().all(|hits| *hits > 0) && hits[0] != most);
    }
}
