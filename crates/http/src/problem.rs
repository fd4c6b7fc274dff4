//! Problem documents: `application/problem+json` bodies (RFC 9457). Those of a denial have the types
//! that draft-ietf-httpapi-ratelimit-headers registers. They contain the names of limits but never
//! keys, because a key may be a secret.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use serde::Serialize;
use tollgate::store::Refusal;
use tollgate::{Decision, LimitOutcome, Retry};

use crate::body::{DecisionBody, ObjectWriter};
use crate::reported::enforced;
use crate::time::retry_secs;

/// The media type of a [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";
/// The problem type of a denial because the client has used up its quota.
pub const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
/// The problem type of a denial because of a temporary problem of the server.
pub const TEMPORARY_REDUCED_CAPACITY: &str =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
/// The problem type of a denial because the client is locked out, as it was denied too often, or
/// because an operator has blocked it.
pub const ABNORMAL_USAGE_DETECTED: &str =
    "https://iana.org/assignments/http-problem-types#abnormal-usage-detected";

const QUOTA_EXCEEDED_TITLE: &str =
    "Request cannot be satisfied as assigned quota has been exceeded";
/// Capacity for the members before those of the decision, so that the text is not reallocated while
/// it grows.
const PROBLEM_CAPACITY: usize = 384;
/// The most header fields of a response with a decision, including those that a server adds.
const FIELDS_MAX: usize = 12;

/// A problem document: the members of RFC 9457, then those of [`DecisionBody`] if a limit denied the
/// request.
///
/// ```
/// use http::StatusCode;
/// use tollgate::{Limit, Limiter, Rate};
/// use tollgate_http::Problem;
///
/// let limiter = Limiter::in_memory([Limit::token_bucket("upload", 10, Rate::per_hour(1))])?;
/// let allowed = limiter.check("upload", "ann").cost(10).try_now()?;
/// assert_eq!(Problem::denied(&allowed), None);
///
/// let denied = limiter.check("upload", "ann").try_now()?;
/// let problem = Problem::denied(&denied).unwrap();
/// assert_eq!(problem.status, StatusCode::TOO_MANY_REQUESTS);
/// assert_eq!(problem.detail, r#"Limit "upload" exceeded; retry in 3600 seconds."#);
/// assert_eq!(problem.violated_policies, ["upload"]);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem<'a> {
    /// The problem type as a URI: member `type`. `about:blank` has the meaning of the status.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// A summary of the problem type, the same for every problem of the type.
    pub title: &'static str,
    /// The HTTP status to send. Change it if a proxy needs another one.
    #[serde(serialize_with = "serialize_status")]
    pub status: StatusCode,
    /// A sentence about this occurrence of the problem. For a denial: which limit, and when to
    /// retry.
    pub detail: Cow<'a, str>,
    /// The cause, for programs. Absent for denials, unless a fault in the store is the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// Whether the same request can succeed later, for errors that have a code. Absent for denials,
    /// whose limits have the retry time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// The names of the enforced limits that denied the request, without duplicates: member
    /// `violated-policies`. Absent if there are none.
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    pub violated_policies: Vec<&'a str>,
    /// The decision of a denial. Its members are members of the problem.
    #[serde(flatten)]
    pub decision: Option<DecisionBody<'a>>,
}

impl<'a> Problem<'a> {
    /// A problem that its status and a sentence describe.
    ///
    /// ```
    /// use http::StatusCode;
    /// use tollgate_http::Problem;
    ///
    /// let problem = Problem::new(StatusCode::FORBIDDEN, "The request is on the deny list.");
    /// assert_eq!(
    ///     problem.to_json(),
    ///     r#"{"type":"about:blank","title":"Forbidden","status":403,"#.to_owned()
    ///         + r#""detail":"The request is on the deny list."}"#
    /// );
    /// ```
    pub fn new(status: StatusCode, detail: impl Into<Cow<'a, str>>) -> Self {
        Self {
            kind: "about:blank",
            title: phrase(status),
            status,
            detail: detail.into(),
            code: None,
            retryable: None,
            violated_policies: Vec::new(),
            decision: None,
        }
    }

