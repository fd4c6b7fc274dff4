//! Opening a store: `connect` waits until it can decide, or says what is wrong.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use testkit::servers::{Cluster, Flavor, Server};
use tollgate::{Limit, Limiter};
use tollgate_redis::{RedisBuilder, RedisConfigError, RedisConnectError, RedisStore};

use crate::common::{self, FLAVORS};

const SECRET: &str = "correct-horse-battery-staple";

/// Why a store on this endpoint cannot be used.
fn refusal(url: &str) -> String {
    let connected = common::runtime().block_on(RedisStore::connect(url));
    let error = connected.expect_err("the store cannot be used");
    assert!(
        matches!(error, RedisConnectError::Unusable { .. }),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        !text.contains("hunter2") && !text.contains(SECRET),
        "{text}"
    );
    let reason = text.strip_prefix("cannot use the store: ");
    reason.expect("the error says what it is about").to_owned()
}

#[test]
fn a_connected_store_decides_its_first_request() {
    let runtime = common::runtime();
    for flavor in FLAVORS {
        let server = Server::start(flavor);
        let cluster = Cluster::start(flavor, 3, 0);
        for builder in [
            RedisBuilder::standalone(server.url()),
            RedisBuilder::cluster(cluster.urls()),
        ] {
            let builder = builder.timeout(common::PATIENT);
            let store = runtime.block_on(builder.connect()).expect("a usable store");
            assert!(store.is_ready());
            let limit = Limit::fixed_window("api", 1, Duration::from_mins(1));
            let limiter = Limiter::new(store, [limit]).expect("the limits are valid");
            let decision = runtime.block_on(async { limiter.check("api", "ann").await });
            assert!(!decision.expect("a decision").is_degraded());
        }
    }
}

#[test]
fn a_wrong_password_is_said_in_words() {
    for flavor in FLAVORS {
        let server = Server::builder(flavor).password(SECRET).start();
        let address = server.addr();
        let missing = refusal(&format!("redis://{address}"));
        let expected = format!(
            "{address}: the server requires a password and none is configured; write it into the \
             endpoint, as in redis://user:password@host:6379"
        );
        assert!(missing.starts_with(&expected), "{missing}");

        let wrong = refusal(&format!("redis://:hunter2@{address}"));
        let expected = format!("{address}: the server does not accept the user or the password");
        assert!(
            wrong.starts_with(&expected) && wrong.contains("WRONGPASS"),
            "{wrong}"
        );

        let open = Server::start(flavor);
        let unneeded = refusal(&format!("redis://:hunter2@{}", open.addr()));
        assert!(
            unneeded.contains("the server requires none; remove it"),
            "{unneeded}"
        );

        let rules = "+script|load +ping +info +del ~tollgate:*";
        let server = Server::builder(flavor)
            .user("limiter", SECRET, rules)
            .start();
        let forbidden = refusal(&server.url());
        assert!(
            forbidden.contains("lacks a permission; grant what"),
            "{forbidden}"
        );
        assert!(forbidden.contains("NOPERM"), "{forbidden}");
    }
}

#[test]
fn an_unreachable_server_is_said_in_words() {
    let unknown = refusal("redis://no-such-host.invalid");
    let expected = "cannot find the host \"no-such-host.invalid\" of the endpoint";
    assert!(unknown.starts_with(expected), "{unknown}");

    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = port.expect("a free port");
    let refused = refusal(&format!("redis://{address}"));
    let expected = format!("cannot connect to {address}: Connection refused");
    assert!(refused.starts_with(&expected), "{refused}");
    assert!(
        refused.contains("no server listens there: start it"),
        "{refused}"
    );

    // Accepts connections by its backlog, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let silent = refusal(&format!("redis://{address}"));
    assert_eq!(
        silent,
        format!(
            "connecting to {address} timed out after 200ms; check that the address is right and \
             no firewall drops its packets"
        )
    );
}

#[test]
fn a_server_of_another_protocol_is_recognized() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // The client may have closed the connection.
            let _read = stream.read(&mut [0; 1_024]);
            let _written = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let error = refusal(&format!("redis://{address}"));
    assert!(error.contains("not in the Redis protocol"), "{error}");

    // On Redis only: the packaged Valkey is built without TLS.
    let tls = Server::builder(Flavor::Redis).tls().start();
    let plain = refusal(&tls.url().replace("rediss://", "redis://"));
    assert!(
        plain.contains("rediss://") || plain.contains("Redis protocol"),
        "{plain}"
    );
    let untrusted = common::runtime().block_on(RedisStore::connect(tls.url()));
    match untrusted.expect_err("the certificate is not trusted") {
        RedisConnectError::Config(RedisConfigError::Tls { .. }) => {}
        error => assert!(
            error.to_string().contains("TLS handshake failed"),
            "{error}"
        ),
    }
}

#[test]
fn connecting_warns_about_a_server_that_may_forget_counters() {
    let runtime = common::runtime();
    let evicting = Server::builder(Flavor::Redis)
        .config("maxmemory", "8mb")
        .config("maxmemory-policy", "allkeys-lru")
        .start();
    let store = runtime.block_on(RedisBuilder::standalone(evicting.url()).connect());
    let warnings = store.expect("a usable store").warnings();
    assert!(
        warnings[0].contains("evicts keys when its memory is full"),
        "{warnings:?}"
    );

    // As on managed servers.
    let rules = "+@all -info ~tollgate:*";
    let managed = Server::builder(Flavor::Redis)
        .user("limiter", SECRET, rules)
        .start();
    let store = runtime.block_on(RedisBuilder::standalone(managed.url()).connect());
    let warnings = store.expect("a usable store").warnings();
    assert!(
        warnings[0].contains("cannot find out whether"),
        "{warnings:?}"
    );
}

/// A server of a cluster has some of the counters, and refuses calls about the others.
#[test]
fn a_server_of_a_cluster_is_not_taken_for_a_single_one() {
    for flavor in FLAVORS {
        let cluster = Cluster::start(flavor, 3, 0);
        for node in cluster.nodes() {
            let error = refusal(&node.url());
            assert!(error.contains("part of a cluster"), "{error}");
            assert!(error.contains("RedisBuilder::cluster"), "{error}");
        }

        common::runtime().block_on(async {
            let store = RedisStore::connect_lazy(cluster.nodes()[0].url());
            let store = store.expect("the settings are valid");
            common::eventually("a warning", async || {
                let warnings = store.warnings();
                warnings
                    .iter()
                    .any(|text| text.contains("part of a cluster"))
            })
            .await;
            let limit = Limit::fixed_window("api", 1, Duration::from_mins(1));
            let limiter = Limiter::new(store, [limit]).expect("the limits are valid");
            let decision = limiter.check("api", "ann").await.expect("a decision");
            assert!(decision.is_degraded());
        });
    }
}

/// A user may have a limit `probe`, whose counters survive the start of another replica.
#[test]
fn connecting_changes_no_counter() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    runtime.block_on(async {
        let builder = RedisBuilder::standalone(server.url()).timeout(common::PATIENT);
        let store = builder.clone().connect().await.expect("a usable store");
        let limit = Limit::fixed_window("probe", 1, Duration::from_secs(1_000_000));
        let limiter = Limiter::new(store, [limit]).expect("the limits are valid");
        let check = || async { limiter.check("probe", "probe").await.expect("a decision") };
        assert!(check().await.is_allowed());
        builder.connect().await.expect("a usable store");
        assert!(!check().await.is_allowed(), "the counter was reset");
    });
}
