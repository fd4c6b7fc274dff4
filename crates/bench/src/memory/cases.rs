//! The cases: kinds of traffic, and their keys.

use std::num::NonZeroU32;

use clap::ValueEnum;
use fastrand::Rng;
use tollgate_load::KeyDistribution;

use super::subjects::SubjectQuota;

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

/// Cases that can run one after the other on the same filled subjects. All except `insert`, which
/// needs empty subjects each time.
pub(super) const STAGES: [&[Case]; 4] = [
    &[Case::Hot],
    &[Case::Uniform, Case::Zipf, Case::UniformRead, Case::ZipfRead],
    &[Case::Denied],
    &[Case::DeniedHot],
];

/// Keys that have used up their budget.
const OFFENDERS: u32 = 10_000;

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
            Self::Denied => OFFENDERS,
            _ => all,
        }
    }

    pub(super) const fn quota(self) -> SubjectQuota {
        if self.is_allowed() {
            SubjectQuota::AMPLE
        } else {
            SubjectQuota::SCARCE
        }
    }

    /// Whether the text of a key is in the cache at the time of the check, as if just read from a
    /// request, instead of anywhere in memory, as far away as its counter.
    pub(super) const fn is_read(self) -> bool {
        matches!(self, Self::UniformRead | Self::ZipfRead)
    }

    /// How often each of `count` keys is used.
    pub(super) fn distribution(self, count: u32) -> KeyDistribution {
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
    let name = |number| {
        let mut name = String::new();
        write_name(number, &mut name);
        name
    };
    (0..count).map(name).collect()
}

/// The order in which keys are used, drawn before the clock starts. Popular keys are scattered over memory, as in a real
/// application.
pub(super) fn order(distribution: &KeyDistribution) -> Vec<u32> {
    let mut random = Rng::with_seed(1);
    let mut key_of_rank: Vec<u32> = (0..distribution.count()).collect();
    random.shuffle(&mut key_of_rank);
    (0..ORDER_LEN)
        .map(|_| key_of_rank[distribution.sample(&mut random) as usize])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::cases::Case;
    use super::*;

    #[test]
    fn keys_have_one_length() {
        assert_eq!(names(123_457).last().unwrap(), "user:0000123456");
        assert_eq!(names(3).len(), 3);
    }

    #[test]
    fn the_most_popular_key_is_as_frequent_as_the_law_says_and_not_the_first() {
        let order = order(&Case::Zipf.distribution(1_000));
        let mut hits = [0_usize; 1_000];
        order.iter().for_each(|key| hits[*key as usize] += 1);
        // The thousandth harmonic number is 7.485, so the first rank has 13.36 % of all hits.
        let most = *hits.iter().max().unwrap();
        let expected = ORDER_LEN * 1_336 / 10_000;
        assert!(most.abs_diff(expected) < expected / 20, "{most}");
        assert!(hits.iter().all(|hits| *hits > 0) && hits[0] != most);
    }
}
