//! Selects limits for requests with configurations in YAML.

use std::borrow::Cow;

use proptest::prelude::*;
use tollgate::EncodedKey;
use tollgate_rules::{
    Attribute, Attributes, Config, Explanation, MissingKeyPolicy, SelectError, Selection, Selector,
    Value,
};

/// A request with these attributes.
struct Request<'r>(&'r [(&'r str, &'r str)]);

impl Attributes for Request<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let found = self.0.iter().find(|(name, _)| *name == attribute.name());
        found.map(|(_, value)| Value::Text(Cow::Borrowed(value)))
    }
}

fn selector(yaml: &str) -> Selector {
    let env = |name: &str| (name == "SECRET").then(|| "0123456789abcdef".to_owned());
    let config = Config::parse(yaml, "test.yaml", &env).map_err(|error| error.to_string());
    Selector::new(&config.expect("a valid configuration"))
}

/// One limit of 10 per minute with these additional fields.
fn one(lines: &str) -> Selector {
    selector(&format!(
        "limits: [{{name: one, algorithm: sliding_window, limit: 10, window: 1m, {lines}}}]"
    ))
}

fn names<'r>(selector: &'r Selector, attributes: &[(&str, &str)]) -> Vec<&'r str> {
    let selection = selector
        .select(&Request(attributes), None, MissingKeyPolicy::Error)
        .expect("a valid request");
    selection
        .iter()
        .map(|selected| selected.limit.name().as_str())
        .collect()
}

fn only(selector: &Selector, attributes: &[(&str, &str)]) -> (EncodedKey, u64) {
    let selection = selector
        .select(&Request(attributes), None, MissingKeyPolicy::Error)
        .expect("a valid request");
    assert_eq!(selection.len(), 1, "{selection:?}");
    (selection[0].key.clone(), selection[0].cost)
}

fn error(selector: &Selector, attributes: &[(&str, &str)]) -> SelectError {
    let selection = selector.select(&Request(attributes), None, MissingKeyPolicy::Error);
    selection
        .map(|selection| selection.len())
        .expect_err("an invalid request")
}

#[test]
fn conditions_match_normalised_values() {
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
        "a missing host does not match"
    );
}

#[test]
fn one_pattern_must_match_but_all_conditions() {
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
        let selected = names(
            &limit,
            &[("method", method), ("path", path), ("domain", domain)],
        );
        assert_eq!(!selected.is_empty(), meets, "{method} {path} {domain}");
    }
}

#[test]
fn the_first_available_alternative_makes_the_key() {
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

    let error = error(&plan, &[("header:x-api-key", "")]);
    assert!(
        error.to_string().contains("`header:x-api-key | client_ip`"),
        "{error}"
    );
}

#[test]
fn alternatives_with_equal_values_have_different_keys() {
    let either = one("key: ['user | device']");
    assert_ne!(
        only(&either, &[("user", "7")]),
        only(&either, &[("device", "7")])
    );
}

#[test]
fn addresses_with_different_spellings_share_a_key() {
    let limit = one("key: [client_ip]");
    let key = |address| only(&limit, &[("client_ip", address)]).0;
    assert_eq!(key("203.0.113.7"), key("::ffff:203.0.113.7"));
    assert_eq!(key("2001:db8::1"), key("2001:0DB8:0:0:ffff::9"), "one /64");
    assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
    let error = error(&limit, &[("client_ip", "somewhere")]);
    assert!(matches!(error, SelectError::Address { .. }), "{error}");
}

#[test]
fn a_shadow_limit_never_refuses_a_request() {
    for (fields, attributes) in [
        ("key: [tenant]", &[][..]),
        ("key: [client_ip]", &[("client_ip", "somewhere")]),
        ("key: [], cost: {by: pages}", &[("pages", "many")]),
        (
            "key: [], on_ambiguous_path: refuse, match: {path: /auth/login}",
            &[("path", "/auth%2Flogin")],
        ),
    ] {
        assert!(
            one(fields)
                .select(&Request(attributes), None, MissingKeyPolicy::Error)
                .is_err(),
            "{fields}"
        );
        let shadow = one(&format!("{fields}, shadow: true"));
        let selected = shadow.select(&Request(attributes), None, MissingKeyPolicy::Error);
        assert!(selected.is_ok(), "{fields}");
    }

    let named = one("key: [tenant], shadow: true");
    let selected = named.select_named(&["one"], &Request(&[]), None);
    assert!(selected.is_ok_and(|selected| selected.is_empty()));
}

#[test]
fn a_missing_key_is_an_error_unless_the_limit_is_optional_or_the_caller_skips_it() {
    let strict = one("key: [tenant]");
    let error = error(&strict, &[]).to_string();

    assert!(
        error.contains("\"one\"") && error.contains("`tenant`"),
        "{error}"
    );

    let skipped = strict
        .select(&Request(&[]), None, MissingKeyPolicy::Skip)
        .expect("a skipped limit");
    assert!(skipped.is_empty());
    assert!(names(&one("key: [tenant], optional: true"), &[]).is_empty());
    assert_eq!(
        names(&one("key: []"), &[]),
        ["one"],
        "an empty key is one counter for all requests"
    );
}

