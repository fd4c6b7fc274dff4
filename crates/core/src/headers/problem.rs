//! Why a request was refused, as an `application/problem+json` body (RFC 9457) of the types that
//! draft-ietf-httpapi-ratelimit-headers registers. It names limits and never keys: a key may be a
//! secret.

use serde::Serialize;

use super::body::DecisionBody;
use super::enforced;
use super::retry_after::wait_secs;
use super::write::{self, Object};
use crate::decision::{Decision, LimitOutcome, Retry};

/// The media type of a [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";
/// The type of a problem whose cause is that the client used up its quota.
pub const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
/// The type of a problem whose cause is on the server's side and will pass.
pub const TEMPORARY_REDUCED_CAPACITY: &str =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

/// Room for the members before those of the answer, and for the sentence among them, so that
/// neither is moved while it grows.
const PROBLEM_USUAL: usize = 384;
const SENTENCE_USUAL: usize = 128;

/// The body of a refusal: the members of RFC 9457, then those of [`DecisionBody`].
///
/// ```
/// use tollgate::headers::Problem;
/// use tollgate::{Limit, Limiter, Rate};
///
/// let limiter = Limiter::in_memory([Limit::token_bucket("upload", 10, Rate::per_hour(1))]);
/// let passed = limiter.check("upload", "ann").cost(10).now_or_never()?;
/// assert_eq!(Problem::denied(&passed), None);
///
/// let denied = limiter.check("upload", "ann").now_or_never()?;
/// let problem = Problem::denied(&denied).unwrap();
/// assert_eq!(problem.status, 429);
/// assert_eq!(problem.detail, r#"The limit "upload" has no room for this request now; try again in 3600 seconds."#);
/// assert_eq!(problem.violated_policies, ["upload"]);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem<'a> {
    /// What kind of problem it is, as a URI: member `type`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The kind in words, the same for every problem of the kind.
    pub title: &'static str,
    /// The HTTP status to send. Set it when a proxy needs another one.
    pub status: u16,
    /// This refusal in a sentence: which limit, and when to try again.
    pub detail: String,
    /// The names of the enforced limits that refuse, each once: member `violated-policies`.
    #[serde(rename = "violated-policies")]
    pub violated_policies: Vec<&'a str>,
    /// The decision in numbers; its members stand beside the others.
    #[serde(flatten)]
    pub answer: DecisionBody<'a>,
}

impl<'a> Problem<'a> {
    /// Why a request is refused. `None` when it passes.
    ///
    /// Status 429 when a limit has no room for it, counted in the store or, while that is away, in
    /// this process; 503 when a limit refuses only because the store is away, as
    /// [`Decision::is_unavailable`] tells.
    pub fn denied(decision: &'a Decision) -> Option<Self> {
        Self::unavailable(decision).or_else(|| Self::quota_exceeded(decision))
    }

    /// The store is away and the failure policy of the limit that decides is to refuse: status 503.
    /// `None` otherwise.
    pub fn unavailable(decision: &'a Decision) -> Option<Self> {
        let decider = decision.denied_by().filter(|_| decision.is_unavailable())?;
        let title = "Request cannot be satisfied due to temporary server capacity constraints";
        Some(Self::new(
            TEMPORARY_REDUCED_CAPACITY,
            title,
            503,
            cannot_count(decider),
            decision,
        ))
    }

    fn quota_exceeded(decision: &'a Decision) -> Option<Self> {
        let decider = decision.denied_by()?;
        let title = "Request cannot be satisfied as assigned quota has been exceeded";
        Some(Self::new(
            QUOTA_EXCEEDED,
            title,
            429,
            no_room(decider),
            decision,
        ))
    }

    fn new(
        kind: &'static str,
        title: &'static str,
        status: u16,
        detail: String,
        decision: &'a Decision,
    ) -> Self {
        let mut violated_policies = Vec::with_capacity(1);
        let refusing = enforced(decision).filter(|status| status.is_enforced_denial());
        for name in refusing.map(LimitOutcome::name) {
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
            answer: DecisionBody::new(decision),
        }
    }

    /// The body as text, to be sent as [`PROBLEM_JSON`].
    pub fn to_json(&self) -> String {
        let mut text = String::with_capacity(PROBLEM_USUAL + self.answer.room());
        let mut object = Object::new(&mut text);
        object.text("type", self.kind);
        object.text("title", self.title);
        object.number("status", self.status.into());
        object.text("detail", &self.detail);
        object.list("violated-policies", &self.violated_policies, |to, name| {
            write::text(to, name)
        });
        self.answer.write(&mut object);
        object.end();
        text
    }
}

/// The names of limits hold nothing that would need escaping between quotes.
fn no_room(decider: &LimitOutcome) -> String {
    let name = decider.name();
    if decider.retry() == Some(Retry::Never) {
        let holds = decider.limit();
        return format!(
            "The request asks for more than the limit \"{name}\" holds ({holds}); it will not pass later either."
        );
    }
    try_again(
        ["The limit \"", name, "\" has no room for this request now"],
        decider.retry(),
    )
}

fn cannot_count(decider: &LimitOutcome) -> String {
    try_again(
        [
            "The limit \"",
            decider.name(),
            "\" cannot be counted at the moment",
        ],
        decider.retry(),
    )
}

/// A sentence that ends with when to come back.
fn try_again(sentence: [&str; 3], retry: Option<Retry>) -> String {
    let mut text = String::with_capacity(SENTENCE_USUAL);
    text.extend(sentence);
    match retry {
        Some(Retry::After(length)) => {
            let secs = wait_secs(length);
            text.push_str("; try again in ");
            write::number(&mut text, secs);
            text.push_str(if secs == 1 { " second." } else { " seconds." });
        }
        Some(Retry::Never) | None => text.push_str("; try again later."),
    }
    text
}
