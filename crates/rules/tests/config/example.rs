//! Checks every part of the example configuration.

use std::num::NonZeroU32;
use std::time::Duration;

use tollgate::{
    Calendar, Consistency, FailurePolicy, FixedWindow, Limit, Quota, Rate, TokenBucket,
};
use tollgate_rules::config::{
    AccessConfig, AccessToken, RedisConfig, RedisTopology, ServerConfig, StoreConfig, TlsConfig,
};
use tollgate_rules::{Config, Cost, LimitConfig, Pattern, Permission, TokenHash};

use super::{EXAMPLE, PASSWORD, SECRET, env, one_limit, parse, with_limit};

fn example() -> Config {
    parse(EXAMPLE).unwrap_or_else(|error| panic!("{error}"))
}

fn named(config: &Config, name: &str) -> LimitConfig {
    config
        .limits
        .iter()
        .find(|rule| rule.rule.name().as_str() == name)
        .unwrap()
        .clone()
}

fn quota(limit: &Limit) -> Quota {
    *limit.validate().unwrap().quota()
}

/// A key as in the file.
fn key(rule: &LimitConfig) -> Vec<String> {
    rule.key.part_names()
}

/// The conditions of a limit as text.
fn conditions(rule: &LimitConfig) -> Vec<String> {
    let text = |pattern: &Pattern| match pattern {
        Pattern::Exact(text) => text.to_string(),
        Pattern::Glob(glob) => glob.to_string(),
    };
    let condition = |condition: &tollgate_rules::Condition| {
        let patterns: Vec<_> = condition.any_of.iter().map(text).collect();
        format!("{} = {}", condition.attribute, patterns.join(" or "))
    };
    rule.conditions.iter().map(condition).collect()
}

#[test]
fn the_store_is_a_cluster() {
    let url = |host| format!("redis://limiter:{PASSWORD}@{host}:6379");
    let expected = StoreConfig::Redis(RedisConfig {
        topology: RedisTopology::Cluster,
        endpoints: vec![url("redis-1"), url("redis-2")],
        prefix: "tollgate:prod:".into(),
        timeout: Duration::from_millis(10),
        decision_timeout: Duration::from_millis(100),
        connect_timeout: Duration::from_millis(200),
        max_retries: 1,
    });
    let config = example();

    assert_eq!(config.store, expected);
    assert_eq!(config.expected_replicas, NonZeroU32::new(3).unwrap());
}

#[test]
fn clients_and_hashing_are_read() {
    let config = example();
    let trusts = |address: &str| config.clients.trusts(address.parse().unwrap());
    assert!(trusts("127.0.0.1") && trusts("10.1.2.3") && !trusts("192.0.2.1"));
    assert_eq!(
        config
            .clients
            .group("2001:db8:1:2:3::4".parse().unwrap())
            .to_string(),
        "2001:db8:1:2::"
    );

    let hashing = config.hashing.unwrap();
    let names: Vec<_> = hashing
        .attributes
        .iter()
        .map(tollgate_rules::Attribute::name)
        .collect();
    assert_eq!(names, ["header:x-api-key", "header:authorization"]);
    let hasher = tollgate::KeyHasher::new(super::SECRET.as_bytes()).unwrap();
    assert_eq!(hashing.hasher.hash(b"k"), hasher.hash(b"k"));
}

#[test]
fn the_limits_have_their_quotas() {
    let config = example();
    let minute = Duration::from_secs(60);

    for (name, same) in [
        ("ip-safety-net", Limit::sliding_window("x", 600, minute)),
        ("plan", Limit::token_bucket("x", 100, Rate::per_second(10))),
        ("login", Limit::sliding_log("x", 20, 15 * minute)),
        ("login-account", Limit::sliding_log("x", 5, 15 * minute)),
        ("reports", Limit::token_bucket("x", 5, Rate::per_minute(6))),
        ("downstream", Limit::queue("x", 50, Rate::per_second(20))),
        ("quota", Limit::calendar_window("x", 100_000, Calendar::Day)),
        (
            "in-flight",
            Limit::concurrency("x", 20, Duration::from_secs(30)),
        ),
    ] {
        assert_eq!(*named(&config, name).rule.quota(), quota(&same), "{name}");
    }

    assert_eq!(config.limits.len(), 8);
}

