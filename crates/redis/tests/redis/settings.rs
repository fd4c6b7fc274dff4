//! Settings of a store: TLS, users, passwords and databases. Passwords are never shown.

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
    )
    .expect("the limits are valid");

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

/// On Redis only: the packaged Valkey is built without TLS.
#[test]
fn tls_with_a_private_ca() {
    let (runtime, server) = (
        common::runtime(),
        Server::builder(Flavor::Redis).tls().start(),
    );
    let builder = RedisBuilder::standalone(server.url()).timeout(common::PATIENT);
    let with_ca = builder
        .clone()
        .connect_timeout(common::PATIENT)
        .ca_pem(server.ca_pem());
    assert!(decides(&runtime, common::connected(&runtime, with_ca)));

    // Without the CA the certificate is not trusted.
    let _guard = runtime.enter();
    match builder.build() {
        Ok(store) => assert!(!runtime.block_on(store.ready(Duration::from_millis(300)))),
        Err(error) => assert!(matches!(error, RedisConfigError::Tls { .. }), "{error}"),
    }
}

#[test]
fn users_and_passwords() {
    let runtime = common::runtime();
    for flavor in common::FLAVORS {
        let server = Server::builder(flavor).password(SECRET).start();
        assert!(decides(&runtime, common::standalone(&runtime, &server)));

        // All commands that the store needs.
        let rules = "+evalsha +eval +script|load +ping +unlink +get +set +time +llen +lrange +lindex \
                     +lset +lrem +ltrim +lpush +rpush +pexpire +zadd +zmscore +zscore +zrem \
                     +zrangebyscore +zrevrange +zrevrangebyscore +hget +hset +hdel +hscan +del \
                     +zcount +pttl ~tollgate:*";
        let server = Server::builder(flavor)
            .user("limiter", SECRET, rules)
            .start();
        assert!(decides(&runtime, common::standalone(&runtime, &server)));
        use_all_commands(&runtime, common::standalone(&runtime, &server));
    }
}

/// Uses sliding logs and permits, which need the most commands: spend, denial, refund or release,
/// and reset.
fn use_all_commands(runtime: &tokio::runtime::Runtime, store: RedisStore) {
    let minute = Duration::from_mins(1);
    let limits = [
        Limit::sliding_log("log", 3, minute),
        Limit::concurrency("permits", 3, minute),
    ];
    let limiter = Limiter::new(store, limits).expect("the limits are valid");

    runtime.block_on(async {
        for limit in ["log", "permits"] {
            let allowed = limiter
                .check(limit, "ann")
                .cost(2)
                .await
                .expect("failure policies decide");
            let denied = limiter
                .check(limit, "ann")
                .cost(2)
                .await
                .expect("failure policies decide");
            assert!(
                allowed.is_allowed() && !allowed.is_degraded(),
                "{allowed:?}"
            );
            assert!(!denied.is_allowed() && !denied.is_degraded(), "{denied:?}");
            if let Some(permit_id) = allowed.permit_id() {
                assert!(
                    limiter
                        .release(limit, "ann", permit_id)
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

    for database in ["3", "4"] {
        let mut client = server.client();
        assert!(
            client
                .call(&["SELECT", database])
                .expect("a reply")
                .error()
                .is_none()
        );
        let keys = client.call(&["KEYS", "*api*"]).expect("a reply");
        assert_eq!(keys.items().len(), 1, "{keys:?}");
    }
}

#[test]
fn invalid_settings_are_errors() {
    let runtime = common::runtime();
    let error = |builder: RedisBuilder| {
        let _guard = runtime.enter();
        builder
            .build()
            .expect_err("the settings are invalid")
            .to_string()
    };
    let one = || RedisBuilder::standalone("redis://127.0.0.1");

    assert!(error(RedisBuilder::cluster(Vec::<String>::new())).contains("at least one"));
    assert!(error(RedisBuilder::cluster(["redis://a/1"])).contains("must be 0, the only database"));
    assert!(error(RedisBuilder::cluster(["redis://a", "rediss://b"])).contains("differ in TLS"));
    assert!(
        error(RedisBuilder::cluster(["redis://a:b@c", "redis://d"])).contains("user or password")
    );
    assert!(error(one().prefix("a{b}")).contains("without { and }"));
    assert!(
        error(one().timeout(Duration::ZERO))
            .contains("timeout 0ns is out of range: must be between 1ms and 10s")
    );
    assert!(error(one().connect_timeout(Duration::from_hours(1))).contains("between 10ms and 60s"));
    assert!(error(RedisBuilder::standalone("redis://h:x")).contains("port"));

    let outside = RedisBuilder::standalone("redis://127.0.0.1")
        .build()
        .expect_err("there is no runtime");
    assert_eq!(outside, RedisConfigError::NoRuntime);
}

/// Collects logs, errors and `Debug` output, with a wrong password and with the right one.
#[test]
fn a_password_is_never_shown() {
    let (runtime, server) = (
        common::runtime(),
        Server::builder(Flavor::Redis).password(SECRET).start(),
    );
    let log = Arc::new(Mutex::new(String::new()));
    let recorder = common::LogRecorder::new(log.clone(), tracing::Level::TRACE);

    tracing::subscriber::set_global_default(recorder)
        .expect("no other test of this process sets a subscriber");
    let wrong = server.url().replace(SECRET, "another-secret");
    let mut output = Vec::new();
    for url in [wrong, server.url()] {
        let builder = RedisBuilder::standalone(&url).timeout(common::PATIENT);
        output.push(format!("{builder:?}"));
        let _guard = runtime.enter();
        let store = builder.build().expect("the settings are valid");
        runtime.block_on(store.ready(Duration::from_millis(300)));
        output.push(format!("{store:?} {:?}", store.stats()));
        let limiter = Limiter::new(
            store,
            [Limit::fixed_window("api", 1, Duration::from_mins(1))],
        )
        .expect("the limits are valid");
        let decision = runtime.block_on(async { limiter.check("api", "ann").await });
        let refund = runtime.block_on(async { limiter.refund("api", "ann").await });
        output.push(format!("{limiter:?} {decision:?} {refund:?}"));
        if let Err(error) = refund {
            output.push(chain(&error));
        }
    }
    output.push(log.lock().expect("the lock is not poisoned").clone());

    let output = output.join(" ");
    assert!(output.contains("WRONGPASS"), "the error is shown: {output}");
    assert!(
        !output.contains(SECRET) && !output.contains("another-secret"),
        "{output}"
    );
}

/// An error and all of its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(|cause| format!("{cause} {cause:?}"))
        .collect::<Vec<_>>()
        .join(" <- ")
}
