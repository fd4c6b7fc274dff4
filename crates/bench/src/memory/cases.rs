//! The kinds of traffic that are measured.

use std::num::NonZeroU32;

use clap::ValueEnum;
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

/// Cases that can run one after the other on the same filled subjects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    pub(super) cases: &'static [Case],
    pub(super) population: Population,
    pub(super) quota: SubjectQuota,
}

/// The keys that a subject is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Population {
    One,
    Offenders,
    Everyone,
}

/// All cases except `insert`, which needs empty subjects each time.
pub(super) const STAGES: [Stage; 4] = [
    Stage {
        cases: &[Case::Hot],
        population: Population::One,
        quota: SubjectQuota::AMPLE,
    },
    Stage {
        cases: &[Case::Uniform, Case::Zipf, Case::UniformRead, Case::ZipfRead],
        population: Population::Everyone,
        quota: SubjectQuota::AMPLE,
    },
    Stage {
        cases: &[Case::Denied],
        population: Population::Offenders,
        quota: SubjectQuota::SCARCE,
    },
    Stage {
        cases: &[Case::DeniedHot],
        population: Population::One,
        quota: SubjectQuota::SCARCE,
    },
];

impl Case {
    /// The decision that every subject must return. A subject with another decision is not
    /// measured.
    pub(super) const fn is_allowed(self) -> bool {
        !matches!(self, Self::Denied | Self::DeniedHot)
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