    /// The client has used up the quota of a limit: status 429, type [`QUOTA_EXCEEDED`].
    pub fn quota_exceeded(detail: impl Into<Cow<'a, str>>) -> Self {
        Self {
            kind: QUOTA_EXCEEDED,
            title: QUOTA_EXCEEDED_TITLE,
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, detail)
        }
    }

    /// The problem details of a denied request; `None` when it is allowed.
    ///
    /// The status is 503 when a limit denies only because the store is unavailable or faulty (see
    /// [`Decision::is_unavailable`]), else 429. If an operator has blocked the client, or the key is
    /// locked out, the type is [`ABNORMAL_USAGE_DETECTED`].
    pub fn denied(decision: &'a Decision) -> Option<Self> {
        let decider = decision.denied_by()?;

        let abnormal = "Request not satisfied due to detection of abnormal request pattern";
        let (kind, title, detail) = if decision.refusal() == Some(Refusal::Bound) {
            let detail = detail(decider, "has too many open reservations");
            (QUOTA_EXCEEDED, QUOTA_EXCEEDED_TITLE, detail)
        } else if decision.is_unavailable() {
            let title = "Request cannot be satisfied due to temporary server capacity constraints";
            let detail = detail(decider, "is temporarily unavailable");
            (TEMPORARY_REDUCED_CAPACITY, title, detail)
        } else if decider.is_blocked() {
            (ABNORMAL_USAGE_DETECTED, abnormal, block_detail(decider))
        } else if decision.is_locked_out() {
            let detail = detail(decider, "was exceeded too often");
            (ABNORMAL_USAGE_DETECTED, abnormal, detail)
        } else {
            (
                QUOTA_EXCEEDED,
                QUOTA_EXCEEDED_TITLE,
                detail(decider, "exceeded"),
            )
        };
        let status = if decision.is_unavailable() {
            StatusCode::SERVICE_UNAVAILABLE
        } else {
            StatusCode::TOO_MANY_REQUESTS
        };
        let mut problem = Self {
            kind,
            title,
            code: decision.refusal().map(Refusal::code),
            ..Self::new(status, detail)
        };

        let denying = enforced(decision).filter(|limit| limit.is_enforced_denial());
        for name in denying.map(LimitOutcome::name) {
            if !problem.violated_policies.contains(&name) {
                problem.violated_policies.push(name);
            }
        }
        problem.decision = Some(DecisionBody::new(decision));
        Some(problem)
    }

    /// The body as JSON text, with the media type [`PROBLEM_JSON`].
    pub fn to_json(&self) -> String {
        let decision_capacity = self.decision.as_ref().map_or(0, DecisionBody::capacity);
        let mut text = String::with_capacity(PROBLEM_CAPACITY + decision_capacity);
        let mut object = ObjectWriter::new(&mut text);

        object.member("type", &self.kind);
        object.member("title", &self.title);
        object.member("status", &u64::from(self.status.as_u16()));
        object.member("detail", &&*self.detail);
        object.optional("code", self.code);
        object.optional("retryable", self.retryable);
        if !self.violated_policies.is_empty() {
            object.member("violated-policies", &self.violated_policies[..]);
        }
        if let Some(decision) = &self.decision {
            decision.write(&mut object);
        }

        object.end();
        text
    }

    /// A response with the problem's status and body. Its headers have room for the
    /// [`Fields`](crate::Fields) of a decision.
    pub fn to_response(&self) -> Response<Bytes> {
        let mut headers = HeaderMap::with_capacity(FIELDS_MAX);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));

        let mut response = Response::new(self.to_json().into());
        *response.status_mut() = self.status;
        *response.headers_mut() = headers;
        response
    }
}

/// The phrase of a status in RFC 9110. The `http` crate has older ones for these two.
fn phrase(status: StatusCode) -> &'static str {
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => "Content Too Large",
        StatusCode::UNPROCESSABLE_ENTITY => "Unprocessable Content",
        _ => status.canonical_reason().unwrap_or("Rejected"),
    }
}

/// A sentence about a limit that denies. Names of limits need no escaping between quotes.
fn detail(limit: &LimitOutcome, verb: &str) -> String {
    let name = limit.name();
    match limit.retry() {
        Some(Retry::Never) => {
            let size = limit.limit();
            format!("The cost exceeds limit \"{name}\" ({size}); the request can never pass.")
        }
        Some(Retry::After(length)) => {
            let secs = retry_secs(length);
            let unit = if secs == 1 { " second." } else { " seconds." };
            let mut buffer = itoa::Buffer::new();
            let secs = buffer.format(secs);
            // Joined and not formatted, because that is faster and most denials are of this kind.
            ["Limit \"", name, "\" ", verb, "; retry in ", secs, unit].concat()
        }
        None => format!("Limit \"{name}\" {verb}; retry later."),
    }
}

/// A sentence about a block. It does not say why: that is for operators.
fn block_detail(limit: &LimitOutcome) -> String {
    let name = limit.name();
    match limit.retry() {
        Some(Retry::After(length)) => {
            let secs = retry_secs(length);
            let unit = if secs == 1 { "second" } else { "seconds" };
            format!("Blocked under limit \"{name}\"; retry in {secs} {unit}.")
        }
        _ => format!("Blocked under limit \"{name}\"; retrying will not help."),
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes the field by reference"
)]
fn serialize_status<S: serde::Serializer>(status: &StatusCode, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u16(status.as_u16())
}
