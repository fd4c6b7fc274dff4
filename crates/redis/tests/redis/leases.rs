//! Leased and eventual limits on real servers: never above the limit, mostly without a store call,
//! and unused units are returned.

use std::time::Duration;

use testkit::servers::{Cluster, Flavor, Server};
use testkit::wait;
use tokio::runtime::Runtime;
use tollgate::{Consistency, Limit, Limiter, ManualClock, Rate, Source};
use tollgate_redis::{RedisBuilder, RedisStore};

use crate::common;

/// The configured number of replicas.
const REPLICAS: u32 = 4;
const HOUR: Duration = Duration::from_hours(1);
/// So slow that nothing is refilled while a test runs.
const SLOWLY: Rate = Rate::new(1, Duration::from_hours(24));

fn leased(limit: Limit) -> Limit {
    limit.consistency(Consistency::Leased)
}

/// A replica with its own store and leases.
struct Replica {
    store: RedisStore,
    limiter: Limiter,
}

impl Replica {
    fn new(runtime: &Runtime, server: &Server, limits: impl IntoIterator<Item = Limit>) -> Self {
        Self::with_store(common::standalone(runtime, server), limits)
    }

    fn with_store(store: RedisStore, limits: impl IntoIterator<Item = Limit>) -> Self {
        let builder = Limiter::builder()
            .store(store.clone())
            .limits(limits)
            .expected_replicas(REPLICAS);
        Self {
            store,
            limiter: builder.build().expect("the limits are valid"),
        }
    }

    /// Makes checks one after the other. Returns how many were allowed, and how many were decided
    /// without a store call.
    async fn burst(&self, limit: &str, count: usize) -> (u64, u64) {
        let (mut allowed, mut local) = (0, 0);
        for _ in 0..count {
            let decision = self
                .limiter
                .check(limit, "ann")
                .await
                .expect("the server is available");
            assert!(!decision.is_degraded(), "the server is available");
            allowed += u64::from(decision.is_allowed());
            local += u64::from(decision.source() != Source::Store);
        }

        (allowed, local)
    }
}

/// A limit of 1,000 for each algorithm that can be leased, practically without a refill.
fn thousand() -> Vec<Limit> {
    vec![
        leased(Limit::token_bucket("bucket", 1_000, SLOWLY)),
        leased(Limit::leaky_bucket("meter", 1_000, SLOWLY)),
        leased(Limit::fixed_window("fixed", 1_000, HOUR)),
        leased(Limit::calendar_window(
            "calendar",
            1_000,
            tollgate::Calendar::Month,
        )),
        leased(Limit::sliding_window("sliding", 1_000, HOUR)),
        leased(Limit::sliding_log("log", 1_000, HOUR)),
    ]
}

/// What one replica counts or settles at the store, another one finds there as soon as it has spent
/// what it had leased before.
#[test]
fn a_debt_is_seen_by_replicas_with_leases() {
    let runtime = common::runtime();
    for flavor in common::FLAVORS {
        let server = Server::start(flavor);
        let [holder, other] = [0, 1].map(|_| Replica::new(&runtime, &server, thousand()));
        for limit in thousand() {
            let name = limit.name();
            runtime.block_on(async {
                let (before, _) = holder.burst(name, 100).await;
                assert_eq!(before, 100, "{name}");

                let reserve = other.limiter.reserve(name, "ann").cost(50).await;
                let reservation = reserve.expect("the server is available");
                assert!(reservation.is_allowed(), "{name}");
                let settled = reservation.settle(600).await;
                settled.expect("the server is available");
                let counted = other.limiter.count(name, "ann").cost(900).await;
                let counted = counted.expect("the server is available");
                assert!(!counted.is_allowed(), "{name}: 1,600 of 1,000 are used");

                // At most what the counter had left when it was leased.
                let (leased, _) = holder.burst(name, 1_000).await;
                assert!(before + leased <= 1_000 - 50, "{name}: {leased} more");
                assert_eq!(holder.burst(name, 10).await.0, 0, "{name}");
                assert_eq!(other.burst(name, 10).await.0, 0, "{name}");
            });
        }
    }
}

