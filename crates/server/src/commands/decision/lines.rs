//! A decision as text: the verdict, then what remains of each limit. Members that
//! the response lacks are left out, so that services of other versions can be queried too.

use hyper::StatusCode;
use serde_json::Value;

use super::super::numbers::length;
use super::super::terminal::{Align, Tone, name_row, plain, table};
use super::DecisionKind;

/// The lines about a decision.
pub(super) fn lines(decision: &Value, status: StatusCode, kind: DecisionKind) -> Vec<String> {
    let rows: Vec<_> = list(decision, "limits")
        .iter()
        .map(|limit| name_row(format!("  {}", name(limit)), state(limit)))
        .collect();

    let mut lines = vec![verdict(decision, status, kind)];
    lines.extend(table(&rows, Align::Left));
    let remarks = remarks(decision);
    lines.extend(remarks.iter().map(|line| Tone::Warning.paint(line)));
    lines
}

/// The first line, such as `denied by login: try again in 14m 59s`.
fn verdict(decision: &Value, status: StatusCode, kind: DecisionKind) -> String {
    // A check that only counts is charged unless the store is unavailable.
    if kind == DecisionKind::Count && status.is_success() {
        return count_verdict(decision);
    }
    let limits = list(decision, "limits");
    let would = match kind {
        DecisionKind::Peek => "would be ",
        _ => "",
    };
    if decision["allowed"] == true {
        let remark = match limits {
            [] => ": no limit applies to this request",
            _ => "",
        };
        return format!("{would}{}{remark}", Tone::Good.paint("allowed"));
    }

    let denied = Tone::Bad.paint("denied");
    let violated = list(decision, "violated-policies");
    let names: Vec<&str> = violated.iter().filter_map(Value::as_str).collect();
    let by = match names.as_slice() {
        [] => String::new(),
        names => format!(" by {}", plain(&names.join(", "))),
    };
    let reason = if status == StatusCode::SERVICE_UNAVAILABLE {
        "the store is unavailable and the failure policy is deny; "
    } else if limits.iter().any(is_lockout) {
        "locked out; "
    } else {
        ""
    };

    let mut denying = limits.to_vec();
    denying.retain(|limit| violated.contains(&limit["name"]));
    format!("{would}{denied}{by}: {reason}{}", retry(&denying))
}

/// True when a limit denies because the key is locked out.
fn is_lockout(limit: &Value) -> bool {
    limit["locked_out"] == true && limit["shadow"] != true && limit["retry_after_ms"].is_u64()
}

/// True when a limit does not admit the request, or would not if it were no shadow limit.
fn is_exceeded(limit: &Value) -> bool {
    limit["retry_after_ms"].is_u64() || limit["never"] == true
}

/// The first line about a check that was charged in any case.
fn count_verdict(decision: &Value) -> String {
    let counted = Tone::Good.paint("counted");
    if decision["allowed"] == true {
        return counted;
    }
    let limits = list(decision, "limits").iter();
    let denying = limits.filter(|limit| is_exceeded(limit) && limit["shadow"] != true);
    let names: Vec<String> = denying.map(name).collect();
    let beyond = Tone::Bad.paint("beyond");
    format!("{counted}, {beyond} {}", names.join(", "))
}

/// When the limits that deny would all allow the request.
fn retry(denying: &[Value]) -> String {
    if let Some(limit) = denying.iter().find(|limit| limit["never"] == true) {
        return format!("the cost exceeds what {} ever allows", name(limit));
    }
    let times = denying.iter();
    let longest = times
        .filter_map(|limit| limit["retry_after_ms"].as_u64())
        .max();
    longest.map_or("try again later".to_owned(), |millis| {
        format!("try again in {}", length(millis))
    })
}

/// Lines about the decision as a whole.
fn remarks(decision: &Value) -> Vec<String> {
    let text = |member: &str| decision[member].as_str().map(plain);
    let degraded = (decision["degraded"] == true)
        .then(|| "the store is unavailable: limits used their failure policies".to_owned());
    let wait = decision["wait_ms"].as_u64().filter(|wait| *wait > 0);
    let wait =
        wait.map(|wait| format!("delay the request by {} before processing it", length(wait)));
    let permit = text("permit").map(|permit| {
        format!("a permit is held until POST /v1/release with {{\"permit\": \"{permit}\"}}")
    });
    let reservation = text("reservation")
        .map(|reservation| format!("then settle it: tollgate settle {reservation} --actual N"));
    let warning = text("warning");
    let remarks = [degraded, wait, permit, reservation, warning];
    remarks.into_iter().flatten().collect()
}

/// The name of an element of `limits`.
fn name(limit: &Value) -> String {
    plain(limit["name"].as_str().unwrap_or("?"))
}

