//! `axum_memory`.

use testkit::reverse_proxy;

use crate::{TestServer, axum_memory};

#[test]
fn the_sixth_request_of_a_minute_gets_retry_after() {
    let server = TestServer::start(axum_memory::serve);
    for left in ["4", "3", "2", "1", "0"] {
        let passed = reverse_proxy::get(server.addr, "/", &[]);
        assert_eq!((passed.status, passed.text().as_str()), (200, "Hello.\n"));
        assert_eq!(passed.header("x-ratelimit-remaining"), Some(left));
    }

    // Forwarding headers of a client are ignored.
    let rejected = reverse_proxy::get(server.addr, "/", &[("x-forwarded-for", "203.0.113.7")]);
    assert_eq!(rejected.status, 429);
    assert_eq!(
        rejected.header("content-type"),
        Some("application/problem+json")
    );

    // A sliding window takes the previous window into account.
    let seconds: u64 = rejected
        .header("retry-after")
        .expect("a time")
        .parse()
        .expect("seconds");
    assert!((1..=120).contains(&seconds), "{seconds}");
}
