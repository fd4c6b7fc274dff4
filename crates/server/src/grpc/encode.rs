//! Encodes a decision as Envoy's response.

use std::time::Duration;

use hyper::StatusCode;
use tollgate::algorithm::WindowStart;
use tollgate::{Calendar, Decision, Demand, EncodedKey, LimitOutcome, Micros, Quota, Retry};
use tollgate_envoy::{
    Code, DescriptorStatus, HeaderValue, RateLimit, RateLimitResponse, ReserveResponse, Unit,
};
use tollgate_gate::{ActiveConfig, GateDecision, PERMIT_HEADER_MAX};
use tollgate_http::{Fields, PROBLEM_JSON, Problem};

use super::overrides::Override;
use super::plan::{DescriptorPlan, RequestPlan};

/// Units of fixed length in seconds, the longest first. An Envoy that does not know weeks yet shows
/// no unit then, rather than a wrong one.
const UNITS: [(u64, Unit); 5] = [
    (7 * 86_400, Unit::Week),
    (86_400, Unit::Day),
    (3_600, Unit::Hour),
    (60, Unit::Minute),
    (1, Unit::Second),
];
/// Envoy has one status for all denials, even for those because the store is unavailable.
const DENIED: StatusCode = StatusCode::TOO_MANY_REQUESTS;
/// Tells the upstream that a request was checked: Envoy itself does not mark those that it lets pass
/// because this service did not respond.
const CHECKED: &str = "x-ratelimit-checked";
/// The most header fields of a denial: seven of the decision, two of its body.
const HEADERS_MAX: usize = 9;
/// The window of an override by the year.
const YEAR_SECS: u64 = 366 * 86_400;

/// The response to a request that was decided.
pub(super) fn decision(
    active: &ActiveConfig,
    plan: &RequestPlan<'_>,
    decision: &GateDecision,
    now: Micros,
) -> RateLimitResponse {
    let GateDecision {
        decision, permit, ..
    } = decision;
    let statuses = plan
        .descriptors
        .iter()
        .map(|descriptor| status(descriptor, plan, decision))
        .collect();
    let mut response = RateLimitResponse {
        statuses,
        ..Default::default()
    };

    response.response_headers_to_add = headers(active, decision, now);

    match denial(plan, decision) {
        None => {
            response.set_overall_code(Code::Ok);
            response
                .request_headers_to_add
                .push(header(CHECKED, "true"));
        }
        Some(problem) => {
            let (content_type, body) = match &active.config.denial {
                Some(template) => (
                    template.content_type().to_str().unwrap_or_default(),
                    template.render(&problem, decision.denied_by()),
                ),
                None => (PROBLEM_JSON, problem.to_json()),
            };
            deny(&mut response, content_type, body);
        }
    }

    // The permit goes to the upstream, which does the work, and not to the client, who could
    // release it early.
    let permit = permit
        .as_ref()
        .filter(|permit| permit.len() <= PERMIT_HEADER_MAX)
        .map(|permit| header("x-ratelimit-permit", permit));
    response.request_headers_to_add.extend(permit);
    response
}

/// The response to a reservation that was decided.
pub(super) fn reservation(
    active: &ActiveConfig,
    plan: &RequestPlan<'_>,
    decision: GateDecision,
    now: Micros,
) -> ReserveResponse {
    let code = match denial(plan, &decision.decision) {
        None => Code::Ok,
        Some(_) => Code::OverLimit,
    };
    ReserveResponse {
        code: code.into(),
        headers: headers(active, &decision.decision, now),
        reservation_id: decision.reservation.unwrap_or_default(),
    }
}

/// The denial of a reservation that has no valid key.
pub(super) fn denied_reservation() -> ReserveResponse {
    ReserveResponse {
        code: Code::OverLimit.into(),
        ..Default::default()
    }
}

/// The rate limit headers of a decision, with room for those of a denial.
fn headers(active: &ActiveConfig, decision: &Decision, now: Micros) -> Vec<HeaderValue> {
    let mut headers = Vec::with_capacity(HEADERS_MAX);
    for (name, value) in Fields::new(decision, active.config.headers, now) {
        headers.push(header(name, value.to_str().unwrap_or_default()));
    }
    headers
}

/// The denial of a request that has no valid key, for the given number of descriptors.
pub(super) fn denied(reason: &str, descriptors: usize) -> RateLimitResponse {
    let status = DescriptorStatus {
        code: Code::OverLimit.into(),
        ..Default::default()
    };

    let mut response = RateLimitResponse {
        statuses: vec![status; descriptors],
        ..Default::default()
    };

    let mut problem = Problem::new(DENIED, reason);
    problem.title = "Invalid rate limit key";
    deny(&mut response, PROBLEM_JSON, problem.to_json());
    response
}