#[test]
fn the_limits_have_their_keys_and_conditions() {
    let config = example();
    let rule = |name| named(&config, name);

    assert_eq!(key(&rule("ip-safety-net")), ["client_ip"]);
    assert_eq!(key(&rule("plan")), ["header:x-api-key | client_ip"]);
    assert_eq!(key(&rule("login")), ["client_ip"]);
    assert_eq!(key(&rule("login-account")), ["lower(email)"]);
    assert!(key(&rule("downstream")).is_empty());
    assert!(conditions(&rule("quota")).is_empty());
    assert_eq!(conditions(&rule("plan")), ["path = /v1/**"]);

    for name in ["login", "login-account"] {
        assert_eq!(
            conditions(&rule(name)),
            ["method = POST", "path = /auth/login"]
        );
    }

    assert_eq!(
        rule("reports").cost,
        Some(Cost {
            tokens: Vec::new(),
            attribute: Some("report_pages".parse().unwrap()),
            default: 1
        })
    );

    for rule in &config.limits {
        let optional = ["login-account", "reports", "quota", "in-flight"];
        assert_eq!(rule.optional, optional.contains(&rule.rule.name().as_str()));
    }
}

#[test]
fn the_plan_has_tiers() {
    let tiers = named(&example(), "plan").tiers.unwrap();
    assert_eq!((tiers.by.name(), &*tiers.default), ("tier", "free"));

    let bucket =
        |capacity, rate| Quota::from(TokenBucket::new(capacity, Rate::per_second(rate)).unwrap());
    let expected = [
        ("enterprise", bucket(10_000, 1_000)),
        ("free", bucket(100, 10)),
        ("pro", bucket(1_000, 100)),
    ];
    let found: Vec<_> = tiers
        .quotas
        .iter()
        .map(|(name, quota)| (&**name, *quota))
        .collect();

    assert_eq!(found, expected);
}

#[test]
fn the_policies_are_set_or_default() {
    let config = example();
    let rule = |name| named(&config, name).rule;
    for name in ["login", "login-account"] {
        assert_eq!(rule(name).on_store_failure(), FailurePolicy::Deny);
    }
    assert_eq!(rule("plan").on_store_failure(), FailurePolicy::Allow);
    assert!(rule("quota").is_shadow() && !rule("plan").is_shadow());
    assert_eq!(rule("ip-safety-net").consistency(), Consistency::Leased);
    assert_eq!(rule("plan").consistency(), Consistency::Strict);
}

#[test]
fn headers_and_alerts_are_read() {
    let config = example();
    assert!(config.headers.ietf && config.headers.legacy && config.headers.retry_after);
    assert_eq!(config.monitoring.metrics_prefix, "tollgate");
    assert_eq!(config.monitoring.deny_ratio, Some(0.8));
    assert_eq!(
        config.monitoring.latency_p99,
        Some(Duration::from_millis(10))
    );
    assert_eq!(config.server, ServerConfig::default());
}

#[test]
fn warnings_have_positions() {
    assert_eq!(
        example().warnings,
        [
            "t.yaml:25:33: hash_keys[1]: no limit's key uses this attribute, \
             so hashing it has no effect",
            "t.yaml:45:11: limits[plan].tier: forward-auth never has `tier`, so the tier is always \
             `free` there; use a header that your proxy sets and clients cannot, such as \
             `by: header:x-tier`",
        ]
    );
}

/// Replaces each value of the example by an invalid one. Each must be reported.
#[test]
fn every_field_of_the_example_is_read() {
    for (number, line) in EXAMPLE.lines().enumerate() {
        let code = line.split(" #").next().unwrap_or_default();
        let Some((name, value)) = code.rsplit_once(": ") else {
            continue;
        };
        if code.trim_start().starts_with('#') || value.trim().is_empty() {
            continue;
        }
        let closing = if value.trim_end().ends_with('}') {
            " }"
        } else {
            ""
        };
        let mut lines: Vec<_> = EXAMPLE.lines().map(str::to_owned).collect();
        lines[number] = format!("{name}: {{ nonsense: 1 }}{closing}");
        let errors = Config::parse(&lines.join("\n"), "t.yaml", &env).unwrap_err();
        assert!(
            errors.iter().any(|error| error.line == number + 1),
            "line {}: {line}\n{errors}",
            number + 1
        );
    }
}

