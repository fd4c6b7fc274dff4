//! `axum_redis`.

use std::net::SocketAddr;
use std::time::Duration;

use testkit::reverse_proxy::{self, Response};
use testkit::servers::{Flavor, Server};
use testkit::wait;
use tollgate_redis::RedisBuilder;

use crate::{TestServer, axum_redis};

const PATIENCE: Duration = Duration::from_secs(20);
/// The store timeout, long enough for a slow machine.
const DEADLINE: Duration = Duration::from_secs(10);
const RIGHT: &str = "correct horse";

/// A replica on this store, as soon as the store answers.
fn replica(redis: &Server) -> TestServer {
    let url = redis.url();
    let replica = TestServer::start(|listener| {
        // Generous, because the machine may be busy.
        let store = RedisBuilder::standalone(&url)
            .timeout(DEADLINE)
            .build()
            .expect("an address");
        axum_redis::serve(
            listener,
            axum_redis::app(store).expect("limits that are right"),
        )
    });
    wait::until_true(PATIENCE, "a login that is counted", || {
        login(replica.addr, "nobody@example.com", RIGHT).status == 200
    });

    replica
}

fn login(server: SocketAddr, email: &str, password: &str) -> Response {
    let body = format!(r#"{{"email": "{email}", "password": "{password}"}}"#);
    reverse_proxy::send(
        server,
        "POST",
        "/login",
        &[("content-type", "application/json")],
        body.as_bytes(),
    )
}

#[test]
fn successful_logins_are_free_and_the_sixth_wrong_password_is_rejected_by_every_replica() {
    let redis = Server::start(Flavor::Redis);
    let replicas = [replica(&redis), replica(&redis)];
    let [one, other] = replicas.each_ref().map(|replica| replica.addr);

    for _ in 0..6 {
        assert_eq!(login(one, "ann@example.com", RIGHT).status, 200);
    }
    for server in [one, other, one, other, one] {
        assert_eq!(login(server, "ann@example.com", "guess").status, 401);
    }
    for email in ["ann@example.com", "Ann@Example.com", " ANN@example.com "] {
        assert_eq!(login(other, email, "guess").status, 429, "{email}");
    }

    // The account is limited, not everyone behind the address.
    assert_eq!(login(one, "bob@example.com", "guess").status, 401);
    assert_eq!(
        reverse_proxy::send(one, "POST", "/login", &[], b"{}").status,
        400
    );
    assert_eq!(
        reverse_proxy::send(one, "POST", "/login", &[], &[b' '; 5_000]).status,
        413
    );
}

#[test]
fn a_paying_caller_has_a_larger_quota() {
    let redis = Server::start(Flavor::Redis);
    let server = replica(&redis);
    let limit = |headers: &[(&str, &str)]| {
        let response = reverse_proxy::get(server.addr, "/", headers);
        let limit = response.header("x-ratelimit-limit").map(str::to_owned);
        (response.status, limit)
    };

    assert_eq!(
        limit(&[("x-api-key", "pro-1")]),
        (200, Some("1000".to_owned()))
    );
    assert_eq!(
        limit(&[("x-api-key", "free-1")]),
        (200, Some("10".to_owned()))
    );
    assert_eq!(limit(&[]), (200, Some("10".to_owned())));
}

#[test]
fn without_redis_public_routes_answer_and_the_login_does_not() {
    let redis = Server::start(Flavor::Redis);
    let server = replica(&redis);
    assert_eq!(login(server.addr, "ann@example.com", "guess").status, 401);

    redis.kill();
    let rejected = wait::until(PATIENCE, "a login that is closed", || {
        Some(login(server.addr, "ann@example.com", RIGHT)).filter(|response| response.status == 503)
    });
    assert_eq!(
        rejected.header("content-type"),
        Some("application/problem+json")
    );

    // A caller for whom no lease is held.
    let public = reverse_proxy::get(server.addr, "/", &[("x-api-key", "free-1")]);
    assert_eq!(
        (public.status, public.header("x-ratelimit-fallback")),
        (200, Some("true"))
    );
    assert_eq!(login(server.addr, "ann@example.com", RIGHT).status, 503);
}
