//! One client and one limit: where it stands, and a fresh start.

use hyper::{Request, Response};
use serde::Serialize;
use tollgate::headers::{DecisionBody, LimitBody};
use tollgate::store::Intent;
use tollgate_rules::{DisplayPart, Explanation};

use super::query::KeyQuery;
use super::shown;
use crate::gate::{ActiveConfig, DecideError, GateDemand};
use crate::http::{ApiError, Body};
use crate::serve::Service;

/// Where a client stands.
#[derive(Debug, Serialize)]
struct KeyAnswer<'a> {
    #[serde(flatten)]
    limit: LimitBody<'a>,
    key: Vec<PartAnswer<'a>>,
    /// The tier whose numbers are used, where there are tiers.
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    source: &'static str,
    degraded: bool,
}

/// A part of a key. What is hashed stays hashed.
#[derive(Debug, Serialize)]
pub(super) struct PartAnswer<'a> {
    attribute: &'a str,
    value: String,
    hashed: bool,
}

#[derive(Debug, Serialize)]
struct ResetAnswer<'a> {
    reset: bool,
    name: &'a str,
    key: Vec<PartAnswer<'a>>,
}

/// A counter that was asked about.
struct Found<'r> {
    spend: GateDemand<'r>,
    key: Vec<PartAnswer<'r>>,
    tier: Option<String>,
}

/// Where a client stands with a limit. Charges nothing.
pub(super) async fn look<B>(
    service: &Service,
    request: &Request<B>,
) -> Result<Response<Body>, ApiError> {
    let running = service.gate.active();
    let Found { spend, key, tier } = find(&running, request)?;
    let decided = service
        .gate
        .spend(&running, std::slice::from_ref(&spend), Intent::Peek)
        .await?;
    let DecisionBody {
        limits,
        source,
        degraded,
        ..
    } = DecisionBody::new(&decided.decision);
    let limit = limits
        .into_iter()
        .next()
        .ok_or_else(|| ApiError::internal("the limit gave no answer"))?;
    Ok(shown(&KeyAnswer {
        limit,
        key,
        tier,
        source,
        degraded,
    }))
}

/// Forgets what a client has used of a limit.
pub(super) async fn reset<B>(
    service: &Service,
    request: &Request<B>,
) -> Result<Response<Body>, ApiError> {
    let running = service.gate.active();
    let Found { spend, key, .. } = find(&running, request)?;
    running
        .limiter
        .reset(spend.limit, &spend.key)
        .await
        .map_err(DecideError::from)?;
    tracing::info!(limit = spend.limit, "an operator reset a key");
    Ok(shown(&ResetAnswer {
        reset: true,
        name: spend.limit,
        key,
    }))
}

/// The counter that a request asks about, by the limit's name and whatever its conditions say.
fn find<'r, B>(running: &'r ActiveConfig, request: &Request<B>) -> Result<Found<'r>, ApiError> {
    let asked = KeyQuery::read(request.uri().query().unwrap_or_default())?;
    let met = running
        .selector
        .explain_named(&asked.limit, &asked.attributes);
    let (rule, meeting) = met.map_err(DecideError::from)?;
    match meeting {
        Explanation::Met {
            chosen,
            parts,
            tier,
        } => {
            // What the next request would be told, if it cost one.
            let spend = GateDemand {
                cost: 1,
                ..GateDemand::from(chosen)
            };
            Ok(Found {
                spend,
                key: parts.into_iter().map(PartAnswer::from).collect(),
                tier,
            })
        }
        Explanation::Wrong(error) => Err(DecideError::from(error).into()),
        // Conditions are not asked here, so what is left is an optional limit without its key.
        Explanation::PassedOver | Explanation::No { .. } => {
            let detail = format!(
                "the limit {:?} counts by {}, which is not all there; a request without it is let by",
                rule.limit.name(),
                super::limits::recipe(&rule.key).join(" and ")
            );
            Err(ApiError::unprocessable("missing-attribute", detail))
        }
    }
}

impl<'r> From<DisplayPart<'r>> for PartAnswer<'r> {
    fn from(part: DisplayPart<'r>) -> Self {
        let DisplayPart {
            attribute,
            value,
            is_hashed,
        } = part;
        Self {
            attribute: attribute.name(),
            value,
            hashed: is_hashed,
        }
    }
}
