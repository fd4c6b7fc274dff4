//! Six replicas behind a balancer keep a limit as if they were one.

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
const ASKED: usize = 600;
const CLIENTS: usize = 6;

/// How often each replica worked.
static WORKED: [AtomicU64; REPLICAS] = [const { AtomicU64::new(0) }; REPLICAS];

/// How many of six hundred requests through the balancer passed, how many may have, and how often
/// each replica worked.
fn passed(consistency: Consistency) -> (u64, u64, Vec<u64>) {
    let (site, server) = (Site::new(), Server::start(Flavor::Redis));
    WORKED.iter().for_each(|worked| worked.store(0, Relaxed));
    let replica = |index: usize| {
        let limit =
            Limit::fixed_window("api", LIMIT, Duration::from_secs(60)).consistency(consistency);
        let limiter = site.limiter(&server, [limit]);
        let clients = by::client_address().behind(behind(super::BALANCER));
        let app = Router::new().route(
            "/",
            get(move || async move { WORKED[index].fetch_add(1, Relaxed).to_string() }),
        );
        site.serve(app.layer(RateLimitLayer::new(&limiter, "api", clients)))
    };
    let balancer = balancer(&(0..REPLICAS).map(replica).collect::<Vec<_>>());
    let began = wait::now();
    let passed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                for _ in 0..ASKED / CLIENTS {
                    let response = reverse_proxy::get(balancer.addr(), "/", &[]);
                    assert!(matches!(response.status, 200 | 429), "{response:?}");
                    passed.fetch_add(u64::from(response.status == 200), Relaxed);
                }
            });
        }
    });
    // A machine that takes longer than a minute for this sees another window.
    let windows = began.elapsed().as_secs() / 60 + 1;
    (
        passed.into_inner(),
        LIMIT * windows,
        WORKED.iter().map(|worked| worked.load(Relaxed)).collect(),
    )
}

#[test]
fn six_replicas_keep_120_per_minute_at_120_in_total() {
    let (strict, most, worked) = passed(Consistency::Strict);
    assert!(
        (LIMIT..=most).contains(&strict),
        "{strict} passed, at most {most} may"
    );
    assert_eq!(
        worked.iter().sum::<u64>(),
        strict,
        "whoever passed was served, and nobody else"
    );
    assert!(
        worked.iter().all(|worked| *worked > 0),
        "every replica had its part: {worked:?}"
    );

    let (leased, most, worked) = passed(Consistency::Leased);
    assert!(
        (1..=most).contains(&leased),
        "{leased} passed, at most {most} may"
    );
    assert_eq!(worked.iter().sum::<u64>(), leased);
}