#[test]
fn the_built_in_configuration_has_one_limit_per_address() {
    let config = Config::built_in();
    assert_eq!(
        config.store,
        StoreConfig::Memory {
            keys_max: 1_000_000,
            snapshot: None,
        }
    );

    let [rule] = config.limits.as_slice() else {
        panic!("{:?}", config.limits)
    };
    assert_eq!(rule.rule.name().as_str(), "default");
    assert_eq!(
        *rule.rule.quota(),
        quota(&Limit::sliding_window("x", 100, Duration::from_secs(60)))
    );
    assert_eq!(key(rule), ["client_ip"]);
}

#[test]
fn absent_fields_have_their_defaults() {
    let config = with_limit("store: { type: redis, endpoints: [\"redis://h\"] }").unwrap();
    let StoreConfig::Redis(redis) = config.store else {
        panic!("{:?}", config.store)
    };

    assert_eq!(
        (redis.prefix.as_str(), redis.timeout),
        ("tollgate:", Duration::from_millis(10))
    );
    assert_eq!(redis.decision_timeout, Duration::from_millis(100));
    let slow = r#"store: { type: redis, endpoints: ["redis://h"], timeout: 300ms }"#;
    let StoreConfig::Redis(slow) = with_limit(slow).unwrap().store else {
        panic!("the store is Redis")
    };
    assert_eq!(slow.decision_timeout, Duration::from_millis(600));
    assert_eq!(
        (redis.connect_timeout, redis.max_retries),
        (Duration::from_millis(200), 1)
    );
    assert_eq!(config.expected_replicas, NonZeroU32::MIN);
    assert!(
        config.hashing.is_none()
            && config.monitoring.tracing.is_none()
            && config.warnings.is_empty()
    );
}

/// Who may use the ports by the configuration below.
fn access() -> AccessConfig {
    let token = |name: &str, token: &str, permissions: &[Permission]| AccessToken {
        name: name.into(),
        hash: TokenHash::from_token(token).unwrap(),
        permissions: permissions.iter().copied().collect(),
    };
    AccessConfig {
        tls: Some(TlsConfig {
            cert: "a.crt".into(),
            key: "a.key".into(),
            client_ca: Some("ca.crt".into()),
        }),
        tokens: vec![
            token(
                "shop",
                "correct-horse-battery",
                &[Permission::Check, Permission::Refund],
            ),
            token(
                "old",
                SECRET,
                &[Permission::Check, Permission::Peek, Permission::Release],
            ),
        ],
        allowed_origins: vec!["https://app.example:8443".into()],
        allowed_hosts: vec!["limits.internal".into()],
    }
}

