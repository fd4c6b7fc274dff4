//! The keys on the server: their names, their expiry, and the number of calls that they need.

use std::time::Duration;

use testkit::servers::{Flavor, Server};
use tokio::runtime::Builder;
use tollgate::store::{Ending, Intent, Refusal, ReservationEnd, Settlement, SettlementKind};
use tollgate::{
    Decision, DemandBuf, FailurePolicy, Limit, LimitOutcome, Limiter, Lockout, ManualClock,
    MemoryStore, Micros, PermitId, Rate, ReservationExpiry, Rule, Store,
};
use tollgate_redis::RedisBuilder;

use crate::common;

const MINUTE: Duration = Duration::from_mins(1);

fn every_algorithm() -> Vec<Limit> {
    vec![
        Limit::fixed_window("fixed", 10, MINUTE),
        Limit::calendar_window("calendar", 10, tollgate::Calendar::Month),
        Limit::sliding_window("sliding", 10, MINUTE),
        Limit::sliding_log("log", 10, MINUTE),
        Limit::token_bucket("bucket", 10, Rate::per_minute(10)),
        Limit::leaky_bucket("meter", 10, Rate::per_minute(10)),
        Limit::queue("queue", 10, Rate::per_minute(10)),
        Limit::concurrency("in-flight", 10, MINUTE),
    ]
}

/// The time to live of a key, in milliseconds.
fn ttl(server: &Server, key: &str) -> i64 {
    server
        .command(&["PTTL", key])
        .as_int()
        .expect("PTTL answers with a number")
}

fn key_of(server: &Server, limit: &str) -> String {
    let keys = server
        .keys()
        .into_iter()
        .map(|key| String::from_utf8(key).expect("these keys are text"));
    let mut keys = keys.filter(|key| key.contains(&format!("}}{limit}|")));
    keys.next().expect("the limit has a key")
}

#[test]
fn every_key_has_an_expiry_after_every_operation() {
    let runtime = common::runtime();
    for flavor in common::FLAVORS {
        let server = Server::start(flavor);
        let limiter = Limiter::new(common::standalone(&runtime, &server), every_algorithm())
            .expect("the limits are valid");
        let names: Vec<String> = every_algorithm()
            .iter()
            .map(|limit| limit.name().to_owned())
            .collect();

        runtime.block_on(async {
            for name in &names {
                let mut permits = Vec::new();
                for _ in 0..11 {
                    permits.extend(
                        limiter
                            .check(name, "ann")
                            .await
                            .expect("the server is available")
                            .permit_id(),
                    );
                }

                let _outcome = limiter
                    .peek(name, "bob")
                    .await
                    .expect("the server is available");

                if name == "in-flight" {
                    limiter
                        .release(name, "ann", permits[0])
                        .await
                        .expect("the server is available");
                } else {
                    limiter
                        .refund(name, "ann")
                        .cost(3)
                        .await
                        .expect("the server is available");
                    limiter
                        .refund(name, "nobody")
                        .await
                        .expect("the server is available");
                }
            }
        });

        assert_eq!(
            common::counters(&server).len(),
            names.len(),
            "a peek creates no key"
        );
        assert_eq!(server.immortal_keys(), Vec::<Vec<u8>>::new());
        for name in names.iter().filter(|name| *name != "calendar") {
            let left = ttl(&server, &key_of(&server, name));
            // A sliding window is kept for one more window.
            assert!((1..=120_050).contains(&left), "{name} expires in {left} ms");
        }
    }
}

/// The first hit sets the end of a fixed window. Later hits do not change it, and set the expiry
/// again if the key has lost it.
#[test]
fn the_expiry_of_a_fixed_window_is_constant_and_restored() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let limiter = Limiter::new(common::standalone(&runtime, &server), every_algorithm())
        .expect("the limits are valid");
    let hit = || {
        runtime
            .block_on(async { limiter.check("fixed", "ann").await })
            .expect("the server is available")
    };
    assert!(hit().is_allowed());
    let key = key_of(&server, "fixed");
    let expires = || {
        server
            .command(&["PEXPIRETIME", &key])
            .as_int()
            .expect("a time")
    };
    let first = expires();
    assert!(hit().is_allowed());
    assert!(
        (expires() - first).abs() <= 1,
        "a later hit moved the end by {} ms",
        expires() - first
    );

    server.command(&["PERSIST", &key]);
    assert_eq!(ttl(&server, &key), -1);
    assert_eq!(hit().remaining(), 7, "the count continues");
    assert!((expires() - first).abs() <= 1, "the end is unchanged");
}

