//! Credential stuffing from thousands of addresses: a limit by address cannot stop it, a limit by
//! account does.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use http::StatusCode;
use testkit::reverse_proxy;
use testkit::servers::{Flavor, Server};
use tollgate::Limit;
use tollgate_tower::{RateLimitLayer, ReadBodyLayer, by, response};

use super::{Site, behind};

const ADDRESSES: u32 = 3_000;
const TRIES: u64 = 5;

/// How many passwords the application has verified.
static VERIFIED: AtomicU64 = AtomicU64::new(0);

async fn login(body: String) -> StatusCode {
    VERIFIED.fetch_add(1, Relaxed);
    if body.ends_with("&password=right") {
        StatusCode::OK
    } else {
        StatusCode::UNAUTHORIZED
    }
}

/// The account of a login attempt, normalised.
fn account(body: &[u8]) -> Option<String> {
    let (account, _) = std::str::from_utf8(body)
        .ok()?
        .strip_prefix("email=")?
        .split_once('&')?;
    Some(account.trim().to_lowercase())
}

#[test]
fn a_limit_by_account_stops_guesses_from_thousands_of_addresses() {
    let (site, server) = (Site::new(), Server::start(Flavor::Redis));
    let replica = || {
        let limiter = site.limiter(
            &server,
            [
                Limit::sliding_log("address", 20, Duration::from_secs(60)),
                Limit::sliding_log("account", TRIES, Duration::from_hours(24)),
            ],
        );
        let account =
            by::body("an e-mail address", |body| account(body)).or_reject(StatusCode::BAD_REQUEST);
        let limits = RateLimitLayer::new(
            &limiter,
            "address",
            by::client_address().behind(behind("127.0.0.1")),
        )
        .and("account", account)
        .refund_when(response::succeeded);
        site.serve(Router::new().route(
            "/login",
            post(login).layer((ReadBodyLayer::up_to(4_096), limits)),
        ))
    };
    let replicas = [replica(), replica(), replica()];
    // The test acts as the balancer: it sets the client address and alternates between replicas.
    let try_from = |address: u32, body: &str| {
        let client = Ipv4Addr::from(0xC633_0000 + address).to_string();
        let replica = replicas[address as usize % replicas.len()];
        reverse_proxy::send(
            replica,
            "POST",
            "/login",
            &[("x-forwarded-for", &client)],
            body.as_bytes(),
        )
    };

    let rejected = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for part in 0..4 {
            let (try_from, rejected) = (&try_from, &rejected);
            scope.spawn(move || {
                for address in (part..ADDRESSES).step_by(4) {
                    let spelling = if address % 2 == 0 {
                        "ann@example.com"
                    } else {
                        "Ann@Example.COM"
                    };
                    let response = try_from(
                        address,
                        &format!("email={spelling}&password=guess-{address}"),
                    );
                    assert!(matches!(response.status, 401 | 429), "{response:?}");
                    rejected.fetch_add(u64::from(response.status == 429), Relaxed);
                }
            });
        }
    });
    assert_eq!(
        VERIFIED.load(Relaxed),
        TRIES,
        "only {TRIES} of {ADDRESSES} guesses were verified"
    );
    assert_eq!(rejected.into_inner(), u64::from(ADDRESSES) - TRIES);

    // Other accounts are not affected, and successful logins are free.
    for address in 0..2 * u32::try_from(TRIES).expect("a few") {
        let response = try_from(ADDRESSES + address, "email=bob@example.com&password=right");
        assert_eq!(response.status, 200, "{response:?}");
    }
}