#[test]
fn the_other_sections_are_read() {
    let text = "
server:
  { connections_max: 7, body_max: 1MiB, header_timeout: 1s, idle_timeout: 2s,
    drain_timeout: 3s, in_flight_max: 9,
    tls: { cert: a.crt, key: a.key, client_ca: ca.crt },
    allowed_origins: [\"https://App.example:8443\"], allowed_hosts: [Limits.internal],
    tokens: [{ name: shop, token: correct-horse-battery, allow: [check, refund] },
      { name: old, token: \"${TOLLGATE_HASH_SECRET}\" }] }
monitoring: { tracing: { otlp_endpoint: \"http://127.0.0.1:4317\", sample_ratio: 0.5 } }
client_ip: { header: forwarded, ipv6_prefix: 56 }
store: { type: redis-sentinel, master: mymaster, endpoints: [\"redis://a\", \"redis://b\"] }
";
    let config = with_limit(text).unwrap();
    let seconds = Duration::from_secs;
    let server = ServerConfig {
        connections_max: 7,
        body_max: 1 << 20,
        header_timeout: seconds(1),
        idle_timeout: seconds(2),
        drain_timeout: seconds(3),
        in_flight_max: 9,
        access: access(),
    };

    assert_eq!(config.server, server);

    let tracing = config.monitoring.tracing.unwrap();
    assert_eq!(
        (tracing.otlp_endpoint.as_str(), tracing.sample_ratio),
        ("http://127.0.0.1:4317", 0.5)
    );

    let StoreConfig::Redis(redis) = config.store else {
        panic!("{:?}", config.store)
    };
    assert_eq!(
        redis.topology,
        RedisTopology::Sentinel {
            master: "mymaster".into()
        }
    );
}

#[test]
fn all_fields_of_a_limit_are_read() {
    let month = one_limit(
        "algorithm: fixed_window, align: clock, limit: 1_000, window: 1 month, cost: 3, \
         optional: true",
    );
    let rule = named(&month.unwrap(), "a");
    assert_eq!(
        *rule.rule.quota(),
        FixedWindow::aligned(1_000, Calendar::Month).unwrap().into()
    );
    assert_eq!(
        rule.cost,
        Some(Cost {
            tokens: Vec::new(),
            attribute: None,
            default: 3
        })
    );
    assert!(rule.optional);

    let local =
        one_limit("algorithm: leaky_bucket, capacity: 5, leak_rate: 1/10s, consistency: local")
            .unwrap();
    let rule = named(&local, "a").rule;
    assert_eq!(
        *rule.quota(),
        quota(&Limit::leaky_bucket(
            "x",
            5,
            Rate::new(1, Duration::from_secs(10))
        ))
    );
    assert_eq!(rule.consistency(), Consistency::Local);

    let text = "match: { host: [API.Example.com, \"*.Example.org\"], method: [get, Post], \
                \"header:X-Kind\": a*, v: 2 }";
    let matching = one_limit(&format!(
        "{text}, algorithm: sliding_log, limit: 1, window: 1s"
    ))
    .unwrap();
    assert_eq!(
        conditions(&named(&matching, "a")),
        [
            "host = api.example.com or *.example.org",
            "method = GET or POST",
            "header:x-kind = a*",
            "v = 2"
        ]
    );
}

#[test]
fn tiers_work_with_every_algorithm() {
    let text = "
tiers: { s: { limit: 5, capacity: 7, refill_rate: 1/s } }
limits:
  - { name: w, key: [], algorithm: fixed_window, window: 1m, tier: { by: plan, default: s } }
  - { name: c, key: [], algorithm: concurrency, permit_timeout: 1s, tier: { by: plan, default: s } }
  - { name: q, key: [], algorithm: leaky_bucket, mode: queue, tier: { by: plan, default: s } }
";
    let config = parse(text).unwrap();
    let found = |name| *named(&config, name).rule.quota();

    assert_eq!(
        found("w"),
        quota(&Limit::fixed_window("x", 5, Duration::from_secs(60)))
    );
    assert_eq!(
        found("c"),
        quota(&Limit::concurrency("x", 5, Duration::from_secs(1)))
    );
    assert_eq!(
        found("q"),
        quota(&Limit::queue("x", 7, Rate::per_second(1)))
    );
}

#[test]
fn unsupported_consistency_gives_a_warning() {
    let config = parse(
        "
store: { type: redis, endpoints: [\"redis://h\"] }
defaults: { consistency: eventual }
limits:
  - { name: c, key: [], algorithm: concurrency, limit: 1, permit_timeout: 1s, consistency: leased }
  - { name: q, key: [], algorithm: leaky_bucket, mode: queue, capacity: 1, leak_rate: 1/s, \
    consistency: eventual }
  - { name: l, key: [], algorithm: sliding_log, limit: 1, window: 1s, consistency: eventual }
  - { name: m, key: [], algorithm: leaky_bucket, capacity: 1, leak_rate: 1/s }
",
    )
    .unwrap();

    assert_eq!(
        config.warnings,
        [
            "t.yaml:5:92: limits[c].consistency: concurrency limits are always strict, \
             so this setting has no effect",
            "t.yaml:6:105: limits[q].consistency: queues are always strict, \
             so this setting has no effect",
            "t.yaml:7:84: limits[l].consistency: sliding_log does not support eventual; \
             leased, which is stricter, is used",
        ]
    );

    let of = |name| named(&config, name).rule.consistency();
    assert_eq!(["c", "q"].map(of), [Consistency::Strict; 2]);
    assert_eq!(
        (of("l"), of("m")),
        (Consistency::Leased, Consistency::Eventual)
    );
}

#[test]
fn variables_are_expanded_in_values() {
    let config = one_limit(
        "algorithm: sliding_window, limit: \"${SIX}\", window: \"${NONE:-5m}\", \
         match: { a: \"$${SIX} ${SIX}\" }",
    );
    let rule = named(&config.unwrap(), "a");
    assert_eq!(
        *rule.rule.quota(),
        quota(&Limit::sliding_window("x", 600, Duration::from_secs(300)))
    );
    assert_eq!(conditions(&rule), ["a = ${SIX} 600"]);
}
