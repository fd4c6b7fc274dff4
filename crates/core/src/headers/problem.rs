//! The problem details of a denial: an `application/problem+json` body (RFC 9457) of the types that
//! draft-ietf-httpapi-ratelimit-headers registers. It contains the names of limits but never keys,
//! because a key may be a secret.

use serde::Serialize;

use super::body::DecisionBody;
use super::enforced;
use super::retry_after::wait_secs;
use super::write::{self, ObjectWriter};
use crate::decision::{Decision, LimitOutcome, Retry};

/// The media type of a [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";
/// The problem type of a denial because the client has used up its quota.
pub const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
/// The problem type of a denial because of a temporary problem of the server.
pub const TEMPORARY_REDUCED_CAPACITY: &str =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

/// Capacities for the members before those of the decision and for the detail text, so that neither
/// is reallocated while it grows.
const PROBLEM_CAPACITY: usize = 384;
const DETAIL_CAPACITY: usize = 128;

/// The body of a denial: the members of RFC 9457, then those of [`DecisionBody`].
///
/// ```
/// use tollgate::headers::Problem;
/// use tollgate::{Limit, Limiter, Rate};
///
/// let limiter = Limiter::in_memory([Limit::token_bucket("upload", 10, Rate::per_hour(1))])?;
/// let allowed = limiter.check("upload", "ann").cost(10).try_now()?;
/// assert_eq!(Problem::denied(&allowed), None);
///
/// let denied = limiter.check("upload", "ann").try_now()?;
/// let problem = Problem::denied(&denied).unwrap();
/// assert_eq!(problem.status, 429);
/// assert_eq!(problem.detail, r#"Limit "upload" exceeded; retry in 3600 seconds."#);
/// assert_eq!(problem.violated_policies, ["upload"]);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem<'a> {
    /// The problem type as a URI: member `type`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// A summary of the problem type, the same for every problem of the type.
    pub title: &'static str,
    /// The HTTP status to send. Change it if a proxy needs another one.
    pub status: u16,
    /// A sentence about this denial: which limit, and when to retry.
    pub detail: String,
    /// The names of the enforced limits that denied the request, without duplicates: member
    /// `violated-policies`.
    #[serde(rename = "violated-policies")]
    pub violated_policies: Vec<&'a str>,
    /// The decision. Its members are members of the problem.
    #[serde(flatten)]
    pub decision: DecisionBody<'a>,
}

impl<'a> Problem<'a> {
    /// The problem details of a denied request; `None` when it is allowed.
    ///
    /// The status is 503 when a limit denies only because the store is unavailable (see
    /// [`Decision::is_unavailable`]), else 429.
    pub fn denied(decision: &'a Decision) -> Option<Self> {
        Self::unavailable(decision).or_else(|| Self::quota_exceeded(decision))
    }

    /// The problem details, with status 503, of a request that is denied only because the store is
    /// unavailable. `None` for all other decisions.
    pub fn unavailable(decision: &'a Decision) -> Option<Self> {
        let decider = decision.denied_by().filter(|_| decision.is_unavailable())?;

        let title = "Request cannot be satisfied due to temporary server capacity constraints";
        let detail = unavailable_detail(decider);
        Some(Self::new(
            TEMPORARY_REDUCED_CAPACITY,
            title,
            503,
            detail,
            decision,
        ))
    }

    fn quota_exceeded(decision: &'a Decision) -> Option<Self> {
        let decider = decision.denied_by()?;
        let title = "Request cannot be satisfied as assigned quota has been exceeded";
        let detail = exceeded_detail(decider);
        Some(Self::new(QUOTA_EXCEEDED, title, 429, detail, decision))
    }

    fn new(
        kind: &'static str,
        title: &'static str,
        status: u16,
        detail: String,
        decision: &'a Decision,
    ) -> Self {
        let mut violated_policies = Vec::with_capacity(1);
        let denying = enforced(decision).filter(|limit| limit.is_enforced_denial());
        for name in denying.map(LimitOutcome::name) {
            if !violated_policies.contains(&name) {
                violated_policies.push(name);
            }
        }

        Self {
            kind,
            title,
            status,
            detail,
            violated_policies,
            decision: DecisionBody::new(decision),
        }
    }

    /// The body as JSON text, with the media type [`PROBLEM_JSON`].
    pub fn to_json(&self) -> String {
        let mut text = String::with_capacity(PROBLEM_CAPACITY + self.decision.capacity());
        let mut object = ObjectWriter::new(&mut text);

        object.text("type", self.kind);
        object.text("title", self.title);
        object.number("status", self.status.into());
        object.text("detail", &self.detail);
        object.list("violated-policies", &self.violated_policies, |out, name| {
            write::text(out, name);
        });
        self.decision.write(&mut object);

        object.end();
        text
    }
}

/// The detail text of a limit that is exceeded. Names of limits need no escaping between quotes.
fn exceeded_detail(decider: &LimitOutcome) -> String {
    let name = decider.name();
    if decider.retry() == Some(Retry::Never) {
        let limit = decider.limit();
        return format!("The cost exceeds limit \"{name}\" ({limit}); the request can never pass.");
    }
    with_retry_time(["Limit \"", name, "\" exceeded"], decider.retry())
}

/// The detail text of a limit that denies because the store is unavailable.
fn unavailable_detail(decider: &LimitOutcome) -> String {
    let sentence = ["Limit \"", decider.name(), "\" is temporarily unavailable"];
    with_retry_time(sentence, decider.retry())
}

/// A sentence that ends with the retry time.
fn with_retry_time(sentence: [&str; 3], retry: Option<Retry>) -> String {
    let mut text = String::with_capacity(DETAIL_CAPACITY);
    text.extend(sentence);

    match retry {
        Some(Retry::After(length)) => {
            let secs = wait_secs(length);
            text.push_str("; retry in ");
            write::number(&mut text, secs);
            text.push_str(if secs == 1 { " second." } else { " seconds." });
        }
        Some(Retry::Never) | None => text.push_str("; retry later."),
    }

    text
}
