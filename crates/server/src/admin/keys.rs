//! `/admin/keys`: the state of one key under one limit, and its reset.

use hyper::{Request, Response};
use serde::Serialize;
use tollgate::{Demand, EncodedKey};
use tollgate_gate::api::{ApiError, NamedAttributes, is_same_attribute};
use tollgate_gate::{ActiveConfig, DecideError};
use tollgate_http::{DecisionBody, LimitBody};
use tollgate_rules::{Explanation, LimitConfig};

use super::encode::json_ok;
use super::query::KeyQuery;
use crate::http::Body;
use crate::key_part::KeyPartView;
use crate::service::Service;

/// The body of `GET /admin/keys`.
#[derive(Debug, Serialize)]
struct KeyResponse<'a> {
    #[serde(flatten)]
    limit: LimitBody<'a>,
    key: Vec<KeyPartView<'a>>,
    /// The tier whose quota applies; absent for a limit without tiers.
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    /// Attributes of the query that the limit does not use; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ignored: Vec<String>,
    source: &'static str,
    degraded: bool,
}

/// The body of `DELETE /admin/keys`.
#[derive(Debug, Serialize)]
struct ResetResponse<'a> {
    reset: bool,
    name: &'a str,
    key: Vec<KeyPartView<'a>>,
}

/// The counter that a query names.
#[derive(Debug)]
struct ResolvedCounter<'r> {
    demand: Demand<'r, EncodedKey>,
    key: Vec<KeyPartView<'r>>,
    /// The tier that applies.
    tier: Option<String>,
    /// Attributes of the query that the limit does not use.
    ignored: Vec<String>,
}

/// Shows the state of a key under a limit. Consumes nothing.
pub(super) async fn show<B>(
    service: &Service,
    request: &Request<B>,
) -> Result<Response<Body>, ApiError> {
    let active = service.gate.active();
    let ResolvedCounter {
        demand,
        key,
        tier,
        ignored,
    } = look_up(&active, request)?;

    let mut inspection = active.inspect(std::slice::from_ref(&demand)).await?;
    for counter in &mut inspection.counters {
        // The response has the tier in any case.
        counter.tier = None;
    }

    let mut body = DecisionBody::new(&inspection.decision);
    body.add_counters(&inspection.counters);
    let DecisionBody {
        limits,
        source,
        degraded,
        ..
    } = body;
    let limit = limits
        .into_iter()
        .next()
        .ok_or_else(|| ApiError::internal("the decision has no outcome for the limit"))?;

    Ok(json_ok(&KeyResponse {
        limit,
        key,
        tier,
        ignored,
        source,
        degraded,
    }))
}

/// Resets what a key has used of a limit.
pub(super) async fn reset<B>(
    service: &Service,
    request: &Request<B>,
) -> Result<Response<Body>, ApiError> {
    let active = service.gate.active();
    let ResolvedCounter { demand, key, .. } = look_up(&active, request)?;
    let limit = demand.limit.name().as_str();

    active.reset(&demand).await?;

    // The key itself is left out: it may be personal data.
    tracing::info!(limit, "a key was reset through the admin port");
    Ok(json_ok(&ResetResponse {
        reset: true,
        name: limit,
        key,
    }))
}

/// Finds the counter that the query of a request names. The limit's `match` is ignored.
fn look_up<'r, B>(
    active: &'r ActiveConfig,
    request: &Request<B>,
) -> Result<ResolvedCounter<'r>, ApiError> {
    let query = KeyQuery::parse(request.uri().query().unwrap_or_default())?;
    let (limit, explanation) = active
        .selector
        .explain_named(&query.limit, &query.attributes)
        .map_err(DecideError::from)?;

    match explanation {
        Explanation::Applies {
            demand,
            parts,
            tier,
            path: _,
        } => {
            Ok(ResolvedCounter {
                // Cost 1, so that `retry_after_ms` says when the next ordinary request would pass.
                demand: demand.with_cost(1),
                key: KeyPartView::list(parts),
                tier,
                ignored: ignored(limit, &query.attributes),
            })
        }
        Explanation::Invalid(error) => Err(DecideError::from(error).into()),
        // Conditions are not evaluated here, so only a missing key remains.
        Explanation::Skipped | Explanation::NotMatched { .. } => {
            let detail = format!(
                "missing attribute: the key of limit {:?} is {}; the limit is {}, so it \
                 ignores requests without that key",
                limit.rule.name(),
                limit.key.part_names().join(" and "),
                if limit.optional {
                    "optional"
                } else {
                    "a shadow limit"
                },
            );
            Err(ApiError::unprocessable("missing-attribute", detail))
        }
    }
}

/// The attributes that a limit uses neither in its key nor in its conditions, tier and cost.
fn ignored(limit: &LimitConfig, attributes: &NamedAttributes<'_>) -> Vec<String> {
    let is_used = |name: &str| {
        let mut used = limit.attributes();
        used.any(|attribute| is_same_attribute(attribute.name(), name))
    };
    let names = attributes.0.iter().map(|(name, _)| &**name);
    names
        .filter(|name| !is_used(name))
        .map(str::to_owned)
        .collect()
}
