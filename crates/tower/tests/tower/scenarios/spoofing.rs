//! Clients that spoof forwarding headers are still counted by their real address.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use testkit::reverse_proxy;
use testkit::servers::{Flavor, Server};
use tollgate::Limit;
use tollgate_tower::{RateLimitLayer, by};

use super::{BALANCER, Site, balancer, behind};

const LIMIT: usize = 5;

/// Spoofed headers. The number makes the address unique.
fn spoofed(number: usize) -> Vec<(&'static str, String)> {
    let address = format!("198.51.100.{number}");
    match number % 10 {
        0 => vec![("x-forwarded-for", address)],
        1 => vec![("x-forwarded-for", format!("{address}, {BALANCER}"))],
        2 => vec![
            ("x-forwarded-for", address),
            ("x-forwarded-for", format!("203.0.113.{number}")),
        ],
        3 => vec![("forwarded", format!("for={address}"))],
        4 => vec![("x-real-ip", address)],
        5 => vec![(
            "x-forwarded-for",
            format!("{BALANCER}, {BALANCER}, {address}"),
        )],
        6 => vec![
            ("x-forwarded-for", "not an address".to_owned()),
            ("client-ip", address),
        ],
        7 => vec![("X-Forwarded-For", format!("[2001:db8:{number}::1]:80"))],
        8 => vec![
            ("true-client-ip", address.clone()),
            ("cf-connecting-ip", address),
        ],
        _ => vec![
            ("x-forwarded-for", String::new()),
            ("x-forwarded-host", address),
        ],
    }
}

#[test]
fn spoofed_forwarding_headers_are_ignored() {
    let (site, server) = (Site::new(), Server::start(Flavor::Redis));
    let replica = || {
        let limit = Limit::sliding_log("api", LIMIT as u64, Duration::from_hours(1));
        let limiter = site.limiter(&server, [limit]);
        let client = by::client_address().behind(behind(BALANCER));
        let app = Router::new().route("/", get(|| async { "hello" }));
        site.serve(app.layer(RateLimitLayer::new(&limiter, "api", client)))
    };
    let replicas = [replica(), replica()];
    let balancer = balancer(&replicas);
    let send = |to, number| {
        let spoofed = spoofed(number);
        let headers: Vec<_> = spoofed
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        reverse_proxy::get(to, "/", &headers).status
    };
    let through: Vec<u16> = (0..40)
        .map(|number| send(balancer.addr(), number))
        .collect();

    assert_eq!(
        through.iter().filter(|status| **status == 200).count(),
        LIMIT,
        "{through:?}"
    );

    // Sent directly to the replicas, requests count for the same client, which has nothing left.
    let past: Vec<u16> = (0..40)
        .map(|number| send(replicas[number % 2], number))
        .collect();
    assert!(past.iter().all(|status| *status == 429), "{past:?}");
}
