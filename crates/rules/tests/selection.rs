//! Which limits a request meets, from configurations as people write them.

use std::borrow::Cow;

use tollgate::EncodedKey;
use tollgate_rules::{
    Attribute, Attributes, Config, Explanation, MissingKeyPolicy, SelectError, Selection, Selector,
    Value,
};

/// Attributes by name.
struct Request<'r>(&'r [(&'r str, &'r str)]);

impl Attributes for Request<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let found = self.0.iter().find(|(name, _)| *name == attribute.name());
        found.map(|(_, value)| Value::Text(Cow::Borrowed(value)))
    }
}

fn selector(yaml: &str) -> Selector {
    let env = |name: &str| (name == "SECRET").then(|| "0123456789abcdef".to_owned());
    let config = Config::parse(yaml, "test.yaml", &env).map_err(|faults| faults.to_string());
    Selector::new(&config.expect("a right configuration"))
}

/// One limit of 10 per minute with these lines of its own.
fn one(lines: &str) -> Selector {
    selector(&format!(
        "limits: [{{name: one, algorithm: sliding_window, limit: 10, window: 1m, {lines}}}]"
    ))
}

fn names<'r>(selector: &'r Selector, attributes: &[(&str, &str)]) -> Vec<&'r str> {
    let met = selector
        .select(&Request(attributes), None, MissingKeyPolicy::Refuse)
        .expect("a request that fits");
    met.iter().map(|chosen| chosen.rule.limit.name()).collect()
}

fn only(selector: &Selector, attributes: &[(&str, &str)]) -> (EncodedKey, u64) {
    let met = selector
        .select(&Request(attributes), None, MissingKeyPolicy::Refuse)
        .expect("a request that fits");
    assert_eq!(met.len(), 1, "{met:?}");
    (met[0].key.clone(), met[0].cost)
}

fn wrong(selector: &Selector, attributes: &[(&str, &str)]) -> SelectError {
    let found = selector.select(&Request(attributes), None, MissingKeyPolicy::Refuse);
    found
        .map(|met| met.len())
        .expect_err("a request that does not fit")
}

#[test]
fn conditions_hold_in_any_spelling_of_what_they_are_about() {
    let login = one("key: [], match: {method: POST, path: /auth/login, host: 'api.example.com'}");
    let meets = |method, path, host| {
        !names(
            &login,
            &[("method", method), ("path", path), ("host", host)],
        )
        .is_empty()
    };
    assert!(meets("POST", "/auth/login", "api.example.com"));
    assert!(meets(
        "post",
        "//auth/./login/?next=/",
        "API.Example.com:8443"
    ));
    assert!(meets(
        "POST",
        "/x/..;a/auth/%6Cogin;jsessionid=1",
        "api.example.com."
    ));
    assert!(!meets("GET", "/auth/login", "api.example.com"));
    assert!(!meets("POST", "/auth/logins", "api.example.com"));
    assert!(!meets("POST", "/auth/login", "api.example.com.evil.org"));
    assert!(
        names(&login, &[("method", "POST"), ("path", "/auth/login")]).is_empty(),
        "no host is no match"
    );
}

#[test]
fn one_of_several_patterns_is_enough_and_every_condition_is_needed() {
    let limit =
        one("key: [], match: {method: [PUT, PATCH], path: ['/v1/**', /legacy], domain: edge}");
    for (method, path, domain, meets) in [
        ("PUT", "/v1/a/b", "edge", true),
        ("PATCH", "/legacy", "edge", true),
        ("PATCH", "/v1", "edge", true),
        ("POST", "/v1/a", "edge", false),
        ("PUT", "/v2/a", "edge", false),
        ("PUT", "/v1/a", "core", false),
    ] {
        let met = names(
            &limit,
            &[("method", method), ("path", path), ("domain", domain)],
        );
        assert_eq!(!met.is_empty(), meets, "{method} {path} {domain}");
    }
}

#[test]
fn a_key_needs_its_attributes_or_the_first_of_their_alternatives() {
    let plan = one("key: ['header:x-api-key | client_ip']");
    let by_key = only(
        &plan,
        &[("header:x-api-key", "k1"), ("client_ip", "203.0.113.7")],
    );
    assert_eq!(
        by_key,
        only(
            &plan,
            &[("header:x-api-key", "k1"), ("client_ip", "203.0.113.8")]
        )
    );
    assert_ne!(by_key, only(&plan, &[("client_ip", "203.0.113.7")]));
    let error = wrong(&plan, &[("header:x-api-key", "")]);
    assert!(
        error.to_string().contains("`header:x-api-key | client_ip`"),
        "{error}"
    );
}

