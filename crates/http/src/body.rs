//! A decision as a JSON object: the body of an allowed request's response, and part of the problem
//! details of a denial.
//!
//! Every response of the service has a body, so bodies are written without an intermediate
//! representation. Through `serde_json` alone the body of a denial takes 960 ns instead of 440.
//! Member names are constants that need no escaping, and few values need any: those are left to
//! `serde_json`, and so is what only peeks have.

use serde::Serialize;
use tollgate::{Decision, DegradedReason, FailurePolicy, LimitOutcome, Retry};

use crate::counter::CounterBody;
use crate::time::millis_ceil;

/// Capacities for the members of the decision and for each limit, so that the usual body is not
/// reallocated while it grows.
const DECISION_CAPACITY: usize = 128;
const LIMIT_CAPACITY: usize = 192;

/// A decision as a JSON object, as the service sends it. Field names are member names.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter};
/// use tollgate_http::DecisionBody;
///
/// let limiter = Limiter::in_memory([Limit::fixed_window("login", 5, Duration::from_secs(900))])?;
/// let decision = limiter.check("login", "ann").try_now()?;
/// let body = DecisionBody::new(&decision);
/// assert!(body.allowed);
/// assert_eq!((body.limits[0].remaining, body.limits[0].reset_after_ms), (4, 900_000));
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DecisionBody<'a> {
    /// True when the request may pass.
    pub allowed: bool,
    /// Where the decision came from, named as by [`Source::as_str`](tollgate::Source::as_str).
    pub source: &'static str,
    /// True when the store was unavailable and the limits' failure policies decided.
    pub degraded: bool,
    /// Why the failure policies decided, named as by
    /// [`DegradedReason::as_str`](tollgate::DegradedReason::as_str). Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded_reason: Option<&'static str>,
    /// How long an allowed request must wait in queue limits before it proceeds, in milliseconds,
    /// rounded up.
    pub wait_ms: u64,
    /// The outcome of every limit, in the order of the request, including shadow limits. Limits
    /// that were not asked, because the key of another one is blocked, are left out.
    pub limits: Vec<LimitBody<'a>>,
    /// An opaque token for the permit to release when the work is done. [`DecisionBody::new`]
    /// writes [`Decision::permit_id`] in 32 hexadecimal digits; the service replaces it with a
    /// base64 token of its own. Absent when there is no permit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permit: Option<String>,
    /// An opaque token to settle the reservation with. The service sets it. Absent when nothing was
    /// reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// Why `permit` or `reservation` is missing from an allowed request that should have it. The
    /// service sets it. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<&'static str>,
}

/// The outcome of one limit, in [`DecisionBody::limits`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a member of the object"
)]
pub struct LimitBody<'a> {
    /// The limit's name.
    pub name: &'a str,
    /// The size of the limit: its limit or capacity.
    pub limit: u64,
    /// Whole units left.
    pub remaining: u64,
    /// How long until the budget is full again, in milliseconds, rounded up.
    pub reset_after_ms: u64,
    /// How long until the request would pass this limit, in milliseconds, rounded up; `null` when
    /// the limit allows it, and when it can never pass.
    pub retry_after_ms: Option<u64>,
    /// True when the cost exceeds the limit's capacity, and for a block without an end. Absent
    /// otherwise.
    #[serde(skip_serializing_if = "is_false")]
    pub never: bool,
    /// True for a shadow limit, which never denies a request. Absent otherwise.
    #[serde(skip_serializing_if = "is_false")]
    pub shadow: bool,
    /// True when an operator has blocked the key. Absent otherwise.
    #[serde(skip_serializing_if = "is_false")]
    pub blocked: bool,
    /// True when an operator has exempted the key, so that nothing was charged. Absent otherwise.
    #[serde(skip_serializing_if = "is_false")]
    pub exempt: bool,
    /// True when the key is locked out because it was denied too often. Absent otherwise.
    #[serde(skip_serializing_if = "is_false")]
    pub locked_out: bool,
    /// The failure policy that decided instead of the store, named as by
    /// [`FailurePolicy::as_str`](tollgate::FailurePolicy::as_str). Absent when the store was
    /// available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<&'static str>,
    /// What the counter contains, as further members of the same object. Only in peeks.
    #[serde(flatten)]
    pub counter: Option<&'a CounterBody>,
}

impl<'a> DecisionBody<'a> {
    /// Creates the body of a decision.
    pub fn new(decision: &'a Decision) -> Self {
        Self {
            allowed: decision.is_allowed(),
            source: decision.source().as_str(),
            degraded: decision.is_degraded(),
            degraded_reason: decision.degraded_reason().map(DegradedReason::as_str),
            wait_ms: millis_ceil(decision.wait()),
            limits: reported(decision).map(LimitBody::new).collect(),
            permit: decision.permit_id().map(|id| format!("{:032x}", id.get())),
            reservation: None,
            warning: None,
        }
    }

    /// Adds what the counter of each limit contains, in the order of the limits.
    pub fn add_counters(&mut self, counters: &'a [CounterBody]) {
        for (limit, counter) in self.limits.iter_mut().zip(counters) {
            limit.counter = Some(counter);
        }
    }

    /// The object as JSON text.
    pub fn to_json(&self) -> String {
        let mut text = String::with_capacity(self.capacity());
        let mut object = ObjectWriter::new(&mut text);
        self.write(&mut object);
        object.end();
        text
    }

