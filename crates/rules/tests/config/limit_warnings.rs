//! Warnings about limits that do not do what their author expects.

use crate::{one_limit, parse};

const LIMIT: &str = "algorithm: sliding_window, limit: 10, window: 1s";
const BEHIND_PROXY: &str = "client_ip: { trusted_proxies: [127.0.0.1] }";

/// The warnings about one limit with these fields, without their positions.
fn warnings(fields: &str) -> Vec<String> {
    one_limit(&format!("{LIMIT}, {fields}")).unwrap().warnings
}

#[test]
fn a_pair_on_a_login_counts_pairs() {
    let limit = |name: &str, rest: &str| {
        let text = format!("limits: [{{ name: {name}, {LIMIT}, {rest} }}]");
        parse(&text).unwrap().warnings
    };

    let found = limit("login", "key: [client_ip, \"lower(email)\"]");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("limits[login].key: this counts pairs: one address"));
    assert!(found[0].ends_with("`key: [client_ip]` and one with `key: [\"lower(email)\"]`"));

    let path = "key: [client_ip, email], match: { path: /auth/sign-in }";
    assert_eq!(limit("api", path).len(), 1);
    for fine in [
        "key: [client_ip]",
        "key: [tenant, email]",
        "key: [\"email | client_ip\"]",
        "key: [client_ip, path]",
    ] {
        assert!(limit("login", fine).is_empty(), "{fine}");
    }
    assert!(limit("search", "key: [client_ip, user]").is_empty());
}

#[test]
fn conditions_that_never_hold_are_noted() {
    for (condition, reason) in [
        ("host: 'h.org:8080'", "without a port; write \"h.org\""),
        ("host: 'https://h.org/'", "has no scheme; write \"h.org\""),
        ("host: 'h.org.'", "without a dot at the end"),
        ("host: h.org/x", "no host contains '/'"),
        ("client_ip: '2001:DB8:*'", "no address contains 'D'"),
        ("'header:x-a': ' b'", "without spaces at their ends"),
        ("'header:x-a': b, 'header:X-A': c", "no value meets both"),
    ] {
        let found = warnings(&format!("match: {{ {condition} }}"));
        assert_eq!(found.len(), 1, "{condition}: {found:?}");
        assert!(found[0].contains("the condition never holds"), "{found:?}");
        assert!(found[0].contains(reason), "{found:?}");
    }

    for fine in [
        "host: ['h.org:8080', h.org]",
        "host: '*.h.org'",
        "host: '[::1]'",
        "client_ip: '203.0.113.*'",
        "client_ip: '2001:DB8::1'",
        "'header:x-a': b, 'header:X-A': [b, c]",
        "method: [GET, POST], path: '/v1/**'",
    ] {
        let found = warnings(&format!("match: {{ {fine} }}"));
        assert!(found.is_empty(), "{fine}: {found:?}");
    }
}

/// Forward-auth has no attributes of the application's own.
#[test]
fn what_forward_auth_never_has_is_noted_where_a_proxy_is_configured() {
    let text = |rest: &str| {
        format!(
            "tiers: {{ free: {{ limit: 1 }} }}\nlimits: [{{ name: a, {rest}, {} }}]",
            "algorithm: fixed_window, window: 1m"
        )
    };
    for (rest, warning) in [
        (
            "limit: 1, key: [client_ip, email]",
            "limits[a].key: forward-auth never has `email`, so every request",
        ),
        (
            "limit: 1, key: [\"a | b\"], shadow: true",
            "never has `a | b`, so this limit counts nothing there",
        ),
        (
            "limit: 1, key: [], match: { tenant: x }",
            "limits[a].match: forward-auth never has `tenant`",
        ),
        (
            "tier: { by: tier, default: free }, key: []",
            "limits[a].tier: forward-auth never has `tier`, so the tier is always `free`",
        ),
    ] {
        let alone = parse(&text(rest)).unwrap();
        assert!(alone.warnings.is_empty(), "{:?}", alone.warnings);
        assert_eq!(alone.forward_auth_warnings.len(), 1, "{rest}");
        assert!(
            alone.forward_auth_warnings[0].contains(warning),
            "{:?}",
            alone.forward_auth_warnings
        );

        let behind = parse(&format!("{BEHIND_PROXY}\n{}", text(rest))).unwrap();
        assert_eq!(behind.warnings, behind.forward_auth_warnings);
    }

    for fine in [
        "limit: 1, key: [email], optional: true",
        "limit: 1, key: [\"email | client_ip\"]",
        "limit: 1, key: [\"header:x-tenant\", path]",
        "tier: { by: \"header:x-tier\", default: free }, key: []",
    ] {
        let config = parse(&format!("{BEHIND_PROXY}\n{}", text(fine))).unwrap();
        assert!(config.forward_auth_warnings.is_empty(), "{fine}");
    }
}
