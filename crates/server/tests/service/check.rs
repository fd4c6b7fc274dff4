//! The decision API, on memory.

use crate::harness::Tollgate;

const ANN: &str = r#"{"attributes": {"client_ip": "203.0.113.7"}}"#;

#[test]
fn the_built_in_limit_is_a_hundred_per_minute_and_address() {
    let service = Tollgate::start();
    let first = service.check(ANN);
    assert_eq!(first.status, 200);
    assert_eq!(first.header("x-ratelimit-limit"), Some("100"));
    assert!(
        first.text().contains(r#""allowed":true"#),
        "{}",
        first.text()
    );
    for _ in 1..100 {
        assert_eq!(service.check(ANN).status, 200);
    }
    let denied = service.check(ANN);
    assert_eq!(denied.status, 429);
    assert_eq!(
        denied.header("content-type"),
        Some("application/problem+json")
    );
    assert!(denied.header("retry-after").is_some());
    let other = service.check(r#"{"attributes": {"client_ip": "203.0.113.8"}}"#);
    assert_eq!(other.status, 200);
}