#[test]
fn limits_of_a_key_share_a_hash_tag_and_prefixes_separate_environments() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let limiter = |prefix: &str| {
        let builder = RedisBuilder::standalone(server.url())
            .timeout(common::PATIENT)
            .prefix(prefix);
        Limiter::new(common::connected(&runtime, builder), every_algorithm())
            .expect("the limits are valid")
    };
    let (production, staging) = (limiter("prod:"), limiter("staging:"));

    runtime.block_on(async {
        let both = production
            .check("fixed", "user:42")
            .and("bucket", "user:42")
            .await;
        assert!(both.expect("the server is available").is_allowed());
        let other = staging
            .check("fixed", "user:42")
            .await
            .expect("the server is available");
        assert_eq!(other.remaining(), 9);
    });
    let mut keys = common::counters(&server);
    keys.sort_unstable();
    let expected = [
        "prod:{=user:42}bucket|t0",
        "prod:{=user:42}fixed|f60000000",
        "staging:{=user:42}fixed|f60000000",
    ];
    assert_eq!(keys, expected);
}

/// Store calls that wait while a script call is in flight share the next one.
#[test]
fn concurrent_decisions_share_script_calls() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let store = common::standalone(&runtime, &server);
    let limiter = Limiter::new(
        store.clone(),
        [Limit::token_bucket(
            "wide",
            1 << 40,
            Rate::per_second(1_000_000),
        )],
    )
    .expect("the limits are valid");
    let opened = store.stats();
    runtime.block_on(async {
        for number in 0..50u64 {
            assert!(
                limiter
                    .check("wide", number)
                    .await
                    .expect("the server is available")
                    .is_allowed()
            );
        }
        let alone = store.stats();
        assert_eq!(alone.script_calls - opened.script_calls, 50);
        assert_eq!(alone.store_calls - opened.store_calls, 50);

        let ask = |number: u64| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                limiter
                    .check("wide", number)
                    .await
                    .expect("the server is available")
            })
        };
        for task in (0..2_000).map(ask).collect::<Vec<_>>() {
            assert!(task.await.expect("no task panics").is_allowed());
        }
        let together = store.stats();
        let (calls, requests) = (
            together.script_calls - alone.script_calls,
            together.store_calls - alone.store_calls,
        );
        assert_eq!(requests, 2_000);
        assert!(
            calls <= requests / 4,
            "{requests} store calls took {calls} script calls"
        );
    });
}

/// Calls about the same counters in one script call see what the calls before them have written, and
/// the server keeps what the last one has written.
#[test]
fn calls_of_a_batch_see_the_calls_before_them() {
    const MONTH: Duration = Duration::from_hours(30 * 24);
    let limits = [
        Limit::token_bucket("bucket", 3, Rate::new(1, MONTH)),
        Limit::fixed_window("fixed", 3, MONTH),
        Limit::sliding_window("sliding", 3, MONTH),
    ];
    // On this runtime the calls of all futures are queued before the store's task sends them.
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime starts");

    for flavor in common::FLAVORS {
        let server = Server::start(flavor);
        let store = common::standalone(&runtime, &server);
        let limiter = Limiter::new(store.clone(), limits.clone()).expect("the limits are valid");
        let check = async || {
            let check = limiter.check("bucket", "a").and("fixed", "a");
            left(&check.and("sliding", "a").await.expect("available"))
        };
        let peek = async || {
            let peek = limiter.peek("bucket", "a").and("fixed", "a");
            left(&peek.and("sliding", "a").await.expect("available"))
        };
        let refund = || limiter.refund("bucket", "a").and("fixed", "a");

        runtime.block_on(async {
            let before = store.stats().script_calls;
            let (first, second, peeked, _, third, denied, _, last) = tokio::join!(
                check(),
                check(),
                peek(),
                refund().into_future(),
                check(),
                check(),
                limiter.reset("sliding", "a"),
                check(),
            );
            assert_eq!(store.stats().script_calls, before + 1);
            assert_eq!(
                [first, second, peeked, third, denied, last],
                [
                    [2, 2, 2],
                    [1, 1, 1],
                    [1, 1, 1],
                    [1, 1, 0],
                    [1, 1, 0],
                    [0, 0, 2]
                ]
            );
            assert_eq!(peek().await, [0, 0, 2], "what the server keeps");
        });
    }
}

