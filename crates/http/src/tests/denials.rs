//! Templates for the bodies of denials.

use super::*;

/// The body of a denial of 9 units by a limit of 10 in an hour, 4 of which are left.
fn denied(content_type: &str, body: &str) -> String {
    let (limiter, clock) = limiter([Limit::fixed_window("a/b", 10, Duration::from_hours(1))]);
    assert!(is_allowed(limiter.check("a/b", "ann").cost(6)));
    clock.advance(Duration::from_millis(1));
    render(
        content_type,
        body,
        &limiter.check("a/b", "ann").cost(9).try_now().unwrap(),
    )
}

fn render(content_type: &str, body: &str, decision: &Decision) -> String {
    let template = DenialTemplate::new(content_type, body).unwrap();
    let problem = Problem::denied(decision).unwrap();
    template.render(&problem, decision.denied_by())
}

#[test]
fn every_field_has_a_value() {
    let all = "{name} {limit} {remaining} {retry_after} {reset_after} {status} {detail}";
    let expected = r#"a/b 10 4 3600 3600 429 Limit "a/b" exceeded; retry in 3600 seconds."#;
    assert_eq!(denied("text/plain", all), expected);
    assert_eq!(
        all.matches('{').count(),
        DenialTemplate::field_names().len()
    );
}

#[test]
fn braces_around_anything_else_are_text() {
    for body in [
        "{",
        "}",
        "{}",
        "{{",
        "a{b",
        "{a b}",
        "{A}",
        "{1}",
        "p{color:red}",
        "{\n}",
        "é{é}",
    ] {
        assert_eq!(denied("text/plain", body), body);
    }
    assert_eq!(denied("text/plain", "{{limit}}"), "{10}");
    assert_eq!(denied("text/plain", "{limit{limit}"), "{limit10");
}

#[test]
fn values_are_escaped_for_the_media_type() {
    let json = r#"{"error":{"message":"{detail}","limit":{limit}}}"#;
    let body = denied("application/problem+json; charset=utf-8", json);
    let parsed: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        parsed["error"]["message"],
        "Limit \"a/b\" exceeded; retry in 3600 seconds."
    );
    assert_eq!(parsed["error"]["limit"], 10);

    let html = denied("text/html", "<p title='{detail}'>{name}</p>");
    let expected = "<p title='Limit &quot;a/b&quot; exceeded; retry in 3600 seconds.'>a/b</p>";
    assert_eq!(html, expected);
}

#[test]
fn a_request_that_can_never_pass_has_no_retry_time() {
    let (limiter, _) = limiter([Limit::fixed_window("api", 1, MINUTE)]);
    let never = limiter.check("api", "ann").cost(2).try_now().unwrap();
    assert_eq!(render("text/plain", "[{retry_after}]", &never), "[]");
    assert_eq!(
        render("application/json", "[{retry_after}]", &never),
        "[null]"
    );
}

#[test]
fn a_response_has_the_status_and_the_media_type() {
    let unavailable = unavailable::limiter([
        Limit::fixed_window("api", 1, MINUTE).on_store_failure(tollgate::FailurePolicy::Deny)
    ]);
    let decision = unavailable::decide(unavailable.check("api", "ann"));
    let problem = Problem::denied(&decision).unwrap();
    let template = DenialTemplate::new("text/plain; charset=utf-8", "{status}").unwrap();

    let response = template.to_response(&problem, decision.denied_by());
    assert_eq!(
        (response.status().as_u16(), &response.body()[..]),
        (503, &b"503"[..])
    );
    assert_eq!(
        response.headers()["content-type"],
        "text/plain; charset=utf-8"
    );
}

#[test]
fn invalid_templates_are_rejected() {
    let error = |content_type: &str, body: &str| {
        DenialTemplate::new(content_type, body)
            .unwrap_err()
            .to_string()
    };

    for content_type in [
        "",
        "json",
        "/",
        "a/",
        "/b",
        "a b/c",
        "a/b/c",
        "text/html\n",
        "é/b",
    ] {
        let expected = "expected a media type of up to 128 bytes, such as application/json";
        assert_eq!(error(content_type, ""), expected, "{content_type:?}");
    }
    assert_eq!(
        error("text/plain", "{limits}"),
        "unknown field {limits}; expected one of name, limit, remaining, retry_after, \
         reset_after, status, detail"
    );
    assert_eq!(
        error("application/json", r#"{"name":{name}}"#),
        "with values in it, the body is not JSON (expected value at line 1 column 9); {name} and \
         {detail} need quotes around them"
    );
    let long = "x".repeat(8_193);
    assert_eq!(
        error("text/plain", &long),
        "expected a template of up to 8192 bytes"
    );
    assert!(DenialTemplate::new("text/plain", &long[1..]).is_ok());
}
