//! A decision for people: what it is, by which limit, what is left, and when to come back. Members
//! that are not there are not told, so that services of other versions can be asked too.

use std::fmt::Write as _;

use hyper::StatusCode;
use serde_json::Value;

use super::super::numbers;
use super::super::terminal::{Paint, Tone, plain};

pub(super) fn told(decision: &Value, status: StatusCode, peek: bool, paint: Paint) -> String {
    let limits: Vec<Limit<'_>> = list(decision, "limits").iter().map(Limit).collect();
    let mut text = verdict(decision, &limits, status, peek, paint) + "\n";
    let width = limits
        .iter()
        .map(|limit| limit.name().len())
        .max()
        .unwrap_or_default();
    for limit in &limits {
        let name = paint.tone(Tone::Name, &format!("{:width$}", limit.name()));
        let _infallible = writeln!(text, "  {name}  {}", limit.state());
    }
    for line in asides(decision) {
        let _infallible = writeln!(text, "{}", paint.tone(Tone::Careful, &line));
    }
    text
}

/// `denied by login: try again in 14m 59s`
fn verdict(
    decision: &Value,
    limits: &[Limit<'_>],
    status: StatusCode,
    peek: bool,
    paint: Paint,
) -> String {
    let would = if peek { "would be " } else { "" };
    if decision["allowed"] == true {
        let none = if limits.is_empty() {
            ": no limit applies to this request"
        } else {
            ""
        };
        return format!("{would}{}{none}", paint.tone(Tone::Good, "allowed"));
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
    let deciding =
        |limit: &&Limit<'_>| violated.contains(&limit.0["name"].as_str().unwrap_or_default());
    let when = when(limits.iter().filter(deciding));
    let why = if status == StatusCode::SERVICE_UNAVAILABLE {
        "the store is away and the policy is to refuse; "
    } else {
        ""
    };
    format!("{would}{denied}{by}: {why}{when}")
}

/// When all that refuse would let the request pass.
fn when<'a, 'v: 'a>(refusing: impl Iterator<Item = &'a Limit<'v>> + Clone) -> String {
    if let Some(limit) = refusing.clone().find(|limit| limit.0["never"] == true) {
        return format!("it asks for more than {} ever allows", limit.name());
    }
    let longest = refusing
        .filter_map(|limit| limit.0["retry_after_ms"].as_u64())
        .max();
    longest.map_or("try again later".to_owned(), |millis| {
        format!("try again in {}", numbers::length(millis))
    })
}

/// What concerns the decision as a whole.
fn asides(decision: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    if decision["degraded"] == true {
        lines.push("the store is away: limits answered by their failure policies".to_owned());
    }
    if let Some(wait) = decision["wait_ms"].as_u64().filter(|wait| *wait > 0) {
        lines.push(format!(
            "hold the request for {} before letting it through",
            numbers::length(wait)
        ));
    }
    if let Some(lease) = decision["permit"].as_str() {
        lines.push(format!(
            "a place is held until POST /v1/release with {{\"permit\": \"{}\"}}",
            plain(lease)
        ));
    }
    lines
}

/// What one limit said.
struct Limit<'v>(&'v Value);

impl Limit<'_> {
    fn name(&self) -> String {
        plain(self.0["name"].as_str().unwrap_or("?"))
    }

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
            let refuses = number("retry_after_ms").is_some() || self.0["never"] == true;
            parts.push(
                if refuses {
                    "shadow: would refuse"
                } else {
                    "shadow: never refuses"
                }
                .to_owned(),
            );
        }
        if let Some(policy) = self.0["fallback"].as_str() {
            parts.push(format!("by its failure policy: {}", plain(policy)));
        }
        parts.join(", ")
    }
}

fn list<'v>(value: &'v Value, member: &str) -> &'v [Value] {
    value[member].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plainly(decision: &Value, status: u16, peek: bool) -> String {
        told(
            decision,
            StatusCode::from_u16(status).unwrap(),
            peek,
            Paint::off(),
        )
    }

    #[test]
    fn a_refusal_says_by_what_and_until_when() {
        let decision = json!({
            "allowed": false, "violated-policies": ["login", "ip"], "limits": [
                {"name": "login", "limit": 5, "remaining": 0, "reset_after_ms": 899_001, "retry_after_ms": 61_000},
                {"name": "ip", "limit": 9, "remaining": 0, "reset_after_ms": 2_000, "retry_after_ms": 1_000},
                {"name": "try", "limit": 1, "remaining": 0, "reset_after_ms": 0, "retry_after_ms": 90_000, "shadow": true},
            ]
        });
        assert_eq!(
            plainly(&decision, 429, false),
            "denied by login, ip: try again in 1m 1s\n  login  0 of 5 left, full again in 15m\n  \
             ip     0 of 9 left, full again in 2s\n  try    0 of 1 left, shadow: would refuse\n"
        );
    }

    #[test]
    fn what_never_passes_is_not_told_to_come_back() {
        let decision = json!({
            "allowed": false, "violated-policies": ["upload"],
            "limits": [{"name": "upload", "limit": 10, "remaining": 10, "reset_after_ms": 0, "never": true}],
        });
        let told = plainly(&decision, 429, true);
        assert!(
            told.starts_with(
                "would be denied by upload: it asks for more than upload ever allows\n"
            ),
            "{told}"
        );
    }

    #[test]
    fn an_outage_is_told() {
        let decision = json!({
            "allowed": false, "degraded": true, "violated-policies": ["login"],
            "limits": [{"name": "login", "limit": 5, "remaining": 0, "reset_after_ms": 0, "retry_after_ms": 1_000, "fallback": "deny"}],
        });
        assert_eq!(
            plainly(&decision, 503, false),
            "denied by login: the store is away and the policy is to refuse; try again in 1s\n  \
             login  0 of 5 left, by its failure policy: deny\nthe store is away: limits answered by their failure policies\n"
        );
    }

    #[test]
    fn anything_can_be_told_about_anything() {
        for decision in [
            json!({"allowed": true}),
            json!({"allowed": false, "limits": [7, {}], "wait_ms": "x"}),
        ] {
            assert!(!plainly(&decision, 200, false).is_empty());
        }
        assert_eq!(
            plainly(&json!({"allowed": true}), 200, false),
            "allowed: no limit applies to this request\n"
        );
    }
}