#[test]
fn alternatives_with_the_same_value_are_different_callers() {
    let either = one("key: ['user | device']");
    assert_ne!(
        only(&either, &[("user", "7")]),
        only(&either, &[("device", "7")])
    );
}

#[test]
fn addresses_count_by_what_they_are_and_not_by_their_spelling() {
    let limit = one("key: [client_ip]");
    let key = |address| only(&limit, &[("client_ip", address)]).0;
    assert_eq!(key("203.0.113.7"), key("::ffff:203.0.113.7"));
    assert_eq!(key("2001:db8::1"), key("2001:0DB8:0:0:ffff::9"), "one /64");
    assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
    let error = wrong(&limit, &[("client_ip", "somewhere")]);
    assert!(matches!(error, SelectError::Address { .. }), "{error}");
}

#[test]
fn a_missing_key_is_an_error_unless_the_limit_or_the_caller_says_otherwise() {
    let strict = one("key: [tenant]");
    let error = wrong(&strict, &[]).to_string();
    assert!(
        error.contains("\"one\"") && error.contains("`tenant`"),
        "{error}"
    );
    let passed_over = strict
        .select(&Request(&[]), None, MissingKeyPolicy::PassOver)
        .expect("nothing to complain of");
    assert!(passed_over.is_empty());
    assert!(names(&one("key: [tenant], optional: true"), &[]).is_empty());
    assert_eq!(
        names(&one("key: []"), &[]),
        ["one"],
        "one counter for everyone is a choice"
    );
}

#[test]
fn costs_come_from_the_attribute_then_the_request_then_the_limit() {
    let cost = |limit: &Selector, pages: &[(&str, &str)], stated| -> u64 {
        let met = limit
            .select(&Request(pages), stated, MissingKeyPolicy::Refuse)
            .expect("a request that fits");
        met[0].cost
    };
    let reports = one("key: [], cost: {by: pages, default: 3}");
    assert_eq!(cost(&reports, &[("pages", "7")], Some(5)), 7);
    assert_eq!(cost(&reports, &[], Some(5)), 5);
    assert_eq!(cost(&reports, &[], None), 3);
    assert_eq!(cost(&one("key: []"), &[("pages", "7")], None), 1);
    for bad in ["-1", "1.5", "many", "18446744073709551616"] {
        let error = wrong(&reports, &[("pages", bad)]).to_string();
        assert!(error.contains("`pages`") && error.contains(bad), "{error}");
    }
}

#[test]
fn a_tier_brings_its_numbers_and_the_default_one_stands_in() {
    let plan = selector(
        "tiers: {free: {capacity: 10, refill_rate: 1/s}, pro: {capacity: 100, refill_rate: 10/s}}\n\
         limits: [{name: plan, key: [], algorithm: token_bucket, tier: {by: tier, default: free}}]",
    );
    let numbers = |tier: &[(&str, &str)]| {
        let met: Selection<'_> = plan
            .select(&Request(tier), None, MissingKeyPolicy::Refuse)
            .expect("fits");
        met[0]
            .quota
            .copied()
            .unwrap_or(*met[0].rule.limit.rule().expect("right numbers").quota())
            .limit()
    };
    assert_eq!(numbers(&[("tier", "pro")]), 100);
    assert_eq!(numbers(&[("tier", "gold")]), 10);
    assert_eq!(numbers(&[]), 10);
}