#[test]
fn concurrent_bursts_of_replicas_use_the_limit_and_no_more() {
    let runtime = common::runtime();
    for flavor in common::FLAVORS {
        let server = Server::start(flavor);
        let replicas: Vec<Replica> = (0..4)
            .map(|_| Replica::new(&runtime, &server, thousand()))
            .collect();

        for limit in thousand() {
            let allowed: u64 = runtime.block_on(async {
                let bursts = replicas
                    .iter()
                    .map(|replica| replica.burst(limit.name(), 800));
                futures(bursts)
                    .await
                    .iter()
                    .map(|(allowed, _)| allowed)
                    .sum()
            });

            // Units that one replica still holds are not lost: it allows them when it is checked
            // again.
            let rest: u64 = runtime.block_on(async {
                let bursts = replicas
                    .iter()
                    .map(|replica| replica.burst(limit.name(), 300));
                futures(bursts)
                    .await
                    .iter()
                    .map(|(allowed, _)| allowed)
                    .sum()
            });

            let total = allowed + rest;
            assert!(
                total <= 1_000,
                "{flavor:?} {}: {total} were allowed",
                limit.name()
            );
            assert!(
                total >= 990,
                "{flavor:?} {}: only {total} were allowed",
                limit.name()
            );
        }

        assert_eq!(server.immortal_keys(), Vec::<Vec<u8>>::new());
    }
}

async fn futures<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    let mut done: Vec<Option<T>> = all.iter().map(|_| None).collect();

    std::future::poll_fn(|context| {
        for (future, done) in all
            .iter_mut()
            .zip(&mut done)
            .filter(|(_, done)| done.is_none())
        {
            if let std::task::Poll::Ready(value) = future.as_mut().poll(context) {
                *done = Some(value);
            }
        }
        if done.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

#[test]
fn a_hot_key_is_decided_from_the_lease() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let limit = leased(Limit::token_bucket(
        "bucket",
        1_000_000,
        Rate::per_second(1_000_000),
    ));
    let replica = Replica::new(&runtime, &server, [limit]);
    let (allowed, local) = runtime.block_on(replica.burst("bucket", 20_000));

    assert_eq!(allowed, 20_000);
    assert!(local >= 19_000, "{local} of 20,000 without a store call");

    let calls = replica.store.stats().script_calls;
    assert!(calls <= 1_000, "{calls} calls");
}

#[test]
fn unused_units_are_returned() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    for limit in thousand() {
        let name = limit.name().to_owned();
        let [one, other] = [0, 1].map(|_| Replica::new(&runtime, &server, [limit.clone()]));

        let (allowed, _) = runtime.block_on(one.burst(&name, 100));
        assert_eq!(allowed, 100);

        wait::until_true(Duration::from_secs(10), "unused units are returned", || {
            let left = runtime.block_on(async { other.limiter.peek(&name, "ann").cost(0).await });
            left.expect("the server is available").remaining() == 900
        });
    }
}

#[test]
fn return_leases_returns_all_units() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    for limit in thousand() {
        let name = limit.name().to_owned();
        let [one, other] = [0, 1].map(|_| Replica::new(&runtime, &server, [limit.clone()]));

        let left = runtime.block_on(async {
            one.burst(&name, 100).await;
            one.limiter
                .return_leases()
                .await
                .expect("the server is available");
            other
                .limiter
                .peek(&name, "ann")
                .cost(0)
                .await
                .expect("the server is available")
                .remaining()
        });

        assert_eq!(left, 900, "{name}");
    }
}

