//! Responses: status, headers and body of allowed and rejected requests.

use bytes::Bytes;
use http::{Response, StatusCode};
use tollgate::{FailurePolicy, Limit};
use tollgate_http::{EnabledFields, Problem};
use tollgate_tower::{RateLimitLayer, Rejection, by};
use tower::{Layer, service_fn};

use crate::support::{MINUTE, get, header, hello, limiter, per_minute, send, unavailable, with};

/// The status and the sorted headers of a response as text.
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
fn allowed_and_rejected_responses_have_rate_limit_fields() {
    let limits = limiter([per_minute("api", 1)]);
    let service = RateLimitLayer::new(&limits, "api", by::everyone()).layer(service_fn(hello));
    let allowed = send(&service, get("/"));
    let legacy = "x-ratelimit-limit: 1\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 1798761660";
    assert_eq!(
        head(&allowed),
        format!("200\nratelimit-policy: \"api\";q=1;w=60\nratelimit: \"api\";r=0;t=60\n{legacy}")
    );
    assert_eq!(allowed.body(), "hello");

    let rejected = send(&service, get("/"));
    let fields = format!(
        "429\ncache-control: no-store\ncontent-type: application/problem+json\n\
         ratelimit-policy: \"api\";q=1;w=60\nratelimit: \"api\";r=0;t=60\nretry-after: 60\n{legacy}"
    );
    assert_eq!(head(&rejected), fields);
    let body = std::str::from_utf8(rejected.body()).unwrap();
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
    let fields = EnabledFields {
        ietf: false,
        legacy: false,
        ..EnabledFields::default()
    };
    let service = RateLimitLayer::new(&limits, "api", by::everyone())
        .fields(fields)
        .layer(service_fn(hello));

    assert_eq!(head(&send(&service, get("/"))), "200\n");

    let rejected = head(&send(&service, get("/")));
    assert_eq!(
        rejected,
        "429\ncache-control: no-store\ncontent-type: application/problem+json\nretry-after: 60"
    );
}

#[test]
fn a_custom_response_keeps_the_fields() {
    let limits = limiter([per_minute("api", 1)]);
    let layer = RateLimitLayer::new(&limits, "api", by::everyone()).respond_with(
        |rejection: &Rejection<'_>| {
            let text = format!("{} must wait", rejection.head().path());
            let mut response = Response::new(Bytes::from(text));
            *response.status_mut() = StatusCode::IM_A_TEAPOT;
            response
        },
    );
    let service = layer.layer(service_fn(hello));
    send(&service, get("/"));
    let rejected = send(&service, get("/kettle"));

    assert_eq!(
        (rejected.status().as_u16(), rejected.body().as_ref()),
        (418, &b"/kettle must wait"[..])
    );
    assert_eq!(header(&rejected, "retry-after"), Some("60"));
}

#[test]
fn a_rejected_grpc_call_gets_a_grpc_status() {
    let limits = limiter([per_minute("api", 1)]);
    let service = RateLimitLayer::new(&limits, "api", by::everyone()).layer(service_fn(hello));
    let call = || {
        with(
            "/pkg.Service/Method",
            &[("content-type", "application/grpc+proto")],
        )
    };
    send(&service, call());
    let rejected = send(&service, call());

    assert_eq!(rejected.status(), 200, "the gRPC status is in the headers");
    assert!(rejected.body().is_empty());
    assert_eq!(
        header(&rejected, "content-type"),
        Some("application/grpc+proto")
    );
    assert_eq!(header(&rejected, "grpc-status"), Some("8"));

    let denial = limits.peek("api", ()).try_now().expect("a known limit");
    let problem = Problem::denied(&denial).expect("a denial");
    assert!(problem.detail.contains("\"api\""), "{problem:?}");
    assert_eq!(header(&rejected, "grpc-message"), Some(&*problem.detail));
    assert_eq!(header(&rejected, "grpc-retry-pushback-ms"), Some("60000"));
    assert_eq!(header(&rejected, "retry-after"), Some("60"));

    let details = header(&rejected, "grpc-status-details-bin").expect("details");
    assert!(!details.ends_with('='));
}

#[test]
fn other_rejections_have_grpc_statuses_too() {
    let limits = limiter([per_minute("api", 1)]);
    for (wanted, code) in [
        (StatusCode::UNAUTHORIZED, "16"),
        (StatusCode::BAD_REQUEST, "3"),
        (StatusCode::FORBIDDEN, "7"),
    ] {
        let key = by::header("x-api-key").or_reject(wanted);
        let service = RateLimitLayer::new(&limits, "api", key).layer(service_fn(hello));
        let rejected = send(
            &service,
            with("/a/b", &[("content-type", "application/grpc")]),
        );
        assert_eq!(header(&rejected, "grpc-status"), Some(code));
        assert_eq!(
            header(&rejected, "grpc-retry-pushback-ms"),
            Some("-1"),
            "a retry is pointless"
        );
        assert_eq!(header(&rejected, "grpc-status-details-bin"), None);
    }

    let broken = RateLimitLayer::new(&limits, "unknown", by::everyone()).layer(service_fn(hello));
    let rejected = send(
        &broken,
        with("/a/b", &[("content-type", "application/grpc")]),
    );
    assert_eq!(header(&rejected, "grpc-status"), Some("13"));
    assert_eq!(
        header(&rejected, "grpc-message"),
        Some("The server cannot apply its rate limits.")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_store_each_failure_policy_applies() {
    let send_without_store = |policy, headers: &'static [(&str, &str)]| {
        let limit = Limit::fixed_window("login", 5, MINUTE).on_store_failure(policy);
        let service = RateLimitLayer::new(&unavailable(limit), "login", by::everyone())
            .layer(service_fn(hello));
        tokio::task::spawn_blocking(move || send(&service, with("/", headers)))
    };
    let denied = send_without_store(FailurePolicy::Deny, &[]).await.unwrap();
    assert_eq!(denied.status(), 503);
    assert_eq!(header(&denied, "retry-after"), Some("1"));
    assert_eq!(header(&denied, "x-ratelimit-fallback"), Some("true"));
    let body = std::str::from_utf8(denied.body()).unwrap();
    assert!(body.contains("#temporary-reduced-capacity"), "{body}");

    let grpc = send_without_store(FailurePolicy::Deny, &[("content-type", "application/grpc")])
        .await
        .unwrap();
    assert_eq!(
        header(&grpc, "grpc-status"),
        Some("14"),
        "unavailable, which is not the client's fault"
    );

    let allowed = send_without_store(FailurePolicy::Allow, &[]).await.unwrap();
    assert_eq!(
        (
            allowed.status().as_u16(),
            header(&allowed, "x-ratelimit-fallback")
        ),
        (200, Some("true"))
    );
    let local = send_without_store(FailurePolicy::Local, &[]).await.unwrap();
    assert_eq!(
        (
            local.status().as_u16(),
            header(&local, "x-ratelimit-fallback")
        ),
        (200, Some("true"))
    );
}
