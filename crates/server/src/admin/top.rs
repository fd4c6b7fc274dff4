//! `GET /admin/top`: the keys that use a limit most, over the last minutes.

use hyper::{Request, Response};
use serde::Serialize;
use tollgate_gate::api::ApiError;
use tollgate_gate::top_keys::{UsageKind, UsageSpan};
use tollgate_gate::{ActiveConfig, DecideError, TopKey, TopQuery};

use super::encode::{json_ok, millis};
use super::query::{parameters, shortened};
use crate::http::Body;
use crate::key_part::KeyPartView;
use crate::service::Service;

/// The number of keys in a list, unless the query says otherwise.
const KEYS_DEFAULT: usize = 10;
/// The most keys in a list.
const KEYS_MAX: usize = 100;

/// The body of the response.
#[derive(Debug, Serialize)]
struct TopResponse<'a> {
    by: UsageKind,
    minutes: u8,
    /// From when the counts are, in milliseconds since the UNIX epoch.
    since_ms: u64,
    /// The replicas whose keys are counted.
    replicas: usize,
    keys: Vec<TopKeyView<'a>>,
}

/// One key. Field names are JSON member names.
#[derive(Debug, Serialize)]
struct TopKeyView<'a> {
    limit: &'a str,
    key: Vec<KeyPartView<'a>>,
    /// Units: an upper bound.
    units: u64,
    /// How much too high `units` may be.
    error: u64,
    /// Requests: a lower bound, exact while `error` is 0.
    requests: u64,
    units_per_second: f64,
}

/// Lists the heaviest keys.
pub(super) async fn respond<B>(
    service: &Service,
    request: &Request<B>,
) -> Result<Response<Body>, ApiError> {
    let active = service.gate.active();
    let query = parse(&active, request.uri().query().unwrap_or_default())?;

    let others = service.fleet_top.others(&service.gate).await;
    let now = service.gate.now();
    let keys = active.top_keys(query, &others, now);
    let since = query.span.start(now).max(service.started_at);
    let seconds = seconds_at_least_one(millis(now.since(since)));

    let views = keys
        .iter()
        .filter_map(|key| TopKeyView::new(&active, key, seconds));
    Ok(json_ok(&TopResponse {
        by: query.kind,
        minutes: query.span.minutes(),
        since_ms: millis(since),
        replicas: 1 + others.len(),
        keys: views.collect(),
    }))
}

/// Right after the start, a rate is that of the first second.
fn seconds_at_least_one(millis: u64) -> f64 {
    let millis = u32::try_from(millis.max(1_000)).unwrap_or(u32::MAX);
    f64::from(millis) / 1_000.0
}

impl<'a> TopKeyView<'a> {
    /// `None` for a key that the limit's recipe cannot display.
    fn new(active: &'a ActiveConfig, key: &TopKey, seconds: f64) -> Option<Self> {
        let parts = active.selector.display_key(key.limit, &key.usage.key)?;
        let limit = active.config.limits.get(key.limit)?;
        let rate = tollgate_gate::metrics::to_f64(key.usage.units) / seconds;

        Some(Self {
            limit: limit.rule.name().as_str(),
            key: KeyPartView::list(parts),
            units: key.usage.units,
            error: key.usage.error,
            requests: key.usage.requests,
            units_per_second: (rate * 100.0).round() / 100.0,
        })
    }
}

/// Parses `limit=<name>&by=denied|admitted&minutes=1|5|60&count=<number>`; all are optional.
fn parse(active: &ActiveConfig, query: &str) -> Result<TopQuery, ApiError> {
    let mut parsed = TopQuery {
        limit: None,
        kind: UsageKind::Denied,
        span: UsageSpan::FiveMinutes,
        keys_max: KEYS_DEFAULT,
    };
    for parameter in parameters(query) {
        let (name, value) = parameter?;
        match &*name {
            "limit" => {
                let limit = active.selector.limit(&value).map_err(DecideError::from)?;
                parsed.limit = Some(limit.rule.position());
            }
            "by" => {
                parsed.kind = match &*value {
                    "denied" => UsageKind::Denied,
                    "admitted" => UsageKind::Admitted,
                    _ => return Err(invalid("by", &value, "denied or admitted")),
                }
            }
            "minutes" => {
                let span = value.parse().ok().and_then(UsageSpan::from_minutes);
                parsed.span = span.ok_or_else(|| invalid("minutes", &value, "1, 5 or 60"))?;
            }
            "count" => {
                let count = value
                    .parse()
                    .ok()
                    .filter(|count| (1..=KEYS_MAX).contains(count));
                parsed.keys_max =
                    count.ok_or_else(|| invalid("count", &value, "a number from 1 to 100"))?;
            }
            _ => {
                let detail = format!(
                    "unknown parameter {:?}; expected limit, by, minutes or count",
                    shortened(&name)
                );
                return Err(ApiError::bad_request("unknown-parameter", detail));
            }
        }
    }
    Ok(parsed)
}

fn invalid(name: &str, value: &str, expected: &str) -> ApiError {
    let detail = format!(
        "invalid value {:?} of the parameter `{name}`; expected {expected}",
        shortened(value)
    );
    ApiError::bad_request("invalid-parameter", detail)
}
