//! Redis is killed: public routes fail open, the login fails closed, and both recover.

use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use testkit::servers::{Flavor, Server};
use testkit::{reverse_proxy, wait};
use tollgate::{FailurePolicy, Limit};
use tollgate_tower::{RateLimitLayer, by};

use super::Site;

#[test]
fn public_routes_fail_open_and_the_login_fails_closed() {
    let (site, server) = (Site::new(), Server::start(Flavor::Redis));
    let minute = Duration::from_secs(60);
    let limiter = site.limiter(
        &server,
        [
            Limit::sliding_window("public", 1_000, minute).on_store_failure(FailurePolicy::Allow),
            Limit::sliding_log("login", 100, minute).on_store_failure(FailurePolicy::Deny),
        ],
    );
    let layer = |limit| RateLimitLayer::new(&limiter, limit, by::client_address());
    let app = Router::new()
        .route("/news", get(|| async { "news" }).layer(layer("public")))
        .route("/login", post(|| async { "welcome" }).layer(layer("login")));
    let replica = site.serve(app);
    let send = || {
        (
            reverse_proxy::get(replica, "/news", &[]),
            reverse_proxy::send(replica, "POST", "/login", &[], b""),
        )
    };

    let (news, login) = send();
    assert_eq!((news.status, login.status), (200, 200));
    assert_eq!(
        (
            news.header("x-ratelimit-fallback"),
            login.header("x-ratelimit-fallback")
        ),
        (None, None)
    );

    server.kill();
    let (news, login) = send();
    assert_eq!((news.status, news.text().as_str()), (200, "news"));
    assert_eq!(
        news.header("x-ratelimit-fallback"),
        Some("true"),
        "a degraded response has this header"
    );
    assert_eq!(login.status, 503, "{login:?}");
    assert_eq!(
        login.header("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(login.header("retry-after"), Some("1"));

    server.restart();
    wait::until_true(Duration::from_secs(20), "logging in to work again", || {
        let (news, login) = send();
        login.status == 200 && news.header("x-ratelimit-fallback").is_none()
    });
}