#[test]
fn cost_precedence_is_attribute_then_request_then_limit() {
    let cost = |limit: &Selector, pages: &[(&str, &str)], stated| -> u64 {
        let selection = limit
            .select(&Request(pages), stated, MissingKeyPolicy::Error)
            .expect("a valid request");
        selection[0].cost
    };
    let reports = one("key: [], cost: {by: pages, default: 3}");

    assert_eq!(cost(&reports, &[("pages", "7")], Some(5)), 7);
    assert_eq!(cost(&reports, &[], Some(5)), 5);
    assert_eq!(cost(&reports, &[], None), 3);
    assert_eq!(cost(&one("key: []"), &[("pages", "7")], None), 1);
    for bad in ["-1", "1.5", "many", "18446744073709551616"] {
        let error = error(&reports, &[("pages", bad)]).to_string();
        assert!(error.contains("`pages`") && error.contains(bad), "{error}");
    }
}

#[test]
fn the_tier_determines_the_quota_with_a_default() {
    let plan = selector(
        "tiers: {free: {capacity: 10, refill_rate: 1/s}, pro: {capacity: 100, refill_rate: 10/s}}\n\
         limits: [{name: plan, key: [], algorithm: token_bucket, tier: {by: tier, default: free}}]",
    );
    let numbers = |tier: &[(&str, &str)]| {
        let selection: Selection<'_> = plan
            .select(&Request(tier), None, MissingKeyPolicy::Error)
            .expect("a valid request");
        selection[0].quota().limit()
    };

    assert_eq!(numbers(&[("tier", "pro")]), 100);
    assert_eq!(numbers(&[("tier", "gold")]), 10);
    assert_eq!(numbers(&[]), 10);
}

#[test]
fn limits_selected_by_name_ignore_their_conditions() {
    let two = selector(
        "limits:\n\
         - {name: a, key: [], match: {path: /never}, algorithm: sliding_window, limit: 1, \
         window: 1s}\n\
         - {name: b, key: [], algorithm: sliding_window, limit: 1, window: 1s}",
    );
    let selection = two
        .select_named(&["a"], &Request(&[("path", "/")]), None)
        .expect("a known limit");

    assert_eq!(selection[0].limit.name().as_str(), "a");

    let error = two
        .select_named(&["c"], &Request(&[]), None)
        .expect_err("an unknown limit")
        .to_string();

    assert_eq!(error, r#"unknown limit "c"; expected one of a, b"#);
}

#[test]
fn hashed_attributes_are_stored_and_displayed_as_hashes() {
    let yaml = "hash_keys: ['header:x-api-key']\nhash_secret: ${SECRET}\n\
        limits: [{name: plan, key: ['header:x-api-key'], algorithm: sliding_window, limit: 1, \
        window: 1s}]";
    let plan = selector(yaml);
    let request = [("header:x-api-key", "sesame-opens")];
    let (key, _) = only(&plan, &request);

    assert!(!String::from_utf8_lossy(key.as_bytes()).contains("sesame"));

    let explained = plan.explain(&Request(&request));
    let Explanation::Applies { parts, .. } = &explained[0].1 else {
        panic!("{explained:?}")
    };

    assert!(parts[0].is_hashed && parts[0].value.len() == 32);
    assert!(!format!("{explained:?}").contains("sesame"));
}

#[test]
fn explanations_give_the_reason() {
    let limits = selector(
        "limits:\n\
         - {name: a, key: [], match: {path: '/v1/**', method: POST}, algorithm: sliding_window, \
         limit: 1, window: 1s}\n\
         - {name: b, key: [tenant], algorithm: sliding_window, limit: 1, window: 1s}\n\
         - {name: c, key: [tenant], optional: true, algorithm: sliding_window, limit: 1, \
         window: 1s}",
    );
    let explained = limits.explain(&Request(&[("path", "/v1//x"), ("method", "get")]));
    let reasons: Vec<&Explanation<'_>> = explained.iter().map(|(_, reason)| reason).collect();

    assert!(
        matches!(reasons[0], Explanation::NotMatched { condition, found: Some(found) }
            if condition.attribute.name() == "method" && found == "GET"),
        "{reasons:?}"
    );
    assert!(
        matches!(
            reasons[1],
            Explanation::Invalid(SelectError::MissingAttribute { .. })
        ),
        "{reasons:?}"
    );
    assert!(matches!(reasons[2], Explanation::Skipped), "{reasons:?}");
}

/// The dashboard and reports have only the stored key. It must be displayed like the key of a
/// request.
#[test]
fn a_stored_key_is_displayed_like_the_key_of_a_request() {
    let yaml = |hashed: &str| {
        format!(
            "hash_keys: [{hashed}]\nhash_secret: ${{SECRET}}\n\
             limits: [{{name: one, algorithm: sliding_window, limit: 10, window: 1m, \
             key: ['header:x-api-key | client_ip', tenant, path]}}]"
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
        let (_, explanation) = rules
            .explain_named("one", &Request(request))
            .expect("a limit of that name");
        let Explanation::Applies { demand, parts, .. } = explanation else {
            panic!("{explanation:?}")
        };
        assert_eq!(rules.display_key(0, &demand.key), Some(parts));
        assert_eq!(
            rules.display_key(1, &demand.key),
            None,
            "there is one limit"
        );
    }

    let plain_text = only(&selector(&yaml("'header:x-api-key'")), requests[0]).0;
    assert_eq!(
        rules.display_key(0, &plain_text),
        None,
        "an attribute that is hashed now is not displayed in plain text"
    );

    for foreign in [
        EncodedKey::new(&("header:x-api-key", "sk")).expect("a key"),
        EncodedKey::new(&("query:x", "sk", "acme", "/a")).expect("a key"),
        EncodedKey::new(&7_u64).expect("a key"),
    ] {
        assert_eq!(rules.display_key(0, &foreign), None);
    }
}

#[test]
fn each_reports_limits_whose_key_is_missing() {
    let both = selector(
        "limits: [{name: a, key: [tenant], algorithm: sliding_window, limit: 1, window: 1m},
                  {name: b, key: [client_ip], algorithm: sliding_window, limit: 1, window: 1m},
                  {name: c, match: {method: PUT}, key: [], algorithm: sliding_window, limit: 1,
                   window: 1m}]",
    );
    let mut visited = Vec::new();
    let request = Request(&[("client_ip", "203.0.113.7"), ("method", "GET")]);
    both.for_each_selected(&request, None, MissingKeyPolicy::Skip, |index, selected| {
        visited.push((index, !selected.is_empty()));
    })
    .expect("a valid request");
    assert_eq!(visited, [(0, false), (1, true)]);

    let result = both.for_each_selected(&request, None, MissingKeyPolicy::Error, |_, _| {});
    assert!(
        matches!(result, Err(SelectError::MissingAttribute { .. })),
        "{result:?}"
    );
}

/// Patterns that are indexed by value, by leading segments, or not at all.
fn any_condition() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("path: /a"),
        Just("path: /a/b"),
        Just("path: [/a/**, /c]"),
        Just("path: /a/b/*"),
        Just("path: /a*"),
        Just("path: [/a/b/**, /**/c]"),
        Just("path: /a/b*/c"),
        Just("method: POST"),
        Just("method: [GET, POST]"),
        Just("host: api.example.com"),
        Just("host: '*.example.com'"),
        Just("'header:x-app': ios"),
        Just("'header:x-app': 'ios*'"),
        Just("tenant: [acme, Initech]"),
    ]
    .prop_map(str::to_owned)
}