/// Units that a settlement returned were also returned to the counter of the next call.
#[test]
fn a_settlement_returns_nothing_to_the_next_call_of_a_batch() {
    const MONTH: Duration = Duration::from_hours(30 * 24);
    let limits = [
        Limit::token_bucket("bucket", 10, Rate::new(1, MONTH)),
        Limit::fixed_window("fixed", 10, MONTH),
        Limit::sliding_window("sliding", 10, MONTH),
    ];
    let rules = limits.map(|limit| limit.validate().expect("the numbers are valid"));
    let demand = |rule, key, cost| DemandBuf::new(rule, key, cost).expect("a valid key");
    // On this runtime the calls of all futures are queued before the store's task sends them.
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime starts");

    for flavor in common::FLAVORS {
        let server = Server::start(flavor);
        let store = common::standalone(&runtime, &server);
        let spend = async |demand: &DemandBuf, intent, id: u128| {
            let demands = [demand.as_demand()];
            let spent = store.spend(&demands, intent, PermitId::new(id)).await;
            spent.expect("the server is available").outcomes()[0]
                .0
                .remaining
        };
        runtime.block_on(async {
            for (rule, id) in rules.iter().zip(1..) {
                let (reserved, other) = (demand(rule, "ann", 4), demand(rule, "bob", 4));
                let ttl = Micros::from_secs(60);
                assert_eq!(spend(&reserved, Intent::Reserve { ttl }, id).await, 6);
                assert_eq!(spend(&other, Intent::Spend, 0).await, 6);

                let settlement = Settlement::new(reserved.as_demand(), 1);
                let ending = Ending::new(PermitId::new(id), ReservationEnd::Settled);
                let before = store.stats().script_calls;
                let (settled, left) = tokio::join!(
                    store.settle(std::slice::from_ref(&settlement), ending),
                    spend(&other, Intent::Spend, 0),
                );
                assert_eq!(store.stats().script_calls, before + 1);
                let replies = settled.expect("the server is available");
                assert_eq!((replies[0].kind, left), (SettlementKind::Reserved, 2));
            }
        });
    }
}

/// The units left in each limit.
fn left(decision: &Decision) -> Vec<u64> {
    decision
        .limits()
        .iter()
        .map(LimitOutcome::remaining)
        .collect()
}

/// A counter that another program has written to denies one call and begins again. The others in the
/// same script call are not affected, and no failure policy decides.
#[test]
fn a_key_of_the_wrong_type_affects_one_of_its_own_calls() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let limiter = Limiter::new(common::standalone(&runtime, &server), every_algorithm())
        .expect("the limits are valid");

    runtime.block_on(async {
        for name in ["fixed", "log", "in-flight", "bucket", "sliding"] {
            assert!(
                limiter
                    .check(name, "victim")
                    .await
                    .expect("the server is available")
                    .is_allowed()
            );
        }
    });
    for key in server.keys() {
        let key = String::from_utf8(key).expect("text");
        server.command(&["DEL", &key]);
        server.command(&["HSET", &key, "not", "ours"]);
        server.command(&["PEXPIRE", &key, "60000"]);
    }
    runtime.block_on(async {
        let ask = |name: &'static str, key: String| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                limiter
                    .check(name, &key)
                    .await
                    .expect("failure policies decide")
            })
        };
        let names = ["fixed", "log", "in-flight", "bucket", "sliding"];
        let tasks: Vec<_> = (0..100)
            .map(|number| {
                let is_victim = number % 2 == 0;
                let key = if is_victim {
                    "victim".to_owned()
                } else {
                    format!("user-{number}")
                };
                (is_victim, ask(names[number / 2 % 5], key))
            })
            .collect();
        let mut refused = 0;
        for (is_victim, task) in tasks {
            let decision = task.await.expect("no task panics");
            assert!(!decision.is_degraded());
            if decision.refusal() == Some(Refusal::Malformed) {
                assert!(is_victim);
                refused += 1;
            }
        }
        assert_eq!(refused, 5, "one call of each limit");
    });
    assert_eq!(limiter.health().store_errors.malformed, 5);
}

