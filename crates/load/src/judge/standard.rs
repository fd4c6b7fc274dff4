//! By what limits are judged, and why some are not.

use std::num::NonZeroU32;

use tollgate_audit::Bound;
use tollgate_rules::{Config, Selector};

/// By what limits are judged.
#[derive(Debug)]
pub enum Standard {
    /// By what the answers say of them. That leaves the algorithm open, and the window to the next
    /// second, so they are judged as loosely as any algorithm would be.
    Answers,
    /// By the configuration of the replicas: the algorithm, its numbers, and who shares a counter.
    Configured(Box<Configured>),
}

/// What of a configuration is needed for it.
#[derive(Debug)]
pub struct Configured {
    pub(super) selector: Selector,
    pub(super) expected_replicas: NonZeroU32,
}

impl Standard {
    /// By this configuration.
    pub fn configured(config: &Config) -> Self {
        let selector = Selector::new(config);
        Self::Configured(Box::new(Configured {
            selector,
            expected_replicas: config.expected_replicas,
        }))
    }
}

/// What a limit allows, said by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The limit; none for all that are not named elsewhere.
    pub limit: Option<String>,
    /// What it allows.
    pub bound: Bound,
}

/// Why a limit is not judged, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unjudged {
    #[error("answers do not say its window; give the configuration or what it allows")]
    NoWindow,
    #[error(
        "answers say its window in whole seconds, which is too coarse for so short a one; give the configuration"
    )]
    ShortWindow,
    #[error(
        "the configuration has no such limit for these requests; is it the one that the replicas use?"
    )]
    NotConfigured,
    #[error(
        "the service says {told} where the configuration says {configured}; is it the one that the replicas use?"
    )]
    OtherNumbers { told: u64, configured: u64 },
    #[error("a concurrency limit allows so many at a time, not so many in an interval")]
    Concurrency,
    #[error("its numbers changed during the load")]
    Changed,
}
