//! `axum_memory`.

use testkit::reverse_proxy;

use crate::{Running, axum_memory};

#[test]
fn the_sixth_request_of_a_minute_is_told_when_to_come_back() {
    let server = Running::start(axum_memory::serve);
    for left in ["4", "3", "2", "1", "0"] {
        let passed = reverse_proxy::get(server.addr, "/", &[]);
        assert_eq!((passed.status, passed.text().as_str()), (200, "Hello.\n"));
        assert_eq!(passed.header("x-ratelimit-remaining"), Some(left));
    }
    // Nobody believes what a client says about itself.
    let refused = reverse_proxy::get(server.addr, "/", &[("x-forwarded-for", "203.0.113.7")]);
    assert_eq!(refused.status, 429);
    assert_eq!(
        refused.header("content-type"),
        Some("application/problem+json")
    );
    // A sliding window remembers the one before it.
    let seconds: u64 = refused
        .header("retry-after")
        .expect("a time")
        .parse()
        .expect("seconds");
    assert!((1..=120).contains(&seconds), "{seconds}");
}