#[test]
fn a_denial_is_cached_until_it_can_change() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    for limit in thousand() {
        let name = limit.name().to_owned();
        let replica = Replica::new(&runtime, &server, [limit]);

        runtime.block_on(async {
            let check = |cost| replica.limiter.check(&name, "ann").cost(cost);
            assert!(
                check(998)
                    .await
                    .expect("the server is available")
                    .is_allowed()
            );
            let denied = check(5).await.expect("the server is available");
            assert_eq!(
                (denied.is_allowed(), denied.source()),
                (false, Source::Store)
            );

            let calls = replica.store.stats().script_calls;
            for cost in [5, 6, 1_000] {
                let again = check(cost).await.expect("the server is available");
                assert_eq!(
                    (again.is_allowed(), again.source()),
                    (false, Source::DenyCache),
                    "{name} {cost}"
                );
                let soonest = denied
                    .retry_after()
                    .map(|at| at.saturating_sub(Duration::from_millis(400)));
                assert!(again.retry_after() >= soonest, "{name} {cost}");
            }
            assert!(
                check(1_001)
                    .await
                    .expect("the server is available")
                    .is_never()
            );
            assert_eq!(
                replica.store.stats().script_calls,
                calls,
                "no store call was made"
            );
            assert!(
                check(1)
                    .await
                    .expect("the server is available")
                    .is_allowed(),
                "a lower cost may be allowed"
            );
        });
    }
}

#[test]
fn a_reset_and_a_refund_take_effect_here_and_soon_on_other_replicas() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    for limit in thousand() {
        let name = limit.name().to_owned();
        let [one, other] = [0, 1].map(|_| Replica::new(&runtime, &server, [limit.clone()]));

        // A key for each, because the other replica keeps its units of the first key after the
        // reset.
        for key in ["reset", "refunded"] {
            let passes = |replica: &Replica, cost| {
                let decision =
                    runtime.block_on(async { replica.limiter.check(&name, key).cost(cost).await });
                decision.expect("the server is available").is_allowed()
            };

            assert!(
                passes(&one, 1_000) && !passes(&one, 10) && !passes(&other, 10),
                "{name}"
            );

            let result = runtime.block_on(async {
                if key == "reset" {
                    one.limiter.reset(&name, key).await
                } else {
                    one.limiter.refund(&name, key).cost(1_000).await
                }
            });
            result.expect("the server is available");

            assert!(
                passes(&one, 10),
                "{name}: a key that was {key} here allows again"
            );
            wait::until_true(
                Duration::from_secs(10),
                "the other replica to notice",
                || passes(&other, 10),
            );
        }
    }
}

/// The time is set by hand: whether the units that were spent, or reported by a call in flight, are
/// refilled when the survivor looks must not depend on the speed of the machine.
#[test]
fn leases_of_a_killed_replica_expire() {
    let (runtime, victim_runtime) = (common::runtime(), common::runtime());
    let (server, clock) = (Server::start(Flavor::Redis), ManualClock::default());
    let bucket = Limit::token_bucket("bucket", 1_000, Rate::per_second(100_000));
    let [survivor, victim] = [&runtime, &victim_runtime].map(|runtime| {
        let builder = RedisBuilder::standalone(server.url())
            .timeout(common::PATIENT)
            .manual_time(clock.clone());
        let store = common::connected(runtime, builder);
        Replica::with_store(store, [leased(bucket.clone())])
    });
    let used_and_leased = || {
        let look = survivor.limiter.peek("bucket", "ann").cost(0).inspect();
        let inspection = runtime.block_on(look).expect("the server is available");
        let view = &inspection.counters[0];
        (view.used, view.leased.unwrap_or_default())
    };

    victim_runtime.block_on(victim.burst("bucket", 300));
    // Its tasks are aborted, like those of a killed process.
    victim_runtime.shutdown_background();
    drop(victim);

    let what = "only leased units to be missing";
    wait::until_true(common::PATIENT, what, || {
        clock.advance(Duration::from_millis(10));
        let (used, leased) = used_and_leased();
        used == leased && leased > 0
    });
    wait::until_true(common::PATIENT, "the lease to end", || {
        clock.advance(Duration::from_secs(1));
        used_and_leased() == (0, 0)
    });
}

