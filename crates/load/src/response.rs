//! Parses responses: allowed or denied, by which limits, and when to retry.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use crate::http::HttpResponse;
use crate::plan::RequestKind;

/// The decision in a response of the service or of another application. Deserialized from the body
/// of a response to `POST /v1/check`.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct ResponseDecision {
    #[serde(rename = "allowed")]
    pub(crate) is_allowed: bool,
    #[serde(rename = "degraded", default)]
    pub(crate) is_degraded: bool,
    /// A proxy let the request pass without a decision.
    #[serde(skip)]
    pub(crate) is_unchecked: bool,
    #[serde(default)]
    pub(crate) source: DecisionSource,
    /// When the request would be allowed. `None` if not known, or never.
    #[serde(skip)]
    pub(crate) retry_after_ms: Option<u64>,
    /// The enforced limits, as far as the response names them.
    #[serde(default)]
    pub(crate) limits: Vec<LimitStatus>,
    /// The permit to release, for concurrency limits.
    pub(crate) permit: Option<String>,
}

/// What made a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionSource {
    /// The store.
    Store,
    /// Units that the replica leased in advance, or reports to the store later.
    Lease,
    /// A denial that the replica remembers.
    DenyCache,
    /// A counter of the replica itself.
    Local,
    /// The failure policy, because the store was unavailable.
    Fallback,
    /// An operator, who has blocked the key.
    Block,
    /// An operator, who has exempted the key.
    Exempt,
    /// The response does not name it.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The status of one limit in a response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct LimitStatus {
    pub(crate) name: String,
    pub(crate) limit: u64,
    /// Rounded up to whole seconds.
    #[serde(skip)]
    pub(crate) window_s: Option<u64>,
    /// Time until the budget is full again, rounded up.
    pub(crate) reset_after_ms: Option<u64>,
    pub(crate) retry_after_ms: Option<u64>,
    #[serde(default)]
    pub(crate) never: bool,
    #[serde(default)]
    pub(crate) shadow: bool,
    /// The failure policy decided in place of the store.
    #[serde(rename = "fallback", default, deserialize_with = "is_present")]
    pub(crate) is_fallback: bool,
}

fn is_present<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    Option::<IgnoredAny>::deserialize(value).map(|value| value.is_some())
}

impl ResponseDecision {
    /// The decision in the response to a request of this kind. `None` if it has none.
    pub(crate) fn parse(kind: &RequestKind, response: &HttpResponse) -> Option<Self> {
        match kind {
            RequestKind::Check { .. } => Self::from_check(response),
            RequestKind::Get { .. } => Self::from_application(response),
        }
    }

    fn from_check(response: &HttpResponse) -> Option<Self> {
        let mut decision: Self = serde_json::from_slice(response.body()).ok()?;
        decision.limits.retain(|limit| !limit.shadow);

        let never = decision.limits.iter().any(|limit| limit.never);
        let retry_times = decision.limits.iter().map(|limit| limit.retry_after_ms);
        decision.retry_after_ms = retry_times.max().flatten().filter(|_| !never);

        // Only the header has the windows.
        let policies = policies(response);
        for limit in &mut decision.limits {
            let policy = policies.iter().find(|policy| policy.name == limit.name);
            limit.window_s = policy.and_then(|policy| policy.window_s);
        }
        Some(decision)
    }

    /// Any application: 2xx and 3xx mean allowed, 429 means denied.
    fn from_application(response: &HttpResponse) -> Option<Self> {
        let status = response.status();
        let is_allowed = status.is_success() || status.is_redirection();
        if !is_allowed && status != 429 {
            return None;
        }

        let retry_after_s: Option<u64> = field(response, "retry-after").parse().ok();
        Some(Self {
            is_allowed,
            is_degraded: is_marked(response, "x-ratelimit-fallback"),
            is_unchecked: is_marked(response, "x-ratelimit-unchecked"),
            retry_after_ms: retry_after_s
                .filter(|_| !is_allowed)
                .map(|secs| secs.saturating_mul(1_000)),
            limits: policies(response),
            ..Self::default()
        })
    }
}

fn is_marked(response: &HttpResponse, name: &str) -> bool {
    field(response, name).eq_ignore_ascii_case("true")
}

