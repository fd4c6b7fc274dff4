//! Where the judge takes the bounds of limits from, and why some limits cannot be judged.

use std::num::NonZeroU32;

use tollgate_audit::Bound;
use tollgate_rules::{Config, Selector};

/// Where the judge takes the bounds of limits from.
#[derive(Debug)]
pub enum BoundSource {
    /// The responses. They do not name the algorithm and round the window up to seconds, so limits
    /// are judged by the loosest bound that any algorithm would have.
    Responses,
    /// The configuration of the replicas: it has the algorithm and its quota, and shows which
    /// requests share a counter.
    Config(Box<ConfigBounds>),
}

/// The parts of a configuration that the judge needs.
#[derive(Debug)]
pub struct ConfigBounds {
    pub(super) selector: Selector,
    pub(super) expected_replicas: NonZeroU32,
}

impl BoundSource {
    /// Takes the bounds from this configuration.
    pub fn from_config(config: &Config) -> Self {
        let selector = Selector::new(config);
        Self::Config(Box::new(ConfigBounds {
            selector,
            expected_replicas: config.expected_replicas,
        }))
    }
}

/// What a limit allows, as given by the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Name of the limit. `None` applies to all limits without an allowance of their own.
    pub limit: Option<String>,
    /// What it allows.
    pub bound: Bound,
}

/// Why some or all admissions of a limit cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum JudgeError {
    #[error("the responses do not contain its window; pass --config or --allow")]
    WindowMissing,
    #[error(
        "the responses round its window up to whole seconds, \
         which is too coarse for a window this short; pass --config"
    )]
    WindowTooShort,
    #[error(
        "the configuration has no such limit for these requests; \
         is it the configuration of the replicas?"
    )]
    NotConfigured,
    #[error(
        "the service reports a limit of {reported}, the configuration has {configured}; \
         is it the configuration of the replicas?"
    )]
    QuotaMismatch { reported: u64, configured: u64 },
    #[error("a concurrency limit bounds the requests in flight, not the requests in an interval")]
    Concurrency,
    #[error("its quota changed during the load")]
    QuotaChanged,
}
