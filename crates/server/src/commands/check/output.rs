//! The text output of `tollgate check`: the verdict, then what remains of each limit. Members that
//! the response lacks are left out, so that services of other versions can be queried too.

use std::fmt::Write as _;

use hyper::StatusCode;
use serde_json::Value;

use super::super::numbers;
use super::super::terminal::{Paint, Tone, plain};

/// Renders a decision. `peek` says that nothing was consumed.
pub(super) fn render(decision: &Value, status: StatusCode, peek: bool, paint: Paint) -> String {
    let limits: Vec<LimitJson<'_>> = list(decision, "limits").iter().map(LimitJson).collect();
    let mut text = verdict(decision, &limits, status, peek, paint) + "\n";

    let names = limits.iter().map(|limit| limit.name().len());
    let width = names.max().unwrap_or_default();
    for limit in &limits {
        let name = paint.tone(Tone::Name, &format!("{:width$}", limit.name()));
        let _infallible = writeln!(text, "  {name}  {}", limit.state());
    }

    for line in remarks(decision) {
        let _infallible = writeln!(text, "{}", paint.tone(Tone::Warning, &line));
    }
    text
}

/// The first line, such as `denied by login: try again in 14m 59s`.
fn verdict(
    decision: &Value,
    limits: &[LimitJson<'_>],
    status: StatusCode,
    peek: bool,
    paint: Paint,
) -> String {
    let would = if peek { "would be " } else { "" };
    if decision["allowed"] == true {
        let remark = if limits.is_empty() {
            ": no limit applies to this request"
        } else {
            ""
        };
        return format!("{would}{}{remark}", paint.tone(Tone::Good, "allowed"));
    }

    let denied = paint.tone(Tone::Bad, "denied");
    let violated: Vec<&str> = list(decision, "violated-policies")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let by = if violated.is_empty() {
        String::new()
    } else {
        format!(" by {}", plain(&violated.join(", ")))
    };

    let is_violated =
        |limit: &&LimitJson<'_>| violated.contains(&limit.0["name"].as_str().unwrap_or_default());
    let retry = retry(limits.iter().filter(is_violated));
    let reason = if status == StatusCode::SERVICE_UNAVAILABLE {
        "the store is unavailable and the failure policy is deny; "
    } else {
        ""
    };
    format!("{would}{denied}{by}: {reason}{retry}")
}

/// When the limits that deny would all allow the request.
fn retry<'a, 'v: 'a>(denying: impl Iterator<Item = &'a LimitJson<'v>> + Clone) -> String {
    if let Some(limit) = denying.clone().find(|limit| limit.0["never"] == true) {
        return format!("the cost exceeds what {} ever allows", limit.name());
    }

    let longest = denying
        .filter_map(|limit| limit.0["retry_after_ms"].as_u64())
        .max();
    longest.map_or("try again later".to_owned(), |millis| {
        format!("try again in {}", numbers::length(millis))
    })
}

/// Lines about the decision as a whole.
fn remarks(decision: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    if decision["degraded"] == true {
        lines.push("the store is unavailable: limits used their failure policies".to_owned());
    }

    if let Some(wait) = decision["wait_ms"].as_u64().filter(|wait| *wait > 0) {
        lines.push(format!(
            "delay the request by {} before processing it",
            numbers::length(wait)
        ));
    }

    if let Some(permit) = decision["permit"].as_str() {
        lines.push(format!(
            "a permit is held until POST /v1/release with {{\"permit\": \"{}\"}}",
            plain(permit)
        ));
    }
    lines
}

/// One element of `limits` in the response.
struct LimitJson<'v>(&'v Value);

impl LimitJson<'_> {
    fn name(&self) -> String {
        plain(self.0["name"].as_str().unwrap_or("?"))
    }

    /// What remains, such as `3 of 5 left, full again in 2m`.
    fn state(&self) -> String {
        let number = |member: &str| self.0[member].as_u64();
        let mut parts = Vec::new();

        if let (Some(remaining), Some(limit)) = (number("remaining"), number("limit")) {
            parts.push(format!("{remaining} of {limit} left"));
        }
        if let Some(reset) = number("reset_after_ms").filter(|reset| *reset > 0) {
            parts.push(format!("full again in {}", numbers::length(reset)));
        }
        if self.0["shadow"] == true {
            let would_deny = number("retry_after_ms").is_some() || self.0["never"] == true;
            let remark = if would_deny {
                "shadow: would deny"
            } else {
                "shadow: never denies"
            };
            parts.push(remark.to_owned());
        }
        if let Some(policy) = self.0["fallback"].as_str() {
            parts.push(format!("failure policy: {}", plain(policy)));
        }
        parts.join(", ")
    }
}

/// An array member; empty if it is missing.
fn list<'v>(value: &'v Value, member: &str) -> &'v [Value] {
    value[member].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render_plain(decision: &Value, status: u16, peek: bool) -> String {
        render(
            decision,
            StatusCode::from_u16(status).unwrap(),
            peek,
            Paint::off(),
        )
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
            render_plain(&decision, 429, false),
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

        let text = render_plain(&decision, 429, true);
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
            render_plain(&decision, 503, false),
            "denied by login: the store is unavailable and the failure policy is deny; \
             try again in 1s\n  login  0 of 5 left, failure policy: deny\n\
             the store is unavailable: limits used their failure policies\n"
        );
    }

    #[test]
    fn unexpected_responses_are_rendered_too() {
        for decision in [
            json!({"allowed": true}),
            json!({"allowed": false, "limits": [7, {}], "wait_ms": "x"}),
        ] {
            assert!(!render_plain(&decision, 200, false).is_empty());
        }

        assert_eq!(
            render_plain(&json!({"allowed": true}), 200, false),
            "allowed: no limit applies to this request\n"
        );
    }
}