#[test]
fn without_the_store_the_lease_is_spent_before_the_failure_policy_decides() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let limits = [
        leased(Limit::token_bucket("bucket", 100_000, Rate::per_second(1))),
        Limit::token_bucket("strict", 1_000_000, Rate::per_second(1)),
    ];
    let limits = limits.map(|limit| limit.on_store_failure(tollgate::FailurePolicy::Deny));
    let replica = Replica::new(&runtime, &server, limits);
    let check = |limit: &str| {
        let decision = runtime.block_on(async { replica.limiter.check(limit, "ann").await });
        decision.expect("a decision")
    };

    runtime.block_on(replica.burst("bucket", 1_000));
    server.kill();
    // Once the connection is lost, no reply adds to the lease.
    wait::until_true(common::PATIENT, "the outage to be noticed", || {
        check("strict").is_degraded()
    });
    let held = replica.store.stats().leased_units;
    let decisions = (0..=held).map(|_| check("bucket"));
    let (allowed, denied): (Vec<_>, Vec<_>) = decisions.partition(tollgate::Decision::is_allowed);

    assert!(!allowed.is_empty(), "{held} were held");
    let denied = denied.last().expect("more was asked for than was held");
    assert!(denied.is_unavailable() && denied.is_degraded());
}

const KINDS: [Consistency; 4] = [
    Consistency::Strict,
    Consistency::Leased,
    Consistency::Eventual,
    Consistency::Local,
];

/// Makes 600 requests that check a limit of each consistency. One limit is 300, the others are
/// 1,000. The keys are the names of the limits, so that they are in different slots of a cluster.
async fn spend_all_or_none(limiter: &Limiter, lowest: Consistency) {
    let mut allowed = 0_u64;
    for _ in 0..600 {
        let check = limiter.check("strict", "strict").and("leased", "leased");
        let check = check.and("eventual", "eventual").and("local", "local");
        let decision = check.await.expect("the server is available");
        assert!(!decision.is_degraded(), "the server is available");
        allowed += u64::from(decision.is_allowed());
        let refusing = decision.denied_by().map(tollgate::LimitOutcome::name);
        assert!(
            refusing.is_none_or(|name| name == lowest.as_str()),
            "{refusing:?}"
        );
    }

    // An eventual limit may be exceeded by units that were not reported to the store yet.
    let more = if lowest == Consistency::Eventual {
        tollgate::store::lease::quantum(300, REPLICAS)
    } else {
        0
    };
    assert!(
        (300..=300 + more).contains(&allowed),
        "{allowed} were allowed by a low {lowest:?} limit"
    );
    limiter
        .return_leases()
        .await
        .expect("the server is available");
    for kind in KINDS.map(Consistency::as_str) {
        let look = limiter
            .peek(kind, kind)
            .cost(0)
            .await
            .expect("the server is available");
        let capacity = if kind == lowest.as_str() { 300 } else { 1_000 };
        let left = capacity - allowed.min(capacity);
        assert_eq!(look.remaining(), left, "{kind} with a low {lowest:?} limit");
    }
}

fn every_consistency(lowest: Consistency) -> [Limit; 4] {
    KINDS.map(|kind| {
        let capacity = if kind == lowest { 300 } else { 1_000 };
        Limit::token_bucket(kind.as_str(), capacity, SLOWLY).consistency(kind)
    })
}

#[test]
fn limits_of_different_consistency_are_spent_all_or_none() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    for lowest in KINDS {
        server.command(&["FLUSHALL"]);
        let replica = Replica::new(&runtime, &server, every_consistency(lowest));
        runtime.block_on(spend_all_or_none(&replica.limiter, lowest));
    }
}

#[test]
fn limits_of_different_consistency_are_spent_all_or_none_in_a_cluster() {
    let (runtime, cluster) = (common::runtime(), Cluster::start(Flavor::Redis, 3, 0));
    for lowest in KINDS {
        cluster
            .nodes()
            .iter()
            .for_each(|node| drop(node.command(&["FLUSHALL"])));
        let replica = Replica::with_store(
            common::on_cluster(&runtime, &cluster),
            every_consistency(lowest),
        );
        runtime.block_on(spend_all_or_none(&replica.limiter, lowest));
    }
}