/// What remains of a limit, such as `3 of 5 left, full again in 2m`.
fn state(limit: &Value) -> String {
    let number = |member: &str| limit[member].as_u64();
    let mut parts = Vec::new();

    if let (Some(remaining), Some(limit)) = (number("remaining"), number("limit")) {
        parts.push(format!("{remaining} of {limit} left"));
    }
    if let Some(reset) = number("reset_after_ms").filter(|reset| *reset > 0) {
        parts.push(format!("full again in {}", length(reset)));
    }
    if limit["shadow"] == true {
        let verdict = if is_exceeded(limit) {
            "shadow: would deny"
        } else {
            "shadow: never denies"
        };
        parts.push(verdict.to_owned());
    }
    if limit["locked_out"] == true {
        parts.push("locked out".to_owned());
    }
    if let Some(policy) = limit["fallback"].as_str() {
        parts.push(format!("failure policy: {}", plain(policy)));
    }
    parts.join(", ")
}

/// An array member; empty if it is missing.
fn list<'v>(value: &'v Value, member: &str) -> &'v [Value] {
    value[member].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::terminal::without_colours;
    use super::*;

    fn render_plain(decision: &Value, status: u16, kind: DecisionKind) -> String {
        let lines = lines(decision, StatusCode::from_u16(status).unwrap(), kind);
        without_colours(&lines.join("\n")) + "\n"
    }

    #[test]
    fn a_lockout_is_named() {
        let decision = json!({
            "allowed": false, "violated-policies": ["login"], "limits": [
                {"name": "login", "limit": 5, "remaining": 0, "reset_after_ms": 900_000,
                 "retry_after_ms": 900_000, "locked_out": true},
            ]
        });

        assert_eq!(
            render_plain(&decision, 429, DecisionKind::Check),
            "denied by login: locked out; try again in 15m\n  \
             login  0 of 5 left, full again in 15m, locked out\n"
        );
    }

    #[test]
    fn a_denial_names_the_limits_and_the_retry_time() {
        let decision = json!({
            "allowed": false, "violated-policies": ["login", "ip"], "limits": [
                {"name": "login", "limit": 5, "remaining": 0, "reset_after_ms": 899_001,
                 "retry_after_ms": 61_000},
                {"name": "ip", "limit": 9, "remaining": 0, "reset_after_ms": 2_000,
                 "retry_after_ms": 1_000},
                {"name": "try", "limit": 1, "remaining": 0, "reset_after_ms": 0,
                 "retry_after_ms": 90_000, "shadow": true},
            ]
        });

        assert_eq!(
            render_plain(&decision, 429, DecisionKind::Check),
            "denied by login, ip: try again in 1m 1s\n  login  0 of 5 left, full again in 15m\n  \
             ip     0 of 9 left, full again in 2s\n  try    0 of 1 left, shadow: would deny\n"
        );
    }

    #[test]
    fn a_cost_above_the_limit_has_no_retry_time() {
        let decision = json!({
            "allowed": false, "violated-policies": ["upload"],
            "limits": [{"name": "upload", "limit": 10, "remaining": 10, "reset_after_ms": 0,
                        "never": true}],
        });

        let text = render_plain(&decision, 429, DecisionKind::Peek);
        assert!(
            text.starts_with(
                "would be denied by upload: the cost exceeds what upload ever allows\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn an_outage_is_reported() {
        let decision = json!({
            "allowed": false, "degraded": true, "violated-policies": ["login"],
            "limits": [{"name": "login", "limit": 5, "remaining": 0, "reset_after_ms": 0,
                        "retry_after_ms": 1_000, "fallback": "deny"}],
        });

        assert_eq!(
            render_plain(&decision, 503, DecisionKind::Check),
            "denied by login: the store is unavailable and the failure policy is deny; \
             try again in 1s\n  login  0 of 5 left, failure policy: deny\n\
             the store is unavailable: limits used their failure policies\n"
        );
    }

    #[test]
    fn a_count_and_a_reservation_say_what_was_charged() {
        let mut decision = json!({
            "allowed": false,
            "limits": [{"name": "tokens", "limit": 5, "remaining": 0, "retry_after_ms": 1_000},
                       {"name": "try", "retry_after_ms": 1, "shadow": true},
                       {"name": "other", "limit": 5, "remaining": 2}],
        });
        let text = render_plain(&decision, 200, DecisionKind::Count);
        assert!(
            text.starts_with("counted, beyond tokens\n  tokens  0 of 5 left\n"),
            "{text}"
        );
        decision["allowed"] = json!(true);
        let text = render_plain(&decision, 200, DecisionKind::Count);
        assert!(text.starts_with("counted\n"), "{text}");

        decision["reservation"] = json!("BI5u");
        let text = render_plain(&decision, 200, DecisionKind::Reserve);
        assert!(text.starts_with("allowed\n"), "{text}");
        assert!(
            text.ends_with("\nthen settle it: tollgate settle BI5u --actual N\n"),
            "{text}"
        );
    }

    #[test]
    fn unexpected_responses_are_rendered_too() {
        for decision in [
            json!({"allowed": true}),
            json!({"allowed": false, "limits": [7, {}], "wait_ms": "x"}),
        ] {
            assert!(!render_plain(&decision, 200, DecisionKind::Check).is_empty());
        }

        assert_eq!(
            render_plain(&json!({"allowed": true}), 200, DecisionKind::Check),
            "allowed: no limit applies to this request\n"
        );
    }
}
