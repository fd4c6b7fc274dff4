//! The traffic that is measured.

use clap::ValueEnum;

use super::entrant::Entrant;
use super::keys;
use super::subjects::{self, Ration};

/// One kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Case {
    /// One key, always allowed.
    Hot,
    /// Many keys, each as likely as the next, always allowed.
    Uniform,
    /// Many keys, a few of them popular, always allowed.
    Zipf,
    /// As uniform, each key just read and therefore near.
    UniformRead,
    /// As Zipf, each key just read and therefore near.
    ZipfRead,
    /// Keys that have used up their budget, always refused.
    Denied,
    /// One key that has used up its budget.
    DeniedHot,
    /// Keys never seen before.
    Insert,
}

/// Where the text of a key is when the question is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Texts {
    /// Somewhere in memory, as far away as its counter.
    Scattered,
    /// Just read from a request.
    Read,
}

/// Cases that can be put to the same filled subjects one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    pub(super) cases: &'static [Case],
    pub(super) population: Population,
    pub(super) ration: Ration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Population {
    One,
    Offenders,
    Everyone,
}

/// Everything but `insert`, which has to begin with empty subjects each time.
pub(super) const STAGES: [Stage; 4] = [
    Stage {
        cases: &[Case::Hot],
        population: Population::One,
        ration: Ration::AMPLE,
    },
    Stage {
        cases: &[Case::Uniform, Case::Zipf, Case::UniformRead, Case::ZipfRead],
        population: Population::Everyone,
        ration: Ration::AMPLE,
    },
    Stage {
        cases: &[Case::Denied],
        population: Population::Offenders,
        ration: Ration::SCARCE,
    },
    Stage {
        cases: &[Case::DeniedHot],
        population: Population::One,
        ration: Ration::SCARCE,
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

    /// What every subject has to answer. A subject that does not is not measured but wrong.
    pub(super) const fn is_allowed(self) -> bool {
        !matches!(self, Self::Denied | Self::DeniedHot)
    }

    /// Where the texts of keys are.
    pub(super) const fn texts(self) -> Texts {
        if matches!(self, Self::UniformRead | Self::ZipfRead) {
            Texts::Read
        } else {
            Texts::Scattered
        }
    }

    /// The order in which keys come.
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
