//! What client libraries rely on: any content type, and times on request.

use serde_json::Value;
use testkit::reverse_proxy;

use crate::harness::Tollgate;

const ANN: &str = r#"{"attributes": {"client_ip": "203.0.113.7"}}"#;

#[test]
fn a_body_is_json_whatever_its_content_type() {
    let service = Tollgate::start();
    for content_type in [
        "application/json; charset=utf-8",
        // The default of `fetch` for a string, and that of `curl -d`.
        "text/plain;charset=UTF-8",
        "application/x-www-form-urlencoded",
        "application/vnd.api+json",
        "application/octet-stream",
        "nonsense",
        "",
    ] {
        let headers = [("content-type", content_type)];
        for path in ["/v1/check", "/v1/peek", "/v1/refund"] {
            let response =
                reverse_proxy::send(service.http, "POST", path, &headers, ANN.as_bytes());
            assert_eq!(response.status, 200, "{path} {content_type}");
        }
    }
}

#[test]
fn a_response_says_where_its_time_went_if_it_is_asked() {
    let service = Tollgate::start();
    let batch = format!(
        r#"{{"requests": [{}]}}"#,
        ANN.replacen('{', r#"{"op": "check", "#, 1)
    );
    for (path, body) in [
        ("/v1/check", ANN),
        ("/v1/peek", ANN),
        ("/v1/refund", ANN),
        ("/v1/batch", &batch),
    ] {
        let send = |headers: &[(&str, &str)]| {
            reverse_proxy::send(service.http, "POST", path, headers, body.as_bytes())
        };
        assert_eq!(send(&[]).header("server-timing"), None, "{path}");

        let response = send(&[("x-tollgate-timing", "1")]);
        let timing = response.header("server-timing").expect("the header");
        let steps: Vec<(&str, f64)> = timing
            .split(", ")
            .filter_map(|step| step.split_once(";dur="))
            .map(|(name, millis)| (name, millis.parse().expect("a number")))
            .collect();
        let names: Vec<&str> = steps.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["body", "decide"], "{timing}");
        assert!(steps.iter().all(|(_, millis)| *millis >= 0.0), "{timing}");
    }
}

/// A denial is a decision: its limits say when to retry. Everything else says whether to.
#[test]
fn denials_and_errors_can_be_told_apart() {
    let service = Tollgate::start();
    let too_much = r#"{"attributes": {"client_ip": "203.0.113.7"}, "cost": 101}"#;
    let denied: Value = serde_json::from_slice(&service.check(too_much).body).expect("JSON");
    assert_eq!(denied["allowed"], false, "{denied}");
    assert_eq!(denied["limits"][0]["never"], true);
    assert!(denied.get("retryable").is_none() && denied.get("code").is_none());

    let wrong: Value = serde_json::from_slice(&service.check("{}").body).expect("JSON");
    assert_eq!(wrong["retryable"], false, "{wrong}");
    assert!(wrong.get("allowed").is_none());
}
