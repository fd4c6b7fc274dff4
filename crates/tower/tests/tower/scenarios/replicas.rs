//! Six replicas behind a balancer share one limit.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use testkit::servers::{Flavor, Server};
use testkit::{reverse_proxy, wait};
use tollgate::{Consistency, Limit};
use tollgate_tower::{RateLimitLayer, by};

use super::{Site, balancer, behind};

const REPLICAS: usize = 6;
const LIMIT: u64 = 120;
const REQUESTS: usize = 600;
const CLIENTS: usize = 6;

/// How many requests each replica handled.
static HANDLED: [AtomicU64; REPLICAS] = [const { AtomicU64::new(0) }; REPLICAS];

/// Sends 600 requests through the balancer. Returns how many were admitted, how many may have been,
/// and how many each replica handled.
fn run(consistency: Consistency) -> (u64, u64, Vec<u64>) {
    let (site, server) = (Site::new(), Server::start(Flavor::Redis));
    HANDLED.iter().for_each(|handled| handled.store(0, Relaxed));
    let replica = |index: usize| {
        let limit =
            Limit::fixed_window("api", LIMIT, Duration::from_secs(60)).consistency(consistency);
        let limiter = site.limiter(&server, [limit]);
        let clients = by::client_address().behind(behind(super::BALANCER));
        let app = Router::new().route(
            "/",
            get(move || async move { HANDLED[index].fetch_add(1, Relaxed).to_string() }),
        );
        site.serve(app.layer(RateLimitLayer::new(&limiter, "api", clients)))
    };
    let balancer = balancer(&(0..REPLICAS).map(replica).collect::<Vec<_>>());
    let began = wait::now();
    let admitted = AtomicU64::new(0);

    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                for _ in 0..REQUESTS / CLIENTS {
                    let response = reverse_proxy::get(balancer.addr(), "/", &[]);
                    assert!(matches!(response.status, 200 | 429), "{response:?}");
                    admitted.fetch_add(u64::from(response.status == 200), Relaxed);
                }
            });
        }
    });

    // On a machine that takes longer than a minute, the next window begins.
    let windows = began.elapsed().as_secs() / 60 + 1;
    (
        admitted.into_inner(),
        LIMIT * windows,
        HANDLED
            .iter()
            .map(|handled| handled.load(Relaxed))
            .collect(),
    )
}

#[test]
fn six_replicas_keep_120_per_minute_at_120_in_total() {
    let (strict, most, handled) = run(Consistency::Strict);
    assert!(
        (LIMIT..=most).contains(&strict),
        "{strict} admitted, at most {most} allowed"
    );
    assert_eq!(
        handled.iter().sum::<u64>(),
        strict,
        "exactly the admitted requests were handled"
    );
    assert!(
        handled.iter().all(|handled| *handled > 0),
        "every replica handled some: {handled:?}"
    );

    let (leased, most, handled) = run(Consistency::Leased);
    assert!(
        (1..=most).contains(&leased),
        "{leased} admitted, at most {most} allowed"
    );
    assert_eq!(handled.iter().sum::<u64>(), leased);
}