fn any_request() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let path = prop::sample::select(vec![
        "", "/", "/a", "/A", "/a/", "/a/b", "/a/b/c", "/a/bb/c", "/ab", "/c", "/x/c", "/a//b/x",
    ]);
    let method = prop::sample::select(vec!["", "get", "POST", "PUT"]);
    let host = prop::sample::select(vec!["", "API.example.com:80", "www.example.com", "other"]);
    let app = prop::sample::select(vec!["", "ios", "ios-7", "android"]);
    let tenant = prop::sample::select(vec!["", "acme", "Initech", "initech"]);
    (path, method, host, app, tenant).prop_map(|(path, method, host, app, tenant)| {
        vec![
            ("path", path),
            ("method", method),
            ("host", host),
            ("header:x-app", app),
            ("tenant", tenant),
        ]
    })
}

proptest! {
    /// Selection uses an index; an explanation evaluates the conditions of every limit.
    #[test]
    fn the_index_finds_exactly_the_limits_whose_conditions_hold(
        conditions in prop::collection::vec(prop::collection::vec(any_condition(), 0..3), 1..12),
        requests in prop::collection::vec(any_request(), 1..8),
    ) {
        let limits = conditions.iter().enumerate().map(|(index, conditions)| {
            // A condition on each attribute at most: a mapping has no duplicate fields.
            let mut conditions = conditions.clone();
            conditions.sort();
            conditions.dedup_by_key(|condition| condition.split(": ").next().map(str::to_owned));

            let conditions = conditions.join(", ");
            format!(
                "  - {{ name: limit-{index}, match: {{ {conditions} }}, key: [], \
                 algorithm: sliding_log, limit: 1, window: 1s }}\n"
            )
        });
        let yaml = format!("limits:\n{}", limits.collect::<String>());
        let selector = selector(&yaml);

        for request in &requests {
            let explained = selector.explain(&Request(request));
            let expected: Vec<&str> = explained
                .iter()
                .filter(|(_, explanation)| matches!(explanation, Explanation::Applies { .. }))
                .map(|(limit, _)| limit.rule.name().as_str())
                .collect();
            prop_assert_eq!(names(&selector, request), expected, "{:?}\n{}", request, yaml);
        }
    }
}