/// The body of a denial; none if the request is allowed.
fn denial<'d>(plan: &RequestPlan<'_>, decision: &'d Decision) -> Option<Problem<'d>> {
    if let Some(mut problem) = Problem::denied(decision) {
        problem.status = DENIED;
        return Some(problem);
    }

    let zero_limit = plan
        .descriptors
        .iter()
        .find_map(|descriptor| descriptor.zero_limit)?;
    let mut problem =
        Problem::quota_exceeded("The proxy's limit for this request is 0; retrying will not help.");
    problem.violated_policies.push(zero_limit.name());
    Some(problem)
}

fn deny(response: &mut RateLimitResponse, content_type: &str, body: String) {
    response.set_overall_code(Code::OverLimit);
    response.raw_body = body.into();
    let headers = &mut response.response_headers_to_add;
    headers.push(header("content-type", content_type));
    headers.push(header("cache-control", "no-store"));
}

fn header(name: &'static str, value: &str) -> HeaderValue {
    HeaderValue {
        key: name.into(),
        value: value.to_owned(),
        ..Default::default()
    }
}

/// The status of a descriptor: that of the limit that denies it longest, or else of the limit with
/// the fewest units left.
fn status(
    descriptor: &DescriptorPlan,
    plan: &RequestPlan<'_>,
    decision: &Decision,
) -> DescriptorStatus {
    if let Some(zero_limit) = descriptor.zero_limit {
        return zero_limit_status(zero_limit);
    }

    let own = descriptor.demands.iter().filter_map(|index| {
        let index = usize::from(*index);
        Some((plan.demands.get(index)?, decision.limits().get(index)?))
    });
    // An exempt key has no numbers to report, and neither has a limit that was not asked because
    // another one is blocked.
    let enforced = own.filter(|(_, outcome)| !outcome.is_shadow() && outcome.is_counted());
    let Some((demand, outcome)) = enforced.min_by_key(|(_, outcome)| tightness(outcome)) else {
        return DescriptorStatus {
            code: Code::Ok.into(),
            ..Default::default()
        };
    };

    let (code, until) = match outcome.retry() {
        None => (Code::Ok, Some(outcome.reset_after())),
        Some(Retry::After(length)) => (Code::OverLimit, Some(length.max(Duration::from_secs(1)))),
        Some(Retry::Never) => (Code::OverLimit, None),
    };
    DescriptorStatus {
        code: code.into(),
        current_limit: Some(current_limit(demand, outcome)),
        limit_remaining: at_most_u32(outcome.remaining()),
        duration_until_reset: until.map(whole_secs),
    }
}

/// Orders limits, the tightest first: those that deny longest, then those with the fewest units
/// left, then those that take longest to reset.
fn tightness(outcome: &LimitOutcome) -> impl Ord {
    use std::cmp::Reverse;
    (
        Reverse(outcome.retry()),
        outcome.remaining(),
        Reverse(outcome.reset_after()),
    )
}

fn zero_limit_status(limit: Override) -> DescriptorStatus {
    let current_limit = rate_limit(0, limit.unit, limit.multiplier, limit.name());
    DescriptorStatus {
        code: Code::OverLimit.into(),
        current_limit: Some(current_limit),
        ..Default::default()
    }
}

fn current_limit(demand: &Demand<'_, EncodedKey>, outcome: &LimitOutcome) -> RateLimit {
    let (unit, multiplier) = match outcome.window() {
        Some(window) if !is_month(demand.quota()) => in_units(window),
        Some(_) => (Unit::Month, 1),
        None => (Unit::Unknown, 1),
    };
    rate_limit(outcome.limit(), unit, multiplier, outcome.name())
}

fn rate_limit(limit: u64, unit: Unit, multiplier: u32, name: &str) -> RateLimit {
    RateLimit {
        requests_per_unit: at_most_u32(limit),
        unit: unit.into(),
        name: name.to_owned(),
        unit_multiplier: Some(multiplier).filter(|multiplier| *multiplier > 1),
    }
}

/// True when the window is a calendar month, which has no fixed length.
fn is_month(quota: &Quota) -> bool {
    const MONTH: WindowStart = WindowStart::Clock(Calendar::Month);
    matches!(quota, Quota::FixedWindow(window) if window.start() == MONTH)
}

/// A window as a number of units; the unit is unknown if it is not a whole number of seconds.
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

/// Rounds up to whole seconds, because Envoy truncates.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_given_in_the_longest_unit_that_divides_them() {
        let units = |secs| in_units(Duration::from_secs(secs));
        assert_eq!(units(1), (Unit::Second, 1));
        assert_eq!(units(90), (Unit::Second, 90));
        assert_eq!(units(900), (Unit::Minute, 15));
        assert_eq!(units(86_400), (Unit::Day, 1));
        assert_eq!(units(14 * 86_400), (Unit::Week, 2));
        assert_eq!(units(31 * 86_400), (Unit::Day, 31));
        assert_eq!(units(YEAR_SECS), (Unit::Year, 1));
        assert_eq!(in_units(Duration::from_millis(1_500)), (Unit::Unknown, 1));
        assert_eq!(units(0), (Unit::Unknown, 1));
    }
}
