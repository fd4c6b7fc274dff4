//! Parses responses: allowed or denied, by which limits, and when to retry.

use std::borrow::Cow;

use serde::Deserialize;

use crate::http::HttpResponse;

/// The decision in a response of the service or of another application.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponseDecision<'a> {
    pub(crate) is_allowed: bool,
    pub(crate) is_degraded: bool,
    /// When the request would be allowed. `None` if not known, or never.
    pub(crate) retry_after_ms: Option<u64>,
    /// The enforced limits, as far as the response names them.
    pub(crate) limits: Vec<LimitStatus<'a>>,
    /// The permit to release, for concurrency limits.
    pub(crate) permit: Option<Cow<'a, str>>,
}

/// The status of one limit in a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LimitStatus<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) limit: u64,
    /// Rounded up to whole seconds.
    pub(crate) window_s: Option<u64>,
    /// Time until the budget is full again, rounded up.
    pub(crate) reset_after_ms: Option<u64>,
    /// The failure policy decided in place of the store.
    pub(crate) is_fallback: bool,
}

impl LimitStatus<'_> {
    /// Represents the limits of a response that names none, so that an [`Allowance`] applies to it.
    ///
    /// [`Allowance`]: crate::Allowance
    pub(crate) const fn unnamed(is_fallback: bool) -> Self {
        Self {
            name: Cow::Borrowed("limit"),
            limit: 0,
            window_s: None,
            reset_after_ms: None,
            is_fallback,
        }
    }
}

/// The body of a response to `POST /v1/check`, as far as it matters here.
#[derive(Debug, Deserialize)]
struct CheckResponse<'a> {
    allowed: bool,
    #[serde(default)]
    degraded: bool,
    #[serde(borrow, default)]
    limits: Vec<CheckResponseLimit<'a>>,
    #[serde(borrow, default)]
    permit: Option<Cow<'a, str>>,
}

#[derive(Debug, Deserialize)]
struct CheckResponseLimit<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    limit: u64,
    #[serde(default)]
    reset_after_ms: Option<u64>,
    #[serde(default)]
    retry_after_ms: Option<u64>,
    #[serde(default)]
    never: bool,
    #[serde(default)]
    shadow: bool,
    #[serde(borrow, default)]
    fallback: Option<Cow<'a, str>>,
}

/// Parses a response of the service. `None` if it is not a decision.
pub(crate) fn parse_check_response<'a>(
    response: &HttpResponse<'a>,
) -> Option<ResponseDecision<'a>> {
    let body: CheckResponse<'a> = serde_json::from_slice(response.body).ok()?;
    let policies = response
        .head
        .policy
        .as_deref()
        .map(parse_policies)
        .unwrap_or_default();

    let enforced = || body.limits.iter().filter(|limit| !limit.shadow);
    let never = enforced().any(|limit| limit.never);
    let retry_after_ms = enforced()
        .filter_map(|limit| limit.retry_after_ms)
        .max()
        .filter(|_| !never);
    let limits = enforced().map(|limit| LimitStatus {
        name: limit.name.clone(),
        limit: limit.limit,
        window_s: policies
            .iter()
            .find(|policy| policy.name == limit.name)
            .and_then(|policy| policy.window_s),
        reset_after_ms: limit.reset_after_ms,
        is_fallback: limit.fallback.is_some(),
    });
    let limits = limits.collect();

    Some(ResponseDecision {
        is_allowed: body.allowed,
        is_degraded: body.degraded,
        retry_after_ms,
        limits,
        permit: body.permit,
    })
}

/// Parses the status and headers of any application: 2xx and 3xx mean allowed, 429 means denied.
/// `None` for other statuses.
pub(crate) fn parse_application_response(
    response: &HttpResponse<'_>,
) -> Option<ResponseDecision<'static>> {
    let head = &response.head;
    let is_allowed = matches!(head.status, 200..=399);
    if !is_allowed && head.status != 429 {
        return None;
    }

    Some(ResponseDecision {
        is_allowed,
        is_degraded: head.is_fallback,
        retry_after_ms: head
            .retry_after_s
            .filter(|_| !is_allowed)
            .map(|secs| secs.saturating_mul(1_000)),
        limits: head
            .policy
            .as_deref()
            .map(parse_policies)
            .unwrap_or_default(),
        permit: None,
    })
}

/// Parses a `RateLimit-Policy` header such as `"burst";q=100;w=60, "daily";q=1000;w=86400`.
/// Members without a name or a quota are skipped.
fn parse_policies(field: &[u8]) -> Vec<LimitStatus<'static>> {
    let text = std::str::from_utf8(field).unwrap_or_default();
    let parse_member = |member: &str| {
        let (name, parameters) = member.trim().strip_prefix('"')?.split_once('"')?;
        let parameter = |wanted: &str| {
            let mut all = parameters
                .split(';')
                .filter_map(|parameter| parameter.trim().split_once('='));
            all.find(|(name, _)| *name == wanted)?.1.parse().ok()
        };

        Some(LimitStatus {
            name: Cow::Owned(name.to_owned()),
            limit: parameter("q")?,
            window_s: parameter("w"),
            reset_after_ms: None,
            is_fallback: false,
        })
    };
    text.split(',').filter_map(parse_member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::HttpResponseHead;

    fn answer<'a>(status: u16, policy: &str, body: &'a str) -> HttpResponse<'a> {
        let policy = Some(policy.as_bytes().to_vec()).filter(|policy| !policy.is_empty());
        let mut head = HttpResponseHead::default();
        (head.status, head.policy) = (status, policy);
        HttpResponse {
            head,
            body: body.as_bytes(),
        }
    }

    #[test]
    fn check_responses_get_their_windows_from_the_header() {
        let body = r#"{"allowed":false,"source":"store","degraded":false,"wait_ms":0,"violated-policies":["a"],"limits":[
            {"name":"a","limit":5,"remaining":0,"reset_after_ms":9,"retry_after_ms":7},
            {"name":"b","limit":9,"remaining":1,"reset_after_ms":9,"retry_after_ms":null,"fallback":"allow"},
            {"name":"c","limit":1,"remaining":0,"reset_after_ms":9,"retry_after_ms":90,"shadow":true}]}"#;
        let answer = answer(429, r#""a";q=5;w=60, "b";q=9"#, body);
        let decision = parse_check_response(&answer).unwrap();
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
    }

    #[test]
    fn a_request_that_never_passes_has_no_retry_time() {
        let body = r#"{"allowed":false,"limits":[{"name":"a","limit":5,"never":true},{"name":"b","limit":5,"retry_after_ms":3}]}"#;
        assert_eq!(
            parse_check_response(&answer(429, "", body))
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
            assert_eq!(parse_check_response(&answer(200, "", body)), None, "{body}");
        }
    }

    #[test]
    fn applications_decide_by_their_status() {
        assert!(
            parse_application_response(&answer(302, "", ""))
                .unwrap()
                .is_allowed
        );
        assert_eq!(parse_application_response(&answer(503, "", "")), None);
        let mut denied = answer(429, r#""x";w=2;q=7, nonsense, "y";w=1, z;q=1"#, "");
        denied.head.retry_after_s = Some(3);
        let decision = parse_application_response(&denied).unwrap();
        assert_eq!(
            (
                decision.is_allowed,
                decision.retry_after_ms,
                decision.limits.len()
            ),
            (false, Some(3_000), 1)
        );
        assert_eq!(
            (&*decision.limits[0].name, decision.limits[0].window_s),
            ("x", Some(2))
        );
    }
}