/// With more low-water marks than a bucket keeps, the script merges the same ones as the memory
/// store.
#[test]
fn many_reservations_of_a_bucket_return_as_much_as_in_memory() {
    const RESERVATIONS: u64 = 100;
    let runtime = common::runtime();
    let server = Server::start(Flavor::Redis);
    let clock = ManualClock::default();
    let builder = RedisBuilder::standalone(server.url()).timeout(common::PATIENT);
    let redis = common::connected(&runtime, builder.manual_time(clock.clone()));
    let memory = MemoryStore::builder().clock(clock.clone()).build();
    let stores: [&dyn Store; 2] = [&redis, &memory];

    let rate = Rate::new(7, Duration::from_secs(3));
    let rule = Limit::token_bucket("bucket", 10_000, rate).validate();
    let rule = rule.expect("a valid limit");
    let demand = |cost: u64| DemandBuf::new(&rule, "ann", cost).expect("a valid key");
    let intent = Intent::Reserve {
        ttl: Micros::from_secs(3_600),
    };
    let spend = |cost: u64, intent: Intent, id: PermitId| {
        let demand = demand(cost);
        let outcomes = stores.map(|store| {
            let reply = runtime.block_on(store.spend(&[demand.as_demand()], intent, id));
            reply.expect("a reply").outcomes()[0].0
        });
        assert_eq!(outcomes[0], outcomes[1]);
        outcomes[0]
    };

    let cost = |number: u64| 1 + number * 31 % 97;
    for number in 0..RESERVATIONS {
        clock.advance(Duration::from_millis(number * 37 % 900));
        spend(cost(number), intent, PermitId::new(number.into()));
    }
    for number in 0..RESERVATIONS {
        // In another order than they were made.
        let number = number * 37 % RESERVATIONS;
        clock.advance(Duration::from_millis(number * 113 % 9_000));
        spend(number % 5, Intent::Spend, PermitId::NONE);
        let demand = demand(cost(number));
        let settlement = Settlement::new(demand.as_demand(), number % 7);
        let ending = Ending::new(PermitId::new(number.into()), ReservationEnd::Settled);
        for store in stores {
            let settled = store.settle(&[settlement], ending);
            let replies = runtime.block_on(settled).expect("a reply");
            assert_eq!(replies[0].kind, SettlementKind::Reserved);
        }
        spend(0, Intent::Peek, PermitId::NONE);
    }
}

