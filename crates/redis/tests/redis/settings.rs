//! Getting in: TLS, users, passwords, databases; and never telling a password.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use testkit::servers::{Flavor, Server};
use tollgate::{Limit, Limiter};
use tollgate_redis::{RedisBuilder, RedisConfigError, RedisStore};

use crate::common;

const SECRET: &str = "correct-horse-battery-staple";

fn decides(runtime: &tokio::runtime::Runtime, store: RedisStore) -> bool {
    let limiter = Limiter::new(
        store,
        [Limit::fixed_window("api", 1, Duration::from_mins(1))],
    );
    runtime.block_on(async {
        let first = limiter
            .check("api", "ann")
            .await
            .expect("failure policies decide");
        let second = limiter
            .check("api", "ann")
            .await
            .expect("failure policies decide");
        !first.is_degraded() && first.is_allowed() && !second.is_allowed()
    })
}

/// On Redis alone: the Valkey that can be had as a package is built without TLS.
#[test]
fn tls_with_a_ca_of_ones_own() {
    let (runtime, server) = (
        common::runtime(),
        Server::builder(Flavor::Redis).tls().start(),
    );
    let builder = RedisBuilder::standalone(server.url()).timeout(common::PATIENT);
    let trusting = builder
        .clone()
        .connect_timeout(common::PATIENT)
        .ca_pem(server.ca_pem());
    assert!(decides(&runtime, common::connected(&runtime, trusting)));

    // Without it the certificate is nobody's.
    let _inside = runtime.enter();
    match builder.build() {
        Ok(wary) => assert!(!runtime.block_on(wary.ready(Duration::from_millis(300)))),
        Err(error) => assert!(matches!(error, RedisConfigError::Tls { .. }), "{error}"),
    }
}

#[test]
fn users_and_passwords() {
    let runtime = common::runtime();
    for flavor in common::FLAVORS {
        let server = Server::builder(flavor).password(SECRET).start();
        assert!(decides(&runtime, common::standalone(&runtime, &server)));
        // All that the store needs.
        let rules = "+evalsha +eval +script|load +ping +del +get +set +time +lrange +lindex +lset +ltrim +lpush +rpush +rpop \
                     +pexpire +zadd +zmscore +zscore +zrem +zrange +zrangebyscore +zrevrange +zremrangebyscore ~tollgate:*";
        let server = Server::builder(flavor)
            .user("limiter", SECRET, rules)
            .start();
        assert!(decides(&runtime, common::standalone(&runtime, &server)));
        uses_everything(&runtime, common::standalone(&runtime, &server));
    }
}

/// Logs and leases, which need the most commands: taken, refused, given back and forgotten.
fn uses_everything(runtime: &tokio::runtime::Runtime, store: RedisStore) {
    let minute = Duration::from_mins(1);
    let limits = [
        Limit::sliding_log("log", 3, minute),
        Limit::concurrency("places", 3, minute),
    ];
    let limiter = Limiter::new(store, limits);
    runtime.block_on(async {
        for limit in ["log", "places"] {
            let held = limiter
                .check(limit, "ann")
                .cost(2)
                .await
                .expect("failure policies decide");
            let refused = limiter
                .check(limit, "ann")
                .cost(2)
                .await
                .expect("failure policies decide");
            assert!(held.is_allowed() && !held.is_degraded(), "{held:?}");
            assert!(
                !refused.is_allowed() && !refused.is_degraded(),
                "{refused:?}"
            );
            if let Some(lease) = held.permit_id() {
                assert!(
                    limiter
                        .release(limit, "ann", lease)
                        .await
                        .expect("the user has the permission")
                );
            } else {
                limiter
                    .refund(limit, "ann")
                    .cost(1)
                    .await
                    .expect("the user has the permission");
                limiter
                    .refund(limit, "ann")
                    .cost(1)
                    .await
                    .expect("the user has the permission");
            }
            limiter
                .reset(limit, "ann")
                .await
                .expect("the user has the permission");
        }
    });
}

