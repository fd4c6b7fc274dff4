//! What clients are told, to the letter.

use bytes::Bytes;
use http::{Response, StatusCode};
use tollgate::headers::Fields;
use tollgate::{FailurePolicy, Limit};
use tollgate_tower::{RateLimitLayer, Refusal, by};
use tower::{Layer, service_fn};

use crate::support::{MINUTE, ask, away, get, header, hello, limiter, per_minute, with};

/// A response's head as text, in the order of the names.
fn head<B>(response: &Response<B>) -> String {
    let mut lines: Vec<String> = response
        .headers()
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().expect("a text")))
        .collect();
    lines.sort();
    format!("{}\n{}", response.status().as_u16(), lines.join("\n"))
}

#[test]
fn a_pass_and_a_refusal_say_where_the_client_stands() {
    let limits = limiter([per_minute("api", 1)]);
    let service = RateLimitLayer::new(&limits, "api", by::everyone()).layer(service_fn(hello));
    let passed = ask(&service, get("/"));
    let told = "x-ratelimit-limit: 1\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 1798761660";
    assert_eq!(
        head(&passed),
        format!("200\nratelimit-policy: \"api\";q=1;w=60\nratelimit: \"api\";r=0;t=60\n{told}")
    );
    assert_eq!(passed.body(), "hello");

    let refused = ask(&service, get("/"));
    let fields = format!(
        "429\ncache-control: no-store\ncontent-type: application/problem+json\nratelimit-policy: \"api\";q=1;w=60\n\
         ratelimit: \"api\";r=0;t=60\nretry-after: 60\n{told}"
    );
    assert_eq!(head(&refused), fields);
    let body = std::str::from_utf8(refused.body()).unwrap();
    assert!(
        body.starts_with(
            r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#
        ),
        "{body}"
    );
    assert!(body.contains(r#""violated-policies":["api"]"#), "{body}");
}

#[test]
fn fields_can_be_left_out() {
    let limits = limiter([per_minute("api", 1)]);
    let fields = Fields {
        ietf: false,
        legacy: false,
        retry_after: true,
    };
    let service = RateLimitLayer::new(&limits, "api", by::everyone())
        .fields(fields)
        .layer(service_fn(hello));
    assert_eq!(head(&ask(&service, get("/"))), "200\n");
    let refused = head(&ask(&service, get("/")));
    assert_eq!(
        refused,
        "429\ncache-control: no-store\ncontent-type: application/problem+json\nretry-after: 60"
    );
}

#[test]
fn a_response_of_ones_own_keeps_the_fields() {
    let limits = limiter([per_minute("api", 1)]);
    let layer = RateLimitLayer::new(&limits, "api", by::everyone()).respond_with(
        |refusal: &Refusal<'_>| {
            let text = format!("{} must wait", refusal.head().path());
            let mut response = Response::new(Bytes::from(text));
            *response.status_mut() = StatusCode::IM_A_TEAPOT;
            response
        },
    );
    let service = layer.layer(service_fn(hello));
    ask(&service, get("/"));
    let refused = ask(&service, get("/kettle"));
    assert_eq!(
        (refused.status().as_u16(), refused.body().as_ref()),
        (418, &b"/kettle must wait"[..])
    );
    assert_eq!(header(&refused, "retry-after"), Some("60"));
}

#[test]
fn a_grpc_call_is_refused_in_its_own_words() {
    let limits = limiter([per_minute("api", 1)]);
    let service = RateLimitLayer::new(&limits, "api", by::everyone()).layer(service_fn(hello));
    let call = || {
        with(
            "/pkg.Service/Method",
            &[("content-type", "application/grpc+proto")],
        )
    };
    ask(&service, call());
    let refused = ask(&service, call());
    assert_eq!(refused.status(), 200, "gRPC says it in the headers");
    assert!(refused.body().is_empty());
    assert_eq!(
        header(&refused, "content-type"),
        Some("application/grpc+proto")
    );
    assert_eq!(header(&refused, "grpc-status"), Some("8"));
    assert_eq!(
        header(&refused, "grpc-message"),
        Some("The limit \"api\" has no room for this request now; try again in 60 seconds.")
    );
    assert_eq!(header(&refused, "grpc-retry-pushback-ms"), Some("60000"));
    assert_eq!(header(&refused, "retry-after"), Some("60"));
    let details = header(&refused, "grpc-status-details-bin").expect("details");
    assert!(!details.ends_with('='));
}

#[test]
fn the_other_refusals_have_statuses_of_grpc_too() {
    let limits = limiter([per_minute("api", 1)]);
    for (wanted, code) in [
        (StatusCode::UNAUTHORIZED, "16"),
        (StatusCode::BAD_REQUEST, "3"),
        (StatusCode::FORBIDDEN, "7"),
    ] {
        let key = by::header("x-api-key").or_refuse(wanted);
        let service = RateLimitLayer::new(&limits, "api", key).layer(service_fn(hello));
        let refused = ask(
            &service,
            with("/a/b", &[("content-type", "application/grpc")]),
        );
        assert_eq!(header(&refused, "grpc-status"), Some(code));
        assert_eq!(
            header(&refused, "grpc-retry-pushback-ms"),
            Some("-1"),
            "no use in trying again"
        );
        assert_eq!(header(&refused, "grpc-status-details-bin"), None);
    }
    let broken = RateLimitLayer::new(&limits, "unknown", by::everyone()).layer(service_fn(hello));
    let refused = ask(
        &broken,
        with("/a/b", &[("content-type", "application/grpc")]),
    );
    assert_eq!(header(&refused, "grpc-status"), Some("13"));
    assert_eq!(
        header(&refused, "grpc-message"),
        Some("The server cannot decide about this request.")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_store_each_limit_does_what_it_says() {
    let asked = |policy, headers: &'static [(&str, &str)]| {
        let limit = Limit::fixed_window("login", 5, MINUTE).on_store_failure(policy);
        let service =
            RateLimitLayer::new(&away(limit), "login", by::everyone()).layer(service_fn(hello));
        tokio::task::spawn_blocking(move || ask(&service, with("/", headers)))
    };
    let denied = asked(FailurePolicy::Deny, &[]).await.unwrap();
    assert_eq!(denied.status(), 503);
    assert_eq!(header(&denied, "retry-after"), Some("1"));
    assert_eq!(header(&denied, "x-ratelimit-fallback"), Some("true"));
    let body = std::str::from_utf8(denied.body()).unwrap();
    assert!(body.contains("#temporary-reduced-capacity"), "{body}");

    let grpc = asked(FailurePolicy::Deny, &[("content-type", "application/grpc")])
        .await
        .unwrap();
    assert_eq!(
        header(&grpc, "grpc-status"),
        Some("14"),
        "unavailable, which is not the client's fault"
    );

    let allowed = asked(FailurePolicy::Allow, &[]).await.unwrap();
    assert_eq!(
        (
            allowed.status().as_u16(),
            header(&allowed, "x-ratelimit-fallback")
        ),
        (200, Some("true"))
    );
    // What is counted here has nothing when the outage begins, so that nobody gains by it.
    let counted = asked(FailurePolicy::Local, &[]).await.unwrap();
    assert_eq!(
        (
            counted.status().as_u16(),
            header(&counted, "x-ratelimit-fallback")
        ),
        (429, Some("true"))
    );
}
