//! A decision as a JSON object: the body of an answer, and the part of a problem that says the same
//! in numbers.

use serde::Serialize;

use super::millis_ceil;
use super::write::Object;
use crate::decision::{Decision, LimitOutcome, Retry};
use crate::limit::FailurePolicy;

/// Room for what an answer says of itself, and for what each limit says, so that the usual body is
/// not moved while it grows.
const ANSWER_USUAL: usize = 128;
const LIMIT_USUAL: usize = 192;

/// A decision as the service's answers carry it. Field names are member names.
///
/// ```
/// use std::time::Duration;
/// use tollgate::headers::DecisionBody;
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::in_memory([Limit::fixed_window("login", 5, Duration::from_secs(900))]);
/// let decision = limiter.check("login", "ann").now_or_never()?;
/// let answer = DecisionBody::new(&decision);
/// assert!(answer.allowed);
/// assert_eq!((answer.limits[0].remaining, answer.limits[0].reset_after_ms), (4, 900_000));
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DecisionBody<'a> {
    /// True when the request may pass.
    pub allowed: bool,
    /// How it was decided, in the words of [`Source::as_str`](crate::Source::as_str).
    pub source: &'static str,
    /// True when the store was away and the limits' failure policies answered.
    pub degraded: bool,
    /// How long to hold the request before letting it through, as queues ask.
    pub wait_ms: u64,
    /// What every limit said, in the order asked, shadow limits too.
    pub limits: Vec<LimitBody<'a>>,
    /// What to release when the work is done: the number of [`Decision::lease`] in 32 hexadecimal
    /// digits. Absent when nothing is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permit: Option<String>,
}

/// What one limit said, as a member of [`DecisionBody::limits`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LimitBody<'a> {
    /// The limit's name.
    pub name: &'a str,
    /// The most that passes at once.
    pub limit: u64,
    /// Whole units left.
    pub remaining: u64,
    /// How long until the budget is full again, rounded up.
    pub reset_after_ms: u64,
    /// How long until the request would pass this limit, rounded up; `null` when it does now, and
    /// when it never will.
    pub retry_after_ms: Option<u64>,
    /// True when the request asks for more than the limit holds when full. Absent otherwise.
    #[serde(skip_serializing_if = "is_false")]
    pub never: bool,
    /// True when the limit only counts and reports. Absent otherwise.
    #[serde(skip_serializing_if = "is_false")]
    pub shadow: bool,
    /// The failure policy that answered in place of the store, in the words of
    /// [`FailurePolicy::as_str`](crate::FailurePolicy::as_str). Absent when the store did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<&'static str>,
}

impl<'a> DecisionBody<'a> {
    /// The members for a decision.
    pub fn new(decision: &'a Decision) -> Self {
        Self {
            allowed: decision.is_allowed(),
            source: decision.source().as_str(),
            degraded: decision.is_degraded(),
            wait_ms: millis_ceil(decision.wait()),
            limits: decision.limits().iter().map(LimitBody::of).collect(),
            permit: decision.permit_id().map(|id| format!("{:032x}", id.get())),
        }
    }

    /// The object as text.
    pub fn to_json(&self) -> String {
        let mut text = String::with_capacity(self.room());
        let mut object = Object::new(&mut text);
        self.write(&mut object);
        object.end();
        text
    }

    /// About how long the text is.
    pub(super) fn room(&self) -> usize {
        ANSWER_USUAL + LIMIT_USUAL * self.limits.len() + self.permit.as_ref().map_or(0, String::len)
    }

    /// Adds the members to an object.
    pub(super) fn write(&self, object: &mut Object<'_>) {
        object.flag("allowed", self.allowed);
        object.text("source", self.source);
        object.flag("degraded", self.degraded);
        object.number("wait_ms", self.wait_ms);
        object.list("limits", &self.limits, |to, limit| limit.write(to));
        if let Some(permit) = &self.permit {
            object.text("permit", permit);
        }
    }
}

impl<'a> LimitBody<'a> {
    fn of(status: &'a LimitOutcome) -> Self {
        let (retry_after_ms, never) = match status.retry() {
            None => (None, false),
            Some(Retry::After(length)) => (Some(millis_ceil(length)), false),
            Some(Retry::Never) => (None, true),
        };
        Self {
            name: status.name(),
            limit: status.limit(),
            remaining: status.remaining(),
            reset_after_ms: millis_ceil(status.reset_after()),
            retry_after_ms,
            never,
            shadow: status.is_shadow(),
            fallback: status.fallback().map(FailurePolicy::as_str),
        }
    }

    fn write(&self, to: &mut String) {
        let mut object = Object::new(to);
        object.text("name", self.name);
        object.number("limit", self.limit);
        object.number("remaining", self.remaining);
        object.number("reset_after_ms", self.reset_after_ms);
        object.number_or_null("retry_after_ms", self.retry_after_ms);
        for (name, flag) in [("never", self.never), ("shadow", self.shadow)] {
            if flag {
                object.flag(name, true);
            }
        }
        if let Some(fallback) = self.fallback {
            object.text("fallback", fallback);
        }
        object.end();
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes the field by reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}
