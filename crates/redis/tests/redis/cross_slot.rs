//! Requests whose checks are in several slots of a cluster: all or nothing, without a script that
//! could see them all.

use std::sync::Arc;
use std::time::Duration;

use testkit::servers::{Cluster, Flavor, Server};
use tollgate::{Decision, Limit, LimitOutcome, Limiter, Rate};

use crate::common;

const DAY: Duration = Duration::from_hours(24);

fn limits() -> [Limit; 4] {
    [
        Limit::fixed_window("per-user", 3, DAY),
        Limit::sliding_log("per-tenant", 5, DAY),
        Limit::token_bucket("per-address", 100, Rate::new(1, DAY)),
        Limit::concurrency("in-flight", 2, DAY),
    ]
}

/// The key parts are chosen so that they are in different slots, on different servers.
async fn ask(limiter: &Limiter, user: &str, tenant: &str) -> Decision {
    let ask = limiter
        .check("per-user", user)
        .and("per-tenant", tenant)
        .and("per-address", "10.1.2.3");
    ask.await.expect("the cluster is available")
}

async fn left(limiter: &Limiter, limit: &str, key: &str) -> u64 {
    limiter
        .peek(limit, key)
        .cost(0)
        .await
        .expect("the cluster is available")
        .remaining()
}

fn on_cluster(test: impl AsyncFn(Limiter)) {
    let runtime = common::runtime();
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        let cluster = Cluster::start(flavor, 3, 0);
        let limiter = Limiter::new(common::on_cluster(&runtime, &cluster), limits());
        runtime.block_on(test(limiter));
        let immortal: Vec<_> = cluster
            .nodes()
            .iter()
            .flat_map(Server::immortal_keys)
            .collect();
        assert_eq!(immortal, Vec::<Vec<u8>>::new());
    }
}

#[test]
fn a_refusal_takes_nothing_from_the_others() {
    on_cluster(async |limiter| {
        for _ in 0..3 {
            assert!(ask(&limiter, "ann", "acme").await.is_allowed());
        }
        let denied = ask(&limiter, "ann", "acme").await;
        assert_eq!(denied.denied_by().map(LimitOutcome::name), Some("per-user"));
        // The others are told as they are: nothing was taken.
        let told: Vec<u64> = denied
            .limits()
            .iter()
            .map(LimitOutcome::remaining)
            .collect();
        assert_eq!(told, [0, 2, 97]);
        assert_eq!(left(&limiter, "per-tenant", "acme").await, 2);
        assert_eq!(left(&limiter, "per-address", "10.1.2.3").await, 97);
    });
}

/// The wide limit refuses after the narrow ones have been charged, which are then given back in the
/// background.
#[test]
fn what_was_taken_is_given_back() {
    on_cluster(async |limiter| {
        for user in ["ann", "bob", "cid", "dan", "eve"] {
            assert!(ask(&limiter, user, "acme").await.is_allowed());
        }
        let denied = ask(&limiter, "fay", "acme").await;
        assert_eq!(
            denied.denied_by().map(LimitOutcome::name),
            Some("per-tenant")
        );
        assert_eq!(denied.limits()[0].remaining(), 3, "told as given back");
        let limiter = Arc::new(limiter);
        common::eventually("the user's unit comes back", async || {
            left(&limiter, "per-user", "fay").await == 3
        })
        .await;
        assert_eq!(left(&limiter, "per-address", "10.1.2.3").await, 95);
    });
}

#[test]
fn places_are_given_back_too() {
    on_cluster(async |limiter| {
        let hold = async |user: &str| {
            let ask = limiter
                .check("in-flight", "acme")
                .and("per-user", user)
                .limit_cost(3);
            ask.await.expect("the cluster is available")
        };
        assert!(hold("ann").await.is_allowed());
        // The narrower limit, the places, is charged first; the user has nothing left.
        assert!(!hold("ann").await.is_allowed());
        common::eventually("the place comes back", async || {
            left(&limiter, "in-flight", "acme").await == 1
        })
        .await;
    });
}

/// Many at once over the same counters: never more passes than the narrowest allows, and nothing is
/// lost afterwards.
#[test]
fn concurrent_requests_never_pass_too_many() {
    on_cluster(async |limiter| {
        let tasks: Vec<_> = (0..200)
            .map(|number| {
                let limiter = limiter.clone();
                tokio::spawn(async move {
                    ask(&limiter, &format!("user-{}", number % 40), "acme")
                        .await
                        .is_allowed()
                })
            })
            .collect();
        let mut allowed = 0;
        for task in tasks {
            allowed += u64::from(task.await.expect("no task panics"));
        }
        assert!(allowed <= 5, "{allowed} passed a limit of 5");
        common::eventually("what was taken in vain comes back", async || {
            left(&limiter, "per-address", "10.1.2.3").await == 100 - allowed
                && left(&limiter, "per-tenant", "acme").await == 5 - allowed
        })
        .await;
    });
}