#[test]
fn eventual_limits_stay_within_their_documented_excess() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let limits = || {
        thousand()
            .into_iter()
            .map(|limit| limit.consistency(Consistency::Eventual))
    };
    let replicas: Vec<Replica> = (0..4)
        .map(|_| Replica::new(&runtime, &server, limits()))
        .collect();

    for limit in limits() {
        let allowed: u64 = runtime.block_on(async {
            let bursts = replicas
                .iter()
                .map(|replica| replica.burst(limit.name(), 800));
            futures(bursts)
                .await
                .iter()
                .map(|(allowed, _)| allowed)
                .sum()
        });
        let most = 1_000 + 4 * tollgate::store::lease::quantum(1_000, REPLICAS);
        assert!(
            (1_000..=most).contains(&allowed),
            "{}: {allowed} passed",
            limit.name()
        );
    }

    assert_eq!(server.immortal_keys(), Vec::<Vec<u8>>::new());
}

/// A denial that is known here spares the store call, unless another limit must count its own.
#[test]
fn a_cached_denial_hides_no_denial_that_counts_towards_a_lockout() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let lockout = tollgate::Lockout::new(2, HOUR, HOUR).expect("valid numbers");
    let limits = [
        leased(Limit::token_bucket("chat", 1, SLOWLY)),
        Limit::sliding_log("login", 1, HOUR).lockout(lockout),
    ];
    let replica = Replica::new(&runtime, &server, limits);

    runtime.block_on(async {
        let check = || replica.limiter.check("chat", "ann").and("login", "ann");
        for (is_allowed, is_locked) in [(true, false), (false, false), (false, true), (false, true)]
        {
            let decision = check().await.expect("the server is available");
            assert_eq!(decision.is_allowed(), is_allowed);
            assert_eq!(
                decision.limits()[1].is_locked_out(),
                is_locked,
                "{decision:?}"
            );
        }
    });
}

/// Several leased limits are decided without waiting while all leases last, all or none.
#[test]
fn several_leases_decide_together_without_waiting() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let limits = [
        leased(Limit::token_bucket("one", 1_000, SLOWLY)),
        leased(Limit::token_bucket("two", 1_000, SLOWLY)),
        Limit::token_bucket("strict", 1_000, SLOWLY),
    ];
    let replica = Replica::new(&runtime, &server, limits);
    let check = || replica.limiter.check("one", "ann").and("two", "ann");

    // Nothing is leased yet, and nothing is charged.
    assert!(matches!(
        check().try_now(),
        Err(tollgate::Error::WouldBlock)
    ));

    // A lease may just be renewed, so it takes a few requests until both last.
    let mut spent = 0;
    let decision = loop {
        runtime.block_on(async {
            assert_eq!(replica.burst("one", 10).await.0, 10);
            assert_eq!(replica.burst("two", 10).await.0, 10);
        });
        spent += 10;
        if let Ok(decision) = check().try_now() {
            break decision;
        }
        assert!(spent < 900, "no lease lasts for two requests");
    };
    spent += 1;
    assert!(decision.is_allowed());
    assert_eq!(decision.source(), Source::Lease);

    // Neither what needs the store nor a denial that is known here charges any of the limits.
    for other in [("strict", "ann"), ("two", "bob")] {
        let waiting = check().and(other.0, other.1).try_now();
        assert!(matches!(waiting, Err(tollgate::Error::WouldBlock)));
    }
    let denied = check().limit_cost(1_001).try_now();
    assert!(denied.is_ok_and(|denied| denied.is_never()));
    runtime.block_on(async {
        let returned = replica.limiter.return_leases().await;
        returned.expect("the server is available");
        for name in ["one", "two"] {
            let look = replica.limiter.peek(name, "ann").cost(0).await;
            let look = look.expect("the server is available");
            assert_eq!(look.remaining(), 1_000 - spent, "{name}");
        }
    });
}
