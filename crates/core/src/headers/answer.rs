//! A decision as a JSON object: the body of an answer, and the part of a problem that says the same in numbers.

use serde::Serialize;

use super::millis_ceil;
use crate::decision::{Decision, LimitStatus, Retry};
use crate::limit::OnStoreFailure;

/// Room for the answer of two limits, so that the usual body is not moved while it grows.
const BODY_USUAL: usize = 320;

/// A decision as the service's answers carry it. Field names are member names.
///
/// ```
/// use std::time::Duration;
/// use tollgate::headers::Answer;
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::in_memory([Limit::fixed_window("login", 5, Duration::from_secs(900))]);
/// let decision = limiter.check("login", "ann").immediately()?;
/// let answer = Answer::of(&decision);
/// assert!(answer.allowed);
/// assert_eq!((answer.limits[0].remaining, answer.limits[0].reset_after_ms), (4, 900_000));
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Answer<'a> {
    /// True when the request may pass.
    pub allowed: bool,
    /// How it was decided, in the words of [`Source::as_str`](crate::Source::as_str).
    pub source: &'static str,
    /// True when the store was away and the limits' failure policies answered.
    pub degraded: bool,
    /// How long to hold the request before letting it through, as queues ask.
    pub wait_ms: u64,
    /// What every limit said, in the order asked, shadow limits too.
    pub limits: Vec<LimitAnswer<'a>>,
    /// What to release when the work is done: the number of [`Decision::lease`] in 32 hexadecimal digits. Absent when
    /// nothing is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
}

/// What one limit said, as a member of [`Answer::limits`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LimitAnswer<'a> {
    /// The limit's name.
    pub name: &'a str,
    /// The most that passes at once.
    pub limit: u64,
    /// Whole units left.
    pub remaining: u64,
    /// How long until the budget is full again, rounded up.
    pub reset_after_ms: u64,
    /// How long until the request would pass this limit, rounded up; `null` when it does now, and when it never will.
    pub retry_after_ms: Option<u64>,
    /// True when the request asks for more than the limit holds when full. Absent otherwise.
    #[serde(skip_serializing_if = "is_false")]
    pub never: bool,
    /// True when the limit only counts and reports. Absent otherwise.
    #[serde(skip_serializing_if = "is_false")]
    pub shadow: bool,
    /// The failure policy that answered in place of the store, in the words of
    /// [`OnStoreFailure::as_str`](crate::OnStoreFailure::as_str). Absent when the store did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<&'static str>,
}

impl<'a> Answer<'a> {
    /// The members for a decision.
    pub fn of(decision: &'a Decision) -> Self {
        Self {
            allowed: decision.is_allowed(),
            source: decision.source().as_str(),
            degraded: decision.is_degraded(),
            wait_ms: millis_ceil(decision.wait()),
            limits: decision.limits().iter().map(LimitAnswer::of).collect(),
            lease: decision.lease().map(|lease| format!("{:032x}", lease.get())),
        }
    }

    /// The object as text.
    pub fn to_json(&self) -> String {
        to_json(self)
    }
}

impl<'a> LimitAnswer<'a> {
    fn of(status: &'a LimitStatus) -> Self {
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
            fallback: status.fallback().map(OnStoreFailure::as_str),
        }
    }
}

/// The bodies of this module as text. They are structs of text, numbers and lists, which never fail to serialise.
pub(super) fn to_json(body: &impl Serialize) -> String {
    let mut text = Vec::with_capacity(BODY_USUAL);
    let written = serde_json::to_writer(&mut text, body);
    written.ok().and_then(|()| String::from_utf8(text).ok()).unwrap_or_default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}
