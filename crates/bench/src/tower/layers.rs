//! The layers, each set up as its own documentation says, with the same bucket for every client
//! address.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use governor::clock::QuantaInstant;
use governor::middleware::{NoOpMiddleware, RateLimitingMiddleware, StateInformationMiddleware};
use tollgate::{Consistency, FailurePolicy, Limit, Limiter, MemoryStore, Rate};
use tollgate_redis::RedisBuilder;
use tollgate_tower::{RateLimitLayer, by};
use tower_governor::GovernorLayer;
use tower_governor::governor::{GovernorConfig, GovernorConfigBuilder};
use tower_governor::key_extractor::PeerIpKeyExtractor;

use super::subject::{Case, Subject};
use crate::harness::server::TIMEOUT;

const LIMIT: &str = "per-address";
/// Tollgate's layer, on this server where the subject shares its limits. Needs a runtime then.
pub(super) fn tollgate(
    subject: Subject,
    case: Case,
    redis: Option<&str>,
) -> io::Result<RateLimitLayer> {
    let (burst, period) = case.bucket();
    let limit = Limit::token_bucket(LIMIT, burst.into(), Rate::new(1, period))
        .on_store_failure(FailurePolicy::Deny);
    let limiter = match (subject, redis) {
        (Subject::Leased, Some(url)) => shared(url, limit.consistency(Consistency::Leased))?,
        (Subject::Strict, Some(url)) => shared(url, limit.consistency(Consistency::Strict))?,
        _ => Limiter::new(MemoryStore::builder().build(), [limit]).expect("valid limits"),
    };
    let layer = RateLimitLayer::new(&limiter, LIMIT, by::client_address()).fields(subject.fields());
    layer.validate().map_err(io::Error::other)
}

fn shared(url: &str, limit: Limit) -> io::Result<Limiter> {
    let store = RedisBuilder::standalone(url)
        .timeout(TIMEOUT)
        .build()
        .map_err(io::Error::other)?;
    Ok(Limiter::new(store, [limit]).expect("valid limits"))
}

/// The other layer, with default settings.
pub(super) fn governor(
    case: Case,
) -> io::Result<GovernorLayer<PeerIpKeyExtractor, NoOpMiddleware<QuantaInstant>, Body>> {
    Ok(GovernorLayer::new(finished(bucket(case).finish())?))
}

/// The same with fields on success.
pub(super) fn governor_telling(
    case: Case,
) -> io::Result<GovernorLayer<PeerIpKeyExtractor, StateInformationMiddleware, Body>> {
    Ok(GovernorLayer::new(finished(
        bucket(case).use_headers().finish(),
    )?))
}

fn bucket(case: Case) -> GovernorConfigBuilder<PeerIpKeyExtractor, NoOpMiddleware<QuantaInstant>> {
    let (burst, period) = case.bucket();
    let mut bucket = GovernorConfigBuilder::default();
    bucket.period(period).burst_size(burst);
    bucket
}

type Config<M> = GovernorConfig<PeerIpKeyExtractor, M>;

fn finished<M>(config: Option<Config<M>>) -> io::Result<Arc<Config<M>>>
where
    M: RateLimitingMiddleware<QuantaInstant>,
{
    config
        .map(Arc::new)
        .ok_or_else(|| io::Error::other("tower_governor takes neither burst nor period of zero"))
}