/// Garbage at any of the keys of a limit: the call that finds it is denied, whatever the failure
/// policy, and the counter begins again, empty. A shadow limit never denies.
#[test]
fn a_malformed_key_denies_one_call_and_heals() {
    let garbage: [&[&str]; 4] = [
        &["SET", "garbage"],
        &["SET", "24 bytes of other things"],
        &["HSET", "not", "ours"],
        &["RPUSH", "garbage", "more garbage"],
    ];
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Valkey));
    let limits = every_algorithm().into_iter().map(|limit| {
        let limit = limit.on_store_failure(FailurePolicy::Allow);
        limit.on_reservation_expiry(ReservationExpiry::Release)
    });
    let limits: Vec<Limit> = limits.collect();
    let lockout = Lockout::new(2, MINUTE, MINUTE).expect("a valid lockout");
    let login = Limit::fixed_window("login", 1, MINUTE).lockout(lockout);
    let names: Vec<String> = limits.iter().map(|limit| limit.name().to_owned()).collect();
    let store = common::standalone(&runtime, &server);
    let limiter = Limiter::new(store, limits.into_iter().chain([login])).expect("valid limits");

    let mut seen = 0;
    for (name, words) in names
        .iter()
        .flat_map(|name| garbage.map(|words| (name, words)))
    {
        runtime.block_on(async {
            drop(limiter.reserve(name, "ann").await.expect("available"));
            drop(limiter.check("login", "ann").cost(1).await);
            drop(limiter.check("login", "ann").cost(1).await);
        });
        for key in server.keys() {
            let key = String::from_utf8(key).expect("text");
            server.command(&["DEL", &key]);
            server.command(&[&[words[0], &key], &words[1..]].concat());
            let is_login = key.contains("login");
            let name = if is_login { "login" } else { name };

            let check = || runtime.block_on(async { limiter.reserve(name, "ann").await });
            let found = check().expect("available");
            if found.decision().refusal() == Some(Refusal::Malformed) {
                seen += 1;
                assert!(check().expect("available").is_allowed(), "{key} heals");
            }
        }
        server.command(&["FLUSHALL"]);
    }
    assert!(seen > 40, "{seen}");
    assert_eq!(limiter.health().degraded_allowed, 0);
}

/// What a call does is bounded, however many reservations of its counter are open or have expired:
/// one caller who makes many must not delay the calls of others.
#[test]
fn a_call_does_the_same_work_however_many_reservations_there_are() {
    const RESERVATIONS: u128 = 15_000;
    let runtime = common::runtime();
    let server = Server::start(Flavor::Redis);
    let clock = ManualClock::default();
    let builder = RedisBuilder::standalone(server.url()).timeout(common::PATIENT);
    let store = common::connected(&runtime, builder.manual_time(clock.clone()));
    let limits = [
        Limit::token_bucket("bucket", 1_000_000, Rate::per_minute(1_000)),
        Limit::fixed_window("fixed", 1_000_000, 2 * 60 * MINUTE),
        Limit::sliding_log("log", 1_000_000, 2 * 60 * MINUTE),
    ];
    let rules = limits.map(|limit| {
        let limit = limit.on_reservation_expiry(ReservationExpiry::Release);
        limit.validate().expect("a valid limit")
    });
    let spend = async |rule: &Rule, intent, id: u128| {
        let demand = DemandBuf::new(rule, "ann", 1).expect("a valid key");
        let spent = store.spend(&[demand.as_demand()], intent, PermitId::new(id));
        spent.await.expect("the server is available")
    };
    // All commands so far, including those of scripts.
    let commands = || {
        let stats = server.command(&["INFO", "commandstats"]);
        let text = stats.as_str().expect("text").to_owned();
        let calls = text.lines().filter_map(|line| {
            let (_, rest) = line.split_once("calls=")?;
            rest.split_once(',')?.0.parse::<u64>().ok()
        });
        calls.sum::<u64>()
    };

    for rule in &rules {
        for id in 0..RESERVATIONS {
            let ttl = Micros::from_secs(60 + u64::try_from(id).expect("a small number") % 600);
            runtime.block_on(spend(rule, Intent::Reserve { ttl }, id));
            clock.advance(Duration::from_micros(10));
        }
        for (step, id) in [(0, 1), (60, 2), (600, 3), (600, 4)] {
            clock.advance(Duration::from_secs(step));
            let ttl = Micros::from_secs(60);
            let intents = [
                Intent::Peek,
                Intent::Inspect,
                Intent::Spend,
                Intent::Reserve { ttl },
            ];
            for intent in intents {
                let before = commands();
                runtime.block_on(spend(rule, intent, RESERVATIONS + id));
                let used = commands() - before;
                assert!(used < 800, "{used} commands for {intent:?} after {step} s");
            }
        }
    }
}
