//! Requests whose demands are in several slots of a cluster: all or nothing, although no script can
//! decide them together.

use std::sync::Arc;
use std::time::Duration;

use testkit::servers::{Cluster, Flavor, Server};
use tollgate::store::{Ending, Intent, ReservationEnd, Settlement, SettlementKind, Store as _};
use tollgate::{Decision, DemandBuf, Limit, LimitOutcome, Limiter, Micros, PermitId, Rate};

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

/// Checks three limits whose keys are in different slots, on different servers.
async fn check(limiter: &Limiter, user: &str, tenant: &str) -> Decision {
    let check = limiter
        .check("per-user", user)
        .and("per-tenant", tenant)
        .and("per-address", "10.1.2.3");
    check.await.expect("the cluster is available")
}

async fn remaining(limiter: &Limiter, limit: &str, key: &str) -> u64 {
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
        let limiter = Limiter::new(common::on_cluster(&runtime, &cluster), limits())
            .expect("the limits are valid");
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
fn a_denial_charges_no_other_limit() {
    on_cluster(async |limiter| {
        for _ in 0..3 {
            assert!(check(&limiter, "ann", "acme").await.is_allowed());
        }

        let denied = check(&limiter, "ann", "acme").await;
        assert_eq!(denied.denied_by().map(LimitOutcome::name), Some("per-user"));

        // The outcomes of the other limits show that nothing was charged.
        let remaining_units: Vec<u64> = denied
            .limits()
            .iter()
            .map(LimitOutcome::remaining)
            .collect();
        assert_eq!(remaining_units, [0, 2, 97]);
        assert_eq!(remaining(&limiter, "per-tenant", "acme").await, 2);
        assert_eq!(remaining(&limiter, "per-address", "10.1.2.3").await, 97);
    });
}

/// The highest limit denies after the lower ones have been charged, which are then refunded in the
/// background.
#[test]
fn charges_are_refunded_after_a_denial() {
    on_cluster(async |limiter| {
        for user in ["ann", "bob", "cid", "dan", "eve"] {
            assert!(check(&limiter, user, "acme").await.is_allowed());
        }

        let denied = check(&limiter, "fay", "acme").await;
        assert_eq!(
            denied.denied_by().map(LimitOutcome::name),
            Some("per-tenant")
        );
        assert_eq!(
            denied.limits()[0].remaining(),
            3,
            "the outcome shows the refund"
        );

        let limiter = Arc::new(limiter);
        common::eventually("the user's unit is refunded", async || {
            remaining(&limiter, "per-user", "fay").await == 3
        })
        .await;
        assert_eq!(remaining(&limiter, "per-address", "10.1.2.3").await, 95);
    });
}

#[test]
fn permits_are_released_after_a_denial() {
    on_cluster(async |limiter| {
        let acquire = async |user: &str| {
            let check = limiter
                .check("in-flight", "acme")
                .and("per-user", user)
                .limit_cost(3);
            check.await.expect("the cluster is available")
        };

        assert!(acquire("ann").await.is_allowed());
        // The lower limit, concurrency, is charged first; the user has nothing left.
        assert!(!acquire("ann").await.is_allowed());

        common::eventually("the permit is released", async || {
            remaining(&limiter, "in-flight", "acme").await == 1
        })
        .await;
    });
}

/// The reservations of lower limits are undone in the background if a higher one denies.
#[test]
fn reservations_are_undone_after_a_denial() {
    on_cluster(async |limiter| {
        let reserve = async |user: &str| {
            let reserve = limiter
                .reserve("per-user", user)
                .and("per-tenant", "acme")
                .and("in-flight", user);
            let reservation = reserve.await.expect("the cluster is available");
            reservation.decision().is_allowed()
        };

        for user in ["ann", "bob", "cid", "dan", "eve"] {
            assert!(reserve(user).await);
            assert_eq!(remaining(&limiter, "per-user", user).await, 2);
        }
        assert!(!reserve("fay").await, "the tenant has nothing left");

        common::eventually("the user's unit and permit are returned", async || {
            remaining(&limiter, "per-user", "fay").await == 3
                && remaining(&limiter, "in-flight", "fay").await == 2
        })
        .await;
        assert_eq!(remaining(&limiter, "per-tenant", "acme").await, 0);
    });
}

/// No counter remembers a reservation that was undone: its id may be that of a request that a failure
/// policy then allows, whose settlement charges all of the actual cost.
#[test]
fn an_undone_reservation_is_not_remembered() {
    let runtime = common::runtime();
    let cluster = Cluster::start(Flavor::Valkey, 3, 0);
    let store = common::on_cluster(&runtime, &cluster);
    let rule = |limit: Limit| limit.validate().expect("a valid limit");
    let low = rule(Limit::fixed_window("low", 3, DAY));
    let high = rule(Limit::fixed_window("high", 5, DAY));
    let demand = |rule, key, cost| DemandBuf::new(rule, key, cost).expect("a valid key");
    let (undone, denied) = (demand(&low, "ann", 2), demand(&high, "acme", 9));

    runtime.block_on(async {
        let (id, demands) = (PermitId::new(7), [undone.as_demand(), denied.as_demand()]);
        let intent = Intent::Reserve {
            ttl: Micros::from_secs(60),
        };
        let reply = store.spend(&demands, intent, id).await;
        assert!(reply.expect("available").is_denied(&demands));

        let used = async || {
            let looked = [undone.clone().with_cost(0)];
            let looked = [looked[0].as_demand()];
            let reply = store.spend(&looked, Intent::Peek, id).await;
            3 - reply.expect("available").outcomes()[0].0.remaining
        };
        common::eventually("the reservation is undone", async || used().await == 0).await;

        let settlement = [Settlement::new(undone.as_demand(), 3)];
        let ending = Ending::new(id, ReservationEnd::Settled);
        let settled = store.settle(&settlement, ending).await.expect("available");
        assert_eq!(
            (settled[0].kind, settled[0].charged),
            (SettlementKind::Unreserved, 3)
        );
        assert_eq!(used().await, 3);
    });
}

#[test]
fn a_reservation_is_settled_in_every_slot() {
    on_cluster(async |limiter| {
        let reserve = limiter.reserve("per-address", "10.1.2.3").cost(20);
        let reserve = reserve.and("per-user", "ann").and("in-flight", "acme");
        let reservation = reserve.await.expect("the cluster is available");
        assert!(reservation.decision().is_allowed());
        assert_eq!(remaining(&limiter, "per-address", "10.1.2.3").await, 80);

        let settled = reservation.settle(105).await;
        settled.expect("the cluster is available");
        assert_eq!(remaining(&limiter, "per-address", "10.1.2.3").await, 0);
        assert_eq!(remaining(&limiter, "per-user", "ann").await, 2);
        assert_eq!(remaining(&limiter, "in-flight", "acme").await, 2);
    });
}

/// Many concurrent requests to the same counters: never more than the lowest limit is allowed, and
/// all other charges are refunded.
#[test]
fn concurrent_requests_never_exceed_the_limit() {
    on_cluster(async |limiter| {
        let tasks: Vec<_> = (0..200)
            .map(|number| {
                let limiter = limiter.clone();
                tokio::spawn(async move {
                    check(&limiter, &format!("user-{}", number % 40), "acme")
                        .await
                        .is_allowed()
                })
            })
            .collect();

        let mut allowed = 0;
        for task in tasks {
            allowed += u64::from(task.await.expect("no task panics"));
        }

        assert!(allowed <= 5, "{allowed} were allowed by a limit of 5");
        common::eventually("all other charges are refunded", async || {
            remaining(&limiter, "per-address", "10.1.2.3").await == 100 - allowed
                && remaining(&limiter, "per-tenant", "acme").await == 5 - allowed
        })
        .await;
    });
}