#[test]
fn databases() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let store = |path: &str| {
        let builder = RedisBuilder::standalone(format!("{}{path}", server.url()));
        common::connected(&runtime, builder.timeout(common::PATIENT))
    };
    assert!(decides(&runtime, store("/3")));
    assert!(
        decides(&runtime, store("/4")),
        "another database has other counters"
    );
    let server_says = server.command(&["INFO", "keyspace"]);
    let keyspace = server_says.as_str().expect("text");
    assert!(
        keyspace.contains("db3:keys=1") && keyspace.contains("db4:keys=1"),
        "{keyspace}"
    );
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let runtime = common::runtime();
    let refused = |builder: RedisBuilder| {
        let _inside = runtime.enter();
        builder
            .build()
            .expect_err("these settings are wrong")
            .to_string()
    };
    let one = || RedisBuilder::standalone("redis://127.0.0.1");
    assert!(refused(RedisBuilder::cluster(Vec::<String>::new())).contains("at least one"));
    assert!(
        refused(RedisBuilder::cluster(["redis://a/1"])).contains("must be 0, the only database")
    );
    assert!(refused(RedisBuilder::cluster(["redis://a", "rediss://b"])).contains("differ in TLS"));
    assert!(
        refused(RedisBuilder::cluster(["redis://a:b@c", "redis://d"])).contains("user or password")
    );
    assert!(refused(one().prefix("a{b}")).contains("without { and }"));
    assert!(
        refused(one().timeout(Duration::ZERO))
            .contains("timeout 0ns is out of range: must be between 1ms and 10s")
    );
    assert!(
        refused(one().connect_timeout(Duration::from_hours(1))).contains("between 10ms and 60s")
    );
    assert!(refused(RedisBuilder::standalone("redis://h:x")).contains("port"));
    let outside = RedisBuilder::standalone("redis://127.0.0.1")
        .build()
        .expect_err("there is no runtime");
    assert_eq!(outside, RedisConfigError::NoRuntime);
}

/// Everything the store says, by logs, errors and Debug, while its password is refused, accepted
/// and refused again.
#[test]
fn a_password_is_never_told() {
    let (runtime, server) = (
        common::runtime(),
        Server::builder(Flavor::Redis).password(SECRET).start(),
    );
    let heard = Arc::new(Mutex::new(String::new()));
    let listener = common::Listener::new(heard.clone());
    tracing::subscriber::set_global_default(listener)
        .expect("this process runs one test, or listens only here");
    let wrong = server.url().replace(SECRET, "another-secret");
    let mut told = Vec::new();
    for url in [wrong, server.url()] {
        let builder = RedisBuilder::standalone(&url).timeout(common::PATIENT);
        told.push(format!("{builder:?}"));
        let _inside = runtime.enter();
        let store = builder.build().expect("the settings are valid");
        runtime.block_on(store.ready(Duration::from_millis(300)));
        told.push(format!("{store:?} {:?}", store.stats()));
        let limiter = Limiter::new(
            store,
            [Limit::fixed_window("api", 1, Duration::from_mins(1))],
        );
        let decision = runtime.block_on(async { limiter.check("api", "ann").await });
        let refund = runtime.block_on(async { limiter.refund("api", "ann").await });
        told.push(format!("{limiter:?} {decision:?} {refund:?}"));
        if let Err(error) = refund {
            told.push(chain(&error));
        }
    }
    told.push(heard.lock().expect("no listener panics").clone());
    let told = told.join(" ");
    assert!(told.contains("WRONGPASS"), "the refusal is told: {told}");
    assert!(
        !told.contains(SECRET) && !told.contains("another-secret"),
        "{told}"
    );
}

/// An error and all that caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(|cause| format!("{cause} {cause:?}"))
        .collect::<Vec<_>>()
        .join(" <- ")
}
