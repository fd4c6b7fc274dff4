//! A denial as a line of JSON.

use opentelemetry::trace::TraceContextExt as _;
use serde::Serialize;
use tollgate::{KeyPart, Micros, Retry};
use tollgate_gate::{Denial, RequestOrigin};
use tollgate_rules::text::visible_json;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::key_part::KeyPartView;

/// The most characters of a request id in a line.
const REQUEST_ID_MAX: usize = 128;

/// A line about a denial. Field names are JSON member names.
#[derive(Debug, Serialize)]
struct DenialLine<'d> {
    time: String,
    event: &'static str,
    limit: &'d str,
    key: Vec<KeyPartView<'d>>,
    cost: u64,
    source: &'static str,
    /// `None` if the request can never pass.
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
}

/// A line about lines that are missing.
#[derive(Debug, Serialize)]
struct DropLine {
    time: String,
    event: &'static str,
    lines: u64,
}

/// The line of a denial, with its line break. Hidden characters are escaped.
pub(super) fn encode(denial: &Denial<'_>) -> String {
    let retry_after_ms = match denial.outcome.retry() {
        Some(Retry::After(length)) => Some(u64::try_from(length.as_millis()).unwrap_or(u64::MAX)),
        Some(Retry::Never) | None => None,
    };
    to_line(&DenialLine {
        time: time(denial.now),
        event: "denied",
        limit: denial.demand.limit.name().as_str(),
        key: key(denial),
        cost: denial.demand.cost,
        source: denial.outcome.source().as_str(),
        retry_after_ms,
        request_id: request_id(denial.origin),
        trace_id: trace_id(denial.origin),
    })
}

/// The line about dropped lines, with its line break.
pub(super) fn encode_dropped(lines: u64, now: Micros) -> String {
    to_line(&DropLine {
        time: time(now),
        event: "dropped",
        lines,
    })
}

fn to_line(line: &impl Serialize) -> String {
    // Structs of text, numbers and lists never fail to serialise.
    let json = serde_json::to_string(line).unwrap_or_default();
    let mut line = visible_json(&json).into_owned();
    line.push('\n');
    line
}

/// A time such as `2026-11-18T03:12:00.123Z`.
fn time(now: Micros) -> String {
    let micros = i64::try_from(now.get()).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.3}")
}

/// The parts of the key, by the recipe of its limit.
fn key<'d>(denial: &Denial<'d>) -> Vec<KeyPartView<'d>> {
    let position = denial.demand.limit.position();
    let selector = &denial.active.selector;
    if position >= denial.active.config.limits.len() {
        let parts = denial.demand.key.parts();
        return parts.map(part_without_recipe).collect();
    }

    let parts = selector.display_key(position, &denial.demand.key);
    KeyPartView::list(parts.unwrap_or_default())
}

/// A part of a key that a request brought along with its limit.
fn part_without_recipe(part: KeyPart<'_>) -> KeyPartView<'static> {
    let (value, hashed) = match part {
        KeyPart::Text(text) => (text.to_owned(), false),
        KeyPart::Address(address) => (address.to_string(), false),
        KeyPart::Number(number) => (number.to_string(), false),
        KeyPart::Hash(hash) => (hash.to_string(), true),
        KeyPart::Bytes(bytes) => (String::from_utf8_lossy(bytes).into_owned(), false),
    };
    KeyPartView {
        attribute: "key".into(),
        value,
        hashed,
    }
}

fn request_id(origin: &RequestOrigin) -> Option<String> {
    let id = origin.request_id.as_ref()?;
    let text = String::from_utf8_lossy(id.as_bytes());
    Some(text.chars().take(REQUEST_ID_MAX).collect())
}

/// The trace of the request's span if traces are exported, otherwise the one that it names.
fn trace_id(origin: &RequestOrigin) -> Option<String> {
    let span = Span::current();
    if !span.is_disabled() {
        let context = span.context();
        let context = context.span().span_context().clone();
        if context.is_valid() {
            return Some(context.trace_id().to_string());
        }
    }

    // `00-<trace id>-<parent id>-<flags>`
    let text = origin.traceparent.as_ref()?.to_str().ok()?;
    let id = text.split('-').nth(1)?;
    let is_hex = |digit: char| matches!(digit, '0'..='9' | 'a'..='f');
    let is_valid = id.len() == 32 && id.chars().all(is_hex) && id.chars().any(|c| c != '0');
    is_valid.then(|| id.to_owned())
}
