//! `axum_redis`.

use std::net::SocketAddr;
use std::time::Duration;

use testkit::reverse_proxy::{self, Response};
use testkit::servers::{Flavor, Server};
use testkit::wait;
use tollgate_redis::RedisBuilder;

use crate::{Running, axum_redis};

const PATIENCE: Duration = Duration::from_secs(20);
/// As patient with the store as can be.
const DEADLINE: Duration = Duration::from_secs(10);
const RIGHT: &str = "correct horse";

/// A replica on this store, once that answers.
fn replica(redis: &Server) -> Running {
    let url = redis.url();
    let running = Running::start(|listener| {
        // A machine that does too much else makes it slow, and not wrong.
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
        login(running.addr, "nobody@example.com", RIGHT).status == 200
    });
    running
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
fn right_passwords_are_free_and_the_sixth_wrong_one_is_refused_by_every_replica() {
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
    // It is the account that is locked, and not everybody behind the address.
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
fn a_caller_who_pays_has_other_numbers() {
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
fn without_redis_what_is_public_answers_and_the_login_does_not() {
    let redis = Server::start(Flavor::Redis);
    let server = replica(&redis);
    assert_eq!(login(server.addr, "ann@example.com", "guess").status, 401);
    redis.kill();
    let refused = wait::until(PATIENCE, "a login that is closed", || {
        Some(login(server.addr, "ann@example.com", RIGHT)).filter(|response| response.status == 503)
    });
    assert_eq!(
        refused.header("content-type"),
        Some("application/problem+json")
    );
    // A caller that no lease is held for.
    let public = reverse_proxy::get(server.addr, "/", &[("x-api-key", "free-1")]);
    assert_eq!(
        (public.status, public.header("x-ratelimit-fallback")),
        (200, Some("true"))
    );
    assert_eq!(login(server.addr, "ann@example.com", RIGHT).status, 503);
}
