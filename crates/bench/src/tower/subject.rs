//! Who is measured, and what is asked of them.

use std::time::Duration;

use clap::ValueEnum;
use tollgate_tower::EnabledFields;

/// A subject: a handler and the layer in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Subject {
    /// Nothing.
    Bare,
    /// Tollgate's layer on memory with default settings: every response has all header fields.
    Memory,
    /// The same, telling nothing on success.
    MemorySilent,
    /// Tollgate's layer on Redis, leased.
    Leased,
    /// Tollgate's layer on Redis, strict.
    Strict,
    /// `tower_governor` with default settings: no header fields on success.
    Governor,
    /// The same with `use_headers`: two fields.
    GovernorTelling,
}

/// What becomes of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Case {
    Allowed,
    Denied,
}

impl Subject {
    pub(super) const ALL: [Self; 7] = [
        Self::Bare,
        Self::Memory,
        Self::MemorySilent,
        Self::Leased,
        Self::Strict,
        Self::Governor,
        Self::GovernorTelling,
    ];

    /// As it is called in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare axum",
            Self::Memory => "tollgate",
            Self::MemorySilent => "tollgate, no fields",
            Self::Leased => "leased",
            Self::Strict => "strict",
            Self::Governor => "tower_governor",
            Self::GovernorTelling => "tower_governor, fields",
        }
    }

    /// Whether it counts in the process, so that it can be asked without a runtime.
    pub(super) const fn is_local(self) -> bool {
        !matches!(self, Self::Leased | Self::Strict)
    }

    /// The header fields that Tollgate sends.
    pub(super) const fn fields(self) -> EnabledFields {
        let is_told = !matches!(self, Self::MemorySilent);
        EnabledFields {
            ietf: is_told,
            legacy: is_told,
            retry_after: true,
        }
    }
}

impl Case {
    pub(super) const ALL: [Self; 2] = [Self::Allowed, Self::Denied];

    /// As it is called in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "all allowed",
            Self::Denied => "all denied",
        }
    }

    pub(super) const fn is_allowed(self) -> bool {
        matches!(self, Self::Allowed)
    }

    /// The status of every answer.
    pub(super) const fn status(self) -> u16 {
        if self.is_allowed() { 200 } else { 429 }
    }

    /// The size of everybody's bucket, and how long it takes until it has one more. It never runs
    /// out, or is empty after one.
    pub(super) const fn bucket(self) -> (u32, Duration) {
        if self.is_allowed() {
            (1_000_000, Duration::from_micros(1))
        } else {
            (1, Duration::from_secs(24 * 60 * 60))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::word;

    #[test]
    fn everybody_is_found_by_the_word_that_is_written() {
        for subject in Subject::ALL {
            assert_eq!(Subject::from_str(&word(&subject), false), Ok(subject));
        }
        for case in Case::ALL {
            assert_eq!(Case::from_str(&word(&case), false), Ok(case));
        }
    }
}
