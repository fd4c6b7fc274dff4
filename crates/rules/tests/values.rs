//! Selects limits for requests with several values or several spellings of an attribute.

use std::borrow::Cow;

use tollgate::EncodedKey;
use tollgate_rules::{
    Attribute, Attributes, Config, MissingKeyPolicy, SelectError, Selection, Selector, Value,
};

fn selector(yaml: &str) -> Selector {
    let config =
        Config::parse(yaml, "test.yaml", &|_: &str| None).map_err(|error| error.to_string());
    Selector::new(&config.expect("a valid configuration"))
}

/// One limit of 10 per minute with these additional fields.
fn one(lines: &str) -> Selector {
    selector(&format!(
        "limits: [{{name: one, algorithm: sliding_window, limit: 10, window: 1m, {lines}}}]"
    ))
}

/// A request that repeats its headers, cookies and query parameters.
struct Repeated<'a>(&'a [(&'a str, &'a [&'a str])]);

impl Attributes for Repeated<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let (_, values) = self.0.iter().find(|(name, _)| *name == attribute.name())?;
        let values = values.iter().map(|value| Cow::Borrowed(*value));
        Some(Value::Texts(values.collect()))
    }
}

fn repeated<'s>(
    selector: &'s Selector,
    attributes: &[(&str, &[&str])],
) -> Result<Selection<'s>, SelectError> {
    selector.select(&Repeated(attributes), None, MissingKeyPolicy::Error)
}

/// The key of a request with one value.
fn only(selector: &Selector, name: &str, value: &str) -> EncodedKey {
    let mut selection = repeated(selector, &[(name, &[value])]).expect("a valid request");
    assert_eq!(selection.len(), 1, "{selection:?}");
    selection.remove(0).key
}

/// Servers answer HEAD with the handler of GET.
#[test]
fn a_limit_on_get_also_applies_to_head() {
    let applies = |limit: &str, method: &str| {
        let selector = one(&format!("key: [], match: {{method: {limit}}}"));
        let selection = repeated(&selector, &[("method", &[method])]).unwrap();
        !selection.is_empty()
    };

    assert!(applies("GET", "HEAD") && applies("GET", "head") && applies("HEAD", "HEAD"));
    assert!(!applies("HEAD", "GET") && !applies("POST", "HEAD"));
}

/// The caller of the service may say that a request is free; its client may not.
#[test]
fn a_client_cannot_set_its_cost_to_nothing() {
    let cost = |attribute: &str| {
        let selector = one(&format!("key: [], cost: {{by: '{attribute}', default: 1}}"));
        repeated(&selector, &[(attribute, &["0"])]).unwrap()[0].cost
    };

    assert_eq!(cost("query:n"), 1);
    assert_eq!(cost("header:x-cost"), 1);
    assert_eq!(cost("pages"), 0);
}

#[test]
fn a_limit_applies_if_any_value_matches() {
    for limit in [
        one("key: [], match: {'query:mode': write}"),
        one("key: [], match: {'query:mode': 'wr*'}"),
    ] {
        let applies = |values: &[&str]| {
            let selection = repeated(&limit, &[("query:mode", values)]).unwrap();
            !selection.is_empty()
        };
        assert!(applies(&["write"]) && applies(&["read", "write"]) && applies(&["write", "read"]));
        assert!(!applies(&["read"]) && !applies(&["read", "other"]) && !applies(&[]));
    }
}

#[test]
fn every_combination_of_values_is_a_key() {
    let limit = one("key: ['lower(header:x-user)', 'query:page']");
    let keys = |users: &[&str], pages: &[&str]| {
        let attributes = [("header:x-user", users), ("query:page", pages)];
        let selection = repeated(&limit, &attributes).unwrap();
        let keys: Vec<EncodedKey> = selection.into_iter().map(|demand| demand.key).collect();
        keys
    };

    let single = |user, page| keys(&[user], &[page]).remove(0);
    assert_eq!(
        keys(&["Ann", "BOB", "ann"], &["1", "2"]),
        [
            single("ann", "1"),
            single("bob", "1"),
            single("ann", "2"),
            single("bob", "2")
        ]
    );
    assert_eq!(keys(&["ANN", "ann "], &["1"]), [single("ann", "1")]);
}

#[test]
fn too_many_values_are_refused_wherever_they_are_used() {
    let many: Vec<String> = (0..9).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for limit in [
        one("key: ['query:q'], optional: true"),
        one("key: [], match: {'query:q': x}"),
        one("key: [], match: {'query:q': 'x*'}"),
    ] {
        let error = repeated(&limit, &[("query:q", &many)])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("too many values of the attribute `query:q`"),
            "{error}"
        );
    }

    let shadow = one("key: ['query:q'], match: {'query:q': 'x*'}, shadow: true");
    let selected = repeated(&shadow, &[("query:q", &many)]);
    assert!(selected.is_ok(), "a shadow limit never refuses a request");

    let pair = one("key: ['query:a', 'query:b']");
    let error = repeated(&pair, &[("query:a", &many[..5]), ("query:b", &many[..5])]).unwrap_err();
    assert!(matches!(error, SelectError::TooManyKeys { .. }), "{error}");
}

/// The scheme of credentials has many spellings, and all sources of attributes must agree.
#[test]
fn credentials_are_compared_without_their_scheme() {
    let limit = one("key: ['header:authorization']");
    let key = |value| only(&limit, "header:authorization", value);
    for other in ["bearer T", "Bearer  T", "BEARER T ", "T"] {
        assert_eq!(key("Bearer T"), key(other), "{other}");
    }
    assert_ne!(key("Bearer T"), key("Bearer t"));
}

/// A pattern names the scheme in its usual form.
#[test]
fn conditions_on_credentials_see_their_scheme() {
    let applies = |pattern: &str, value: &str| {
        let limit = one(&format!(
            "key: [], match: {{'header:authorization': '{pattern}'}}"
        ));
        !repeated(&limit, &[("header:authorization", &[value])])
            .unwrap()
            .is_empty()
    };
    for value in ["Bearer T", "bearer T", "BEARER  T "] {
        assert!(
            applies("Bearer *", value) && applies("Bearer T", value),
            "{value}"
        );
        assert!(!applies("Basic *", value), "{value}");
    }
}

#[test]
fn a_hash_is_that_of_the_normalised_value() {
    let file = |key: &str| {
        selector(&format!(
            "version: 1\nhash_keys: [email]\nhash_secret: 0123456789abcdef\nlimits:\n  - {{name: a, key: ['{key}'], algorithm: sliding_window, limit: 1, window: 1m}}\n"
        ))
    };
    let (plain, lower) = (file("email"), file("lower(email)"));
    let key = |selector: &Selector, value| only(selector, "email", value);
    assert_eq!(key(&lower, "ANN"), key(&plain, "ann"));
    assert_ne!(key(&plain, "ANN"), key(&plain, "ann"));

    let parts = lower.display_key(0, &key(&lower, "ANN")).unwrap();
    assert_eq!(
        (parts[0].attribute.name(), parts[0].is_hashed),
        ("email", true)
    );
}
