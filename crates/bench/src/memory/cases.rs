//! The kinds of traffic that are measured.

use clap::ValueEnum;

use super::entrant::Entrant;
use super::keys;
use super::subjects::{self, SubjectQuota};

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

/// Where the text of a key is at the time of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyTextPlace {
    /// Anywhere in memory, as far away as its counter.
    Scattered,
    /// In the cache, as if just read from a request.
    Read,
}

/// Cases that can run one after the other on the same filled subjects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    pub(super) cases: &'static [Case],
    pub(super) population: Population,
    pub(super) quota: SubjectQuota,
}

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
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
            Self::UniformRead => "uniform-read",
            Self::ZipfRead => "zipf-read",
            Self::Denied => "denied",
            Self::DeniedHot => "denied-hot",
            Self::Insert => "insert",
        }
    }

    /// The decision that every subject must return. A subject with another decision is not
    /// measured.
    pub(super) const fn is_allowed(self) -> bool {
        !matches!(self, Self::Denied | Self::DeniedHot)
    }

    /// Where the texts of keys are.
    pub(super) const fn texts(self) -> KeyTextPlace {
        if matches!(self, Self::UniformRead | Self::ZipfRead) {
            KeyTextPlace::Read
        } else {
            KeyTextPlace::Scattered
        }
    }

    /// The order in which keys are used.
    pub(super) fn order(self, keys: u32) -> Vec<u32> {
        match self {
            Self::Hot | Self::DeniedHot => keys::one(),
            Self::Uniform | Self::UniformRead | Self::Denied | Self::Insert => keys::uniform(keys),
            Self::Zipf | Self::ZipfRead => keys::zipf(keys),
        }
    }
}

impl Population {
    pub(super) fn subjects(self) -> Vec<Box<dyn Entrant>> {
        match self {
            Self::One => subjects::single(),
            Self::Offenders | Self::Everyone => subjects::keyed(),
        }
    }
}