#[test]
fn limits_asked_for_by_name_apply_whatever_their_conditions_say() {
    let two = selector(
        "limits:\n\
         - {name: a, key: [], match: {path: /never}, algorithm: sliding_window, limit: 1, window: 1s}\n\
         - {name: b, key: [], algorithm: sliding_window, limit: 1, window: 1s}",
    );
    let met = two
        .select_named(&["a"], &Request(&[("path", "/")]), None)
        .expect("a name that exists");
    assert_eq!(met[0].rule.limit.name(), "a");
    let error = two
        .select_named(&["c"], &Request(&[]), None)
        .expect_err("no such limit")
        .to_string();
    assert_eq!(error, r#"there is no limit named "c"; there are: a, b"#);
}

#[test]
fn hashed_attributes_show_and_count_by_their_hash_alone() {
    let yaml = "hash_keys: ['header:x-api-key']\nhash_secret: ${SECRET}\n\
        limits: [{name: plan, key: ['header:x-api-key'], algorithm: sliding_window, limit: 1, window: 1s}]";
    let plan = selector(yaml);
    let request = [("header:x-api-key", "sesame-opens")];
    let (key, _) = only(&plan, &request);
    assert!(!String::from_utf8_lossy(key.as_bytes()).contains("sesame"));
    let explained = plan.explain(&Request(&request));
    let Explanation::Met { parts, .. } = &explained[0].1 else {
        panic!("{explained:?}")
    };
    assert!(parts[0].is_hashed && parts[0].value.len() == 32);
    assert!(!format!("{explained:?}").contains("sesame"));
}

#[test]
fn whoever_asks_why_is_told() {
    let limits = selector(
        "limits:\n\
         - {name: a, key: [], match: {path: '/v1/**', method: POST}, algorithm: sliding_window, limit: 1, window: 1s}\n\
         - {name: b, key: [tenant], algorithm: sliding_window, limit: 1, window: 1s}\n\
         - {name: c, key: [tenant], optional: true, algorithm: sliding_window, limit: 1, window: 1s}",
    );
    let explained = limits.explain(&Request(&[("path", "/v1//x"), ("method", "get")]));
    let meetings: Vec<&Explanation<'_>> = explained.iter().map(|(_, meeting)| meeting).collect();
    assert!(
        matches!(meetings[0], Explanation::No { condition, found: Some(found) }
            if condition.attribute.name() == "method" && found == "GET"),
        "{meetings:?}"
    );
    assert!(
        matches!(
            meetings[1],
            Explanation::Wrong(SelectError::MissingAttribute { .. })
        ),
        "{meetings:?}"
    );
    assert!(
        matches!(meetings[2], Explanation::PassedOver),
        "{meetings:?}"
    );
}

/// Whoever shows keys after the fact has the key alone; it is shown like the one that was just
/// asked about.
#[test]
fn a_key_alone_is_shown_as_it_is_to_whoever_asks_about_it() {
    let yaml = |hashed: &str| {
        format!(
            "hash_keys: [{hashed}]\nhash_secret: ${{SECRET}}\nlimits: [{{name: one, algorithm: sliding_window, limit: 10, \
             window: 1m, key: ['header:x-api-key | client_ip', tenant, path]}}]"
        )
    };
    let rules = selector(&yaml("'header:x-api-key', tenant"));
    let requests = [
        &[
            ("header:x-api-key", "sk-1"),
            ("client_ip", "10.0.0.1"),
            ("tenant", "acme"),
            ("path", "/a"),
        ][..],
        &[
            ("client_ip", "2001:db8::1"),
            ("tenant", "acme"),
            ("path", "//a"),
        ][..],
    ];
    for request in requests {
        let (_, met) = rules
            .explain_named("one", &Request(request))
            .expect("a limit of that name");
        let Explanation::Met { chosen, parts, .. } = met else {
            panic!("{met:?}")
        };
        assert_eq!(rules.shown_key(0, &chosen.key), Some(parts));
        assert_eq!(rules.shown_key(1, &chosen.key), None, "there is one limit");
    }
    let in_the_clear = only(&selector(&yaml("'header:x-api-key'")), requests[0]).0;
    assert_eq!(
        rules.shown_key(0, &in_the_clear),
        None,
        "what is hashed now does not show as it was"
    );
    for strange in [
        EncodedKey::new(&("header:x-api-key", "sk")).expect("a key"),
        EncodedKey::new(&("query:x", "sk", "acme", "/a")).expect("a key"),
        EncodedKey::new(&7_u64).expect("a key"),
    ] {
        assert_eq!(rules.shown_key(0, &strange), None);
    }
}

#[test]
fn limits_one_by_one_tell_where_a_key_is_missing() {
    let both = selector(
        "limits: [{name: a, key: [tenant], algorithm: sliding_window, limit: 1, window: 1m},
                  {name: b, key: [client_ip], algorithm: sliding_window, limit: 1, window: 1m},
                  {name: c, match: {method: PUT}, key: [], algorithm: sliding_window, limit: 1, window: 1m}]",
    );
    let mut met = Vec::new();
    let request = Request(&[("client_ip", "203.0.113.7"), ("method", "GET")]);
    both.each(
        &request,
        None,
        MissingKeyPolicy::PassOver,
        |place, chosen| met.push((place, chosen.is_some())),
    )
    .expect("a request that fits");
    assert_eq!(met, [(0, false), (1, true)]);
    let refused = both.each(&request, None, MissingKeyPolicy::Refuse, |_, _| {});
    assert!(
        matches!(refused, Err(SelectError::MissingAttribute { .. })),
        "{refused:?}"
    );
}
