//! A decision in Envoy's words.

use std::time::Duration;

use tollgate::algorithm::WindowStart;
use tollgate::headers::{PROBLEM_JSON, Problem, QUOTA_EXCEEDED, each_field};
use tollgate::{Calendar, Decision, LimitOutcome, Micros, Quota, Retry};
use tollgate_envoy::{Code, DescriptorStatus, HeaderValue, RateLimit, RateLimitResponse, Unit};

use super::error::Uncountable;
use super::overrides::Override;
use super::plan::{Part, Plan};
use crate::gate::{ActiveConfig, GateDecision, GateDemand};

/// Units of a fixed length, the longest first. An Envoy too old for weeks tells no length then,
/// instead of a wrong one.
const UNITS: [(u64, Unit); 5] = [
    (7 * 86_400, Unit::Week),
    (86_400, Unit::Day),
    (3_600, Unit::Hour),
    (60, Unit::Minute),
    (1, Unit::Second),
];
/// Header fields of a refusal: seven of the decision, two of its body.
const HEADERS_MAX: usize = 9;
/// How long the limit for a year counts.
const YEAR_SECS: u64 = 366 * 86_400;

/// The whole answer.
pub(super) fn decided(
    running: &ActiveConfig,
    plan: &Plan<'_>,
    decided: &GateDecision,
    now: Micros,
) -> RateLimitResponse {
    let GateDecision {
        decision,
        permit: lease,
    } = decided;
    let statuses = plan
        .parts
        .iter()
        .map(|part| status(running, part, plan, decision))
        .collect();
    let mut response = RateLimitResponse {
        statuses,
        ..Default::default()
    };
    let headers = &mut response.response_headers_to_add;
    headers.reserve_exact(HEADERS_MAX);
    each_field(
        decision,
        running.config.headers,
        now.into(),
        |name, value| headers.push(header(name, value)),
    );
    match refusal(plan, decision) {
        None => response.set_overall_code(Code::Ok),
        Some(body) => refuse(&mut response, body),
    }
    // Where the work is done, and not where it is asked for: clients could end their own leases
    // early.
    let lease = lease
        .as_ref()
        .map(|lease| header("x-ratelimit-permit", &lease.to_text()));
    response.request_headers_to_add.extend(lease);
    response
}

/// The refusal of a request with so many descriptors that cannot be counted.
pub(super) fn uncountable(why: &str, descriptors: usize) -> RateLimitResponse {
    let status = DescriptorStatus {
        code: Code::OverLimit.into(),
        ..Default::default()
    };
    let mut response = RateLimitResponse {
        statuses: vec![status; descriptors],
        ..Default::default()
    };
    refuse(&mut response, to_json(&Uncountable::new(why)));
    response
}

/// The body of a refusal, if it is one.
fn refusal(plan: &Plan<'_>, decision: &Decision) -> Option<String> {
    if let Some(mut problem) = Problem::denied(decision) {
        // Envoy has one status for every refusal, also for one that is the store's fault.
        problem.status = 429;
        return Some(problem.to_json());
    }
    let closed = plan.parts.iter().find_map(|part| part.closed)?;
    Some(to_json(&Closed {
        kind: QUOTA_EXCEEDED,
        title: "Request cannot be satisfied as assigned quota has been exceeded",
        status: 429,
        detail: "The limit that the proxy sets for this request is 0; nothing passes, now or later.",
        violated_policies: [closed.name()],
    }))
}

fn refuse(response: &mut RateLimitResponse, body: String) {
    response.set_overall_code(Code::OverLimit);
    response.raw_body = body.into();
    response
        .response_headers_to_add
        .push(header("content-type", PROBLEM_JSON));
    response
        .response_headers_to_add
        .push(header("cache-control", "no-store"));
}

fn header(name: &'static str, value: &str) -> HeaderValue {
    HeaderValue {
        key: name.into(),
        value: value.to_owned(),
        ..Default::default()
    }
}

/// What a descriptor is told: about the limit that refuses it longest, else about the one with
/// least left.
fn status(
    running: &ActiveConfig,
    part: &Part,
    plan: &Plan<'_>,
    decision: &Decision,
) -> DescriptorStatus {
    if let Some(closed) = part.closed {
        return closed_status(closed);
    }
    let own = part.checks.iter().filter_map(|place| {
        let place = usize::from(*place);
        Some((plan.checks.get(place)?, decision.limits().get(place)?))
    });
    let enforced = own.filter(|(_, limit)| !limit.is_shadow());
    let Some((spend, limit)) = enforced.min_by_key(|(_, limit)| tightness(limit)) else {
        return DescriptorStatus {
            code: Code::Ok.into(),
            ..Default::default()
        };
    };
    let (code, until) = match limit.retry() {
        None => (Code::Ok, Some(limit.reset_after())),
        Some(Retry::After(length)) => (Code::OverLimit, Some(length.max(Duration::from_secs(1)))),
        Some(Retry::Never) => (Code::OverLimit, None),
    };
    DescriptorStatus {
        code: code.into(),
        current_limit: Some(current_limit(running, spend, limit)),
        limit_remaining: at_most_u32(limit.remaining()),
        duration_until_reset: until.map(whole_secs),
    }
}