    /// The approximate length of the text, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        let tokens = self.permit.iter().chain(&self.reservation);
        let tokens: usize = tokens.map(String::len).sum();
        DECISION_CAPACITY + LIMIT_CAPACITY * self.limits.len() + tokens
    }

    /// Adds the members to an object.
    pub(crate) fn write(&self, object: &mut ObjectWriter<'_>) {
        object.member("allowed", &self.allowed);
        object.member("source", &self.source);
        object.member("degraded", &self.degraded);
        object.optional("degraded_reason", self.degraded_reason);
        object.member("wait_ms", &self.wait_ms);
        object.member("limits", &self.limits[..]);
        object.optional("permit", self.permit.as_deref());
        object.optional("reservation", self.reservation.as_deref());
        object.optional("warning", self.warning);
    }
}

impl<'a> LimitBody<'a> {
    fn new(limit: &'a LimitOutcome) -> Self {
        let (retry_after_ms, never) = match limit.retry() {
            None => (None, false),
            Some(Retry::After(length)) => (Some(millis_ceil(length)), false),
            Some(Retry::Never) => (None, true),
        };

        Self {
            name: limit.name(),
            limit: limit.limit(),
            remaining: limit.remaining(),
            reset_after_ms: millis_ceil(limit.reset_after()),
            retry_after_ms,
            never,
            shadow: limit.is_shadow(),
            blocked: limit.is_blocked(),
            exempt: limit.is_exempt(),
            locked_out: limit.is_locked_out(),
            fallback: limit.fallback().map(FailurePolicy::as_str),
            counter: None,
        }
    }
}

impl ToJson for LimitBody<'_> {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::new(out);
        object.member("name", &self.name);
        object.member("limit", &self.limit);
        object.member("remaining", &self.remaining);
        object.member("reset_after_ms", &self.reset_after_ms);
        object.member("retry_after_ms", &self.retry_after_ms);
        object.optional("never", self.never.then_some(true));
        object.optional("shadow", self.shadow.then_some(true));
        object.optional("blocked", self.blocked.then_some(true));
        object.optional("exempt", self.exempt.then_some(true));
        object.optional("locked_out", self.locked_out.then_some(true));
        object.optional("fallback", self.fallback);
        if let Some(counter) = self.counter {
            object.members(counter);
        }
        object.end();
    }
}

/// The limits that were asked, and those from which the key is exempt.
fn reported(decision: &Decision) -> impl Iterator<Item = &LimitOutcome> {
    let limits = decision.limits().iter();
    limits.filter(|limit| limit.is_counted() || limit.is_exempt())
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes the field by reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// A value that can be appended to a JSON text.
pub(crate) trait ToJson {
    fn write(&self, out: &mut String);
}

/// Appends a JSON object to a text, with its members in the order of the calls.
pub(crate) struct ObjectWriter<'t> {
    out: &'t mut String,
    /// The character before the next member: `{` before the first, then `,`.
    separator: char,
}

impl<'t> ObjectWriter<'t> {
    pub(crate) const fn new(out: &'t mut String) -> Self {
        Self {
            out,
            separator: '{',
        }
    }

    /// Adds a member whose name needs no escaping. Inlined, so that the name is a constant where it
    /// is copied.
    #[inline(always)]
    pub(crate) fn member<T: ToJson + ?Sized>(&mut self, name: &'static str, value: &T) {
        self.out.push(self.separator);
        self.separator = ',';
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str("\":");
        value.write(self.out);
    }

    /// Adds a member unless it has no value.
    #[inline(always)]
    pub(crate) fn optional<T: ToJson>(&mut self, name: &'static str, value: Option<T>) {
        if let Some(value) = value {
            self.member(name, &value);
        }
    }

    /// Adds the members of another object, which has some.
    fn members(&mut self, object: &impl Serialize) {
        // Serializing structs of numbers and texts never fails.
        let text = serde_json::to_string(object).unwrap_or_default();
        let members = text
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'));
        self.out.push(self.separator);
        self.separator = ',';
        self.out.push_str(members.unwrap_or_default());
    }

    /// Ends the object, which must have at least one member.
    pub(crate) fn end(self) {
        self.out.push('}');
    }
}

impl ToJson for bool {
    fn write(&self, out: &mut String) {
        out.push_str(if *self { "true" } else { "false" });
    }
}

impl ToJson for u64 {
    fn write(&self, out: &mut String) {
        out.push_str(itoa::Buffer::new().format(*self));
    }
}

/// `null` without a value.
impl ToJson for Option<u64> {
    fn write(&self, out: &mut String) {
        match self {
            Some(number) => number.write(out),
            None => out.push_str("null"),
        }
    }
}

impl ToJson for &str {
    fn write(&self, out: &mut String) {
        if has_byte(self, |byte| matches!(byte, 0..=0x1f | b'\\')) {
            // Serializing a string never fails.
            out.push_str(&serde_json::to_string(self).unwrap_or_default());
            return;
        }

        out.push('"');
        if has_byte(self, |byte| byte == b'"') {
            for (index, piece) in self.split('"').enumerate() {
                out.push_str(if index > 0 { "\\\"" } else { "" });
                out.push_str(piece);
            }
        } else {
            out.push_str(self);
        }
        out.push('"');
    }
}

impl<T: ToJson> ToJson for [T] {
    fn write(&self, out: &mut String) {
        out.push('[');
        for (index, item) in self.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            item.write(out);
        }
        out.push(']');
    }
}

/// True when a byte of the text matches. It always reads all bytes, because an early exit makes the
/// loop slower.
fn has_byte(value: &str, matches: impl Fn(u8) -> bool) -> bool {
    value
        .bytes()
        .fold(false, |found, byte| found | matches(byte))
}
