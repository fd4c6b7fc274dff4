//! The subjects with their layers, and the cases.

use std::time::Duration;

use anyhow::Result;
use axum::body::Body;
use axum::http::StatusCode;
use clap::ValueEnum;
use governor::clock::QuantaInstant;
use governor::middleware::{NoOpMiddleware, StateInformationMiddleware};
use tollgate::{Consistency, FailurePolicy, Limit, Limiter, MemoryStore, Rate};
use tollgate_redis::RedisBuilder;
use tollgate_tower::{EnabledFields, RateLimitLayer, by};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::PeerIpKeyExtractor;

use crate::harness::server::TIMEOUT;

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
    /// The subjects that count in the process, so that they can be called without a runtime.
    pub(super) fn local() -> impl Iterator<Item = Self> {
        let all = Self::value_variants().iter().copied();
        all.filter(|subject| subject.is_local())
    }

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

    /// Whether it counts in the process.
    pub(super) const fn is_local(self) -> bool {
        !matches!(self, Self::Leased | Self::Strict)
    }

    /// The response of the handler. A bare server denies by itself.
    pub(super) const fn handler_response(self, case: Case) -> (StatusCode, &'static str) {
        match (self, case) {
            (Self::Bare, Case::Denied) => (StatusCode::TOO_MANY_REQUESTS, "Too Many Requests"),
            _ => (StatusCode::OK, "Hello, World!"),
        }
    }

    /// The header fields that Tollgate sends.
    const fn fields(self) -> EnabledFields {
        let is_told = !matches!(self, Self::MemorySilent);
        EnabledFields {
            ietf: is_told,
            legacy: is_told,
            openai: false,
            anthropic: false,
            retry_after: true,
        }
    }
}

impl Case {
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
    const fn bucket(self) -> (u32, Duration) {
        if self.is_allowed() {
            (1_000_000, Duration::from_micros(1))
        } else {
            (1, Duration::from_hours(24))
        }
    }
}

// The layers, each set up as its own documentation says, with the same bucket for every client
// address.
const LIMIT: &str = "per-address";
/// Tollgate's layer, on this server where the subject shares its limits. Needs a runtime then.
pub(super) fn tollgate(
    subject: Subject,
    case: Case,
    redis: Option<&str>,
) -> Result<RateLimitLayer> {
    let (burst, period) = case.bucket();
    let limit = Limit::token_bucket(LIMIT, burst.into(), Rate::new(1, period))
        .on_store_failure(FailurePolicy::Deny);
    let limiter = match redis {
        None => Limiter::new(MemoryStore::new(), [limit]),
        Some(url) => {
            let store = RedisBuilder::standalone(url).timeout(TIMEOUT).build()?;
            let consistency = match subject {
                Subject::Leased => Consistency::Leased,
                _ => Consistency::Strict,
            };
            Limiter::new(store, [limit.consistency(consistency)])
        }
    };
    let layer = RateLimitLayer::new(&limiter?, LIMIT, by::client_address());
    Ok(layer.fields(subject.fields()).validate()?)
}

/// Why a bucket of the other layer is valid.
const VALID: &str = "neither burst nor period is zero";

/// The other layer, with default settings.
pub(super) fn governor(
    case: Case,
) -> GovernorLayer<PeerIpKeyExtractor, NoOpMiddleware<QuantaInstant>, Body> {
    GovernorLayer::new(bucket(case).finish().expect(VALID))
}

/// The same with fields on success.
pub(super) fn governor_telling(
    case: Case,
) -> GovernorLayer<PeerIpKeyExtractor, StateInformationMiddleware, Body> {
    GovernorLayer::new(bucket(case).use_headers().finish().expect(VALID))
}

fn bucket(case: Case) -> GovernorConfigBuilder<PeerIpKeyExtractor, NoOpMiddleware<QuantaInstant>> {
    let (burst, period) = case.bucket();
    let mut bucket = GovernorConfigBuilder::default();
    bucket.period(period).burst_size(burst);
    bucket
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::word;

    #[test]
    fn everybody_is_found_by_the_word_that_is_written() {
        for subject in Subject::value_variants() {
            assert_eq!(Subject::from_str(&word(subject), false), Ok(*subject));
        }
        for case in Case::value_variants() {
            assert_eq!(Case::from_str(&word(case), false), Ok(*case));
        }
    }
}