/// Smaller is tighter: first what refuses, the longer the tighter; then what has least left, and of
/// those what takes longest.
fn tightness(limit: &LimitOutcome) -> impl Ord {
    use std::cmp::Reverse;
    (
        Reverse(limit.retry()),
        limit.remaining(),
        Reverse(limit.reset_after()),
    )
}

fn closed_status(closed: Override) -> DescriptorStatus {
    let current_limit = RateLimit {
        requests_per_unit: 0,
        unit: closed.unit.into(),
        name: closed.name().to_owned(),
        unit_multiplier: Some(closed.multiplier).filter(|multiplier| *multiplier > 1),
    };
    DescriptorStatus {
        code: Code::OverLimit.into(),
        current_limit: Some(current_limit),
        ..Default::default()
    }
}

fn current_limit(
    running: &ActiveConfig,
    spend: &GateDemand<'_>,
    limit: &LimitOutcome,
) -> RateLimit {
    let (unit, multiplier) = match limit.window() {
        Some(window) if !is_month(running, spend) => in_units(window),
        Some(_) => (Unit::Month, 1),
        None => (Unit::Unknown, 1),
    };
    RateLimit {
        requests_per_unit: at_most_u32(limit.limit()),
        unit: unit.into(),
        name: limit.name().to_owned(),
        unit_multiplier: Some(multiplier).filter(|multiplier| *multiplier > 1),
    }
}

/// True when a limit counts by the month, whose length in days differs.
fn is_month(running: &ActiveConfig, spend: &GateDemand<'_>) -> bool {
    let is_month = |quota: &Quota| matches!(quota, Quota::FixedWindow(window) if window.start() == WindowStart::Clock(Calendar::Month));
    match &spend.quota {
        Some(quota) => is_month(quota),
        None => running
            .limiter
            .rule(spend.limit)
            .is_ok_and(|rule| is_month(rule.quota())),
    }
}

/// A length as a number of units; of no known unit when it is no whole number of seconds.
fn in_units(length: Duration) -> (Unit, u32) {
    let secs = length.as_secs();
    if length.subsec_nanos() > 0 || secs == 0 {
        return (Unit::Unknown, 1);
    }
    if secs == YEAR_SECS {
        return (Unit::Year, 1);
    }
    let exact = UNITS
        .iter()
        .find(|(unit_secs, _)| secs.is_multiple_of(*unit_secs));
    exact.map_or((Unit::Unknown, 1), |(unit_secs, unit)| {
        (*unit, at_most_u32(secs / unit_secs))
    })
}

/// Rounded up, because Envoy cuts off what is less than a second.
fn whole_secs(length: Duration) -> tollgate_envoy::Duration {
    let secs = length
        .as_secs()
        .saturating_add(u64::from(length.subsec_nanos() > 0));
    tollgate_envoy::Duration {
        seconds: i64::try_from(secs).unwrap_or(i64::MAX),
        nanos: 0,
    }
}

fn at_most_u32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The body of a refusal by a limit of nothing.
#[derive(Debug, serde::Serialize)]
struct Closed<'c> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: &'static str,
    #[serde(rename = "violated-policies")]
    violated_policies: [&'c str; 1],
}

fn to_json(body: &impl serde::Serialize) -> String {
    // A struct of texts and numbers never fails to serialise.
    serde_json::to_string(body).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_told_in_the_longest_unit_that_fits() {
        let told = |secs| in_units(Duration::from_secs(secs));
        assert_eq!(told(1), (Unit::Second, 1));
        assert_eq!(told(90), (Unit::Second, 90));
        assert_eq!(told(900), (Unit::Minute, 15));
        assert_eq!(told(86_400), (Unit::Day, 1));
        assert_eq!(told(14 * 86_400), (Unit::Week, 2));
        assert_eq!(told(31 * 86_400), (Unit::Day, 31));
        assert_eq!(told(YEAR_SECS), (Unit::Year, 1));
        assert_eq!(in_units(Duration::from_millis(1_500)), (Unit::Unknown, 1));
        assert_eq!(told(0), (Unit::Unknown, 1));
    }
}