/// The value of a header field; empty if it is absent or not text.
fn field<'r>(response: &'r HttpResponse, name: &str) -> &'r str {
    let value = response.headers().get(name);
    value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// Parses a `RateLimit-Policy` header such as `"burst";q=100;w=60, "daily";q=1000;w=86400`.
/// Members without a name or a quota are skipped.
fn policies(response: &HttpResponse) -> Vec<LimitStatus> {
    let parse_member = |member: &str| {
        let (name, parameters) = member.trim().strip_prefix('"')?.split_once('"')?;
        let parameter = |wanted: &str| {
            let mut all = parameters
                .split(';')
                .filter_map(|parameter| parameter.trim().split_once('='));
            all.find(|(name, _)| *name == wanted)?.1.parse().ok()
        };

        Some(LimitStatus {
            name: name.to_owned(),
            limit: parameter("q")?,
            window_s: parameter("w"),
            ..LimitStatus::default()
        })
    };
    let members = field(response, "ratelimit-policy").split(',');
    members.filter_map(parse_member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, policy: &str, body: &str) -> HttpResponse {
        hyper::Response::builder()
            .status(status)
            .header("ratelimit-policy", policy)
            .body(body.to_owned().into())
            .unwrap()
    }

    #[test]
    fn check_responses_get_their_windows_from_the_header() {
        let body = r#"{"allowed":false,"source":"store","degraded":false,"wait_ms":0,"violated-policies":["a"],"limits":[
            {"name":"a","limit":5,"remaining":0,"reset_after_ms":9,"retry_after_ms":7},
            {"name":"b","limit":9,"remaining":1,"reset_after_ms":9,"retry_after_ms":null,"fallback":"allow"},
            {"name":"c","limit":1,"remaining":0,"reset_after_ms":9,"retry_after_ms":90,"shadow":true}]}"#;
        let answer = answer(429, r#""a";q=5;w=60, "b";q=9"#, body);
        let decision = ResponseDecision::from_check(&answer).unwrap();
        assert_eq!(
            (
                decision.is_allowed,
                decision.retry_after_ms,
                decision.limits.len()
            ),
            (false, Some(7), 2)
        );
        assert_eq!(
            (decision.limits[0].window_s, decision.limits[1].window_s),
            (Some(60), None)
        );
        assert!(decision.limits[1].is_fallback && !decision.limits[0].is_fallback);
        assert_eq!(decision.source, DecisionSource::Store);
    }

    #[test]
    fn a_request_that_never_passes_has_no_retry_time() {
        let body = r#"{"allowed":false,"limits":[{"name":"a","limit":5,"never":true},{"name":"b","limit":5,"retry_after_ms":3}]}"#;
        assert_eq!(
            ResponseDecision::from_check(&answer(429, "", body))
                .unwrap()
                .retry_after_ms,
            None
        );
    }

    #[test]
    fn other_bodies_are_not_decisions() {
        for body in [
            "",
            "{}",
            "[]",
            "7",
            r#"{"allowed":"yes"}"#,
            r#"{"allowed":true,"limits":[{}]}"#,
            "<html>",
        ] {
            assert_eq!(
                ResponseDecision::from_check(&answer(200, "", body)),
                None,
                "{body}"
            );
        }
    }

    #[test]
    fn applications_decide_by_their_status() {
        assert!(
            ResponseDecision::from_application(&answer(302, "", ""))
                .unwrap()
                .is_allowed
        );
        assert_eq!(
            ResponseDecision::from_application(&answer(503, "", "")),
            None
        );
        let mut denied = answer(429, r#""x";w=2;q=7, nonsense, "y";w=1, z;q=1"#, "");
        let retry_after = hyper::header::HeaderValue::from_static("3");
        denied.headers_mut().insert("retry-after", retry_after);
        let decision = ResponseDecision::from_application(&denied).unwrap();
        assert_eq!(
            (
                decision.is_allowed,
                decision.retry_after_ms,
                decision.limits.len()
            ),
            (false, Some(3_000), 1)
        );
        assert_eq!(
            (
                decision.limits[0].name.as_str(),
                decision.limits[0].window_s
            ),
            ("x", Some(2))
        );
    }
}
