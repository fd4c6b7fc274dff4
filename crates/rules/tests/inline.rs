//! Limits that requests bring along, and keys that they give for configured ones.

#![expect(clippy::unwrap_used, reason = "the helpers are test code, too")]

use std::borrow::Cow;

use tollgate::{Consistency, EncodedKey, FailurePolicy, Rule};
use tollgate_rules::{
    Attribute, Attributes, Config, InlineLimitError, RequestedLimit, SelectError, Selector, Value,
};

const LIMITS: &str = "
limits:
  - { name: api, key: [user], algorithm: sliding_window, limit: 10, window: 1m }
  - { name: address, key: [client_ip], algorithm: sliding_window, limit: 10, window: 1m }
  - { name: pair, key: [user, path], algorithm: sliding_window, limit: 10, window: 1m }
  - { name: either, key: [\"user | client_ip\"], algorithm: sliding_window, limit: 10, window: 1m }
  - { name: all, key: [], algorithm: sliding_window, limit: 10, window: 1m }
";

fn config(settings: &str) -> Config {
    Config::parse(&format!("{settings}\n{LIMITS}"), "t.yaml", &|_| None).unwrap()
}

fn parse(settings: &str, json: &str) -> Result<Rule, InlineLimitError> {
    config(settings).inline_limits.parse(json, 3)
}

#[test]
fn every_algorithm_is_read_as_in_the_file() {
    for numbers in [
        r#""algorithm": "fixed_window", "limit": 5, "window": "10s""#,
        r#""algorithm": "fixed_window", "limit": 5, "window": "1month", "align": "clock""#,
        r#""algorithm": "sliding_window", "limit": 5, "window": "500ms""#,
        r#""algorithm": "sliding_log", "limit": "1_000", "window": "15 minutes""#,
        r#""algorithm": "token_bucket", "capacity": 10, "refill_rate": "1/s""#,
        r#""algorithm": "leaky_bucket", "capacity": 10, "leak_rate": "1/10s", "mode": "queue""#,
        r#""algorithm": "concurrency", "limit": 5, "permit_timeout": "30s""#,
    ] {
        let unset = r#""consistency": null, "shadow": null"#;
        let json = format!(r#"{{"name": "chat", {numbers}, {unset}}}"#);
        let inline = parse("", &json).unwrap();
        let text = format!("limits: [{{ name: chat, key: [], {numbers} }}]");
        let configured = Config::parse(&text, "t.yaml", &|_| None).unwrap().limits[0].rule;
        assert_eq!(inline.quota(), configured.quota(), "{numbers}");
        assert_eq!(inline.name(), configured.name());
    }
}

#[test]
fn settings_are_those_of_the_request_or_the_defaults_of_the_file() {
    let defaults =
        "defaults: { consistency: leased, on_store_failure: deny, expected_replicas: 3 }";
    let log = r#""name": "chat", "algorithm": "sliding_log", "limit": 5, "window": "1s""#;

    let rule = parse(defaults, &format!("{{{log}}}")).unwrap();
    let settings = (
        rule.consistency(),
        rule.on_store_failure(),
        rule.is_shadow(),
    );
    assert_eq!(settings, (Consistency::Leased, FailurePolicy::Deny, false));
    assert_eq!(rule.replicas().get(), 3);

    let own = r#""consistency": "strict", "on_store_failure": "local", "shadow": true"#;
    let rule = parse(defaults, &format!("{{{log}, {own}}}")).unwrap();
    let settings = (
        rule.consistency(),
        rule.on_store_failure(),
        rule.is_shadow(),
    );
    assert_eq!(settings, (Consistency::Strict, FailurePolicy::Local, true));
}

#[test]
fn invalid_limits_get_the_errors_of_the_file() {
    for (json, expected) in [
        (
            "{}",
            "limits[3].name: missing field `name`; expected 1 to 47 letters",
        ),
        (r#"{"name": "a b"}"#, "limits[3].name: invalid name \"a b\""),
        (
            r#"{"name": "override:x"}"#,
            "the prefix `override:` is reserved",
        ),
        (
            r#"{"name": "chat"}"#,
            "limits[chat].algorithm: missing field `algorithm`",
        ),
        (
            r#"{"name": "chat", "algorithm": "token-bucket"}"#,
            "did you mean `token_bucket`?",
        ),
        (
            r#"{"name": "chat", "algorithm": "sliding_log", "limit": 5, "widow": "1s"}"#,
            "limits[chat].widow: unknown field `widow`; did you mean `window`?",
        ),
        (
            r#"{"name": "chat", "algorithm": "sliding_log", "limit": -5, "window": "1s"}"#,
            "limits[chat].limit: invalid number \"-5\": expected a whole number",
        ),
        (
            r#"{"name": "chat", "algorithm": "sliding_log", "limit": 5.0, "window": "1s"}"#,
            "invalid number \"5.0\": write 5",
        ),
        (
            r#"{"name": "chat", "algorithm": "sliding_log", "limit": 9007199254740993, "window": "1s"}"#,
            "must be between 1 and 9007199254740992 (2^53)",
        ),
        (
            r#"{"name": "chat", "algorithm": "sliding_log", "limit": 0, "window": 60}"#,
            "limits[chat].limit: invalid number \"0\": must be between 1 and 9007199254740992 \
             (2^53) (and 1 more error)",
        ),
        (
            r#"{"name": "chat", "algorithm": "token_bucket", "limit": 5, "refill_rate": "1/s"}"#,
            "`limit` is only for",
        ),
        (
            r#"{"name": "chat", "algorithm": "token_bucket", "capacity": [5], "refill_rate": "1/s"}"#,
            "limits[chat].capacity: found a list; expected a whole number",
        ),
        (
            r#"{"name": "chat", "algorithm": "token_bucket", "capacity": 5, "refill_rate": {"a": 1}}"#,
            "limits[chat].refill_rate: found a mapping; expected a number per period",
        ),
        (
            r#"{"name": "chat", "match": {"path": "/"}}"#,
            "unknown field `match`",
        ),
        (r#"{"name": "chat", "tier": null}"#, "unknown field `tier`"),
        (r#"{"name": null}"#, "missing field `name`"),
        (r#"["chat"]"#, "limits[3]: found a list; expected a mapping"),
        (r#"{"name": "#, "invalid limit: EOF"),
    ] {
        let error = parse("", json).unwrap_err();
        assert!(matches!(error, InlineLimitError::Invalid(_)), "{error:?}");
        assert!(error.to_string().contains(expected), "{json}\n{error}");
    }

    let deep = format!("{}{}", r#"{"name": "#, "[".repeat(10_000));
    assert!(parse("", &deep).is_err());
}

#[test]
fn the_file_may_restrict_or_deny_them() {
    let limit = |name: &str, limit: u64| {
        format!(
            r#"{{"name": "{name}", "algorithm": "sliding_log", "limit": {limit}, "window": "1s"}}"#
        )
    };
    let restricted = "inline_limits: { names: [chat, \"llm-*\"], limit_max: 100 }";
    for (settings, json, expected) in [
        ("", limit("any", 101), None),
        ("inline_limits: allow", limit("any", 101), None),
        (
            "inline_limits: deny",
            limit("any", 1),
            Some("`inline_limits: deny`"),
        ),
        (restricted, limit("chat", 100), None),
        (restricted, limit("llm-4", 100), None),
        (
            restricted,
            limit("chats", 1),
            Some("`inline_limits` allows chat, llm-*"),
        ),
        (
            restricted,
            limit("chat", 101),
            Some("is 101; `inline_limits` allows at most 100"),
        ),
        ("inline_limits: { limit_max: 5 }", limit("any", 5), None),
    ] {
        let result = parse(settings, &json);
        match expected {
            None => assert!(result.is_ok(), "{settings} {json}"),
            Some(expected) => {
                let error = result.unwrap_err();
                assert!(
                    matches!(error, InlineLimitError::NotAllowed(_)),
                    "{error:?}"
                );
                assert!(error.to_string().contains(expected), "{error}");
            }
        }
    }
}

struct Request<'r>(&'r [(&'r str, &'r str)]);

impl Attributes for Request<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let found = self.0.iter().find(|(name, _)| *name == attribute.name());
        found.map(|(_, value)| Value::Text(Cow::Borrowed(value)))
    }
}

fn keyed<'q>(name: &'q str, key: &'q str) -> RequestedLimit<'q> {
    RequestedLimit {
        name: name.into(),
        key: Some(key.into()),
        ..RequestedLimit::default()
    }
}

#[test]
fn a_key_is_the_value_of_the_only_attribute() {
    let selector = Selector::new(&config(""));
    let select = |limits: &[RequestedLimit<'_>]| {
        let attributes = Request(&[("user", "bob"), ("client_ip", "192.0.2.1")]);
        let selection = selector.select_requested(limits, &[], &attributes, Some(3), |_| {});
        selection.map(|found| {
            let found = found.into_iter();
            found
                .map(|demand| (demand.key, demand.cost))
                .collect::<Vec<_>>()
        })
    };
    let user = |name: &str| EncodedKey::new(name).unwrap();
    let address = |text: &str| EncodedKey::new(&text.parse::<std::net::IpAddr>().unwrap()).unwrap();

    let both = [keyed("api", "ann"), keyed("address", "::ffff:203.0.113.7")];
    assert_eq!(
        select(&both).unwrap(),
        [(user("ann"), 3), (address("203.0.113.7"), 3)]
    );
    let own_cost = RequestedLimit {
        name: "api".into(),
        cost: Some(7),
        ..RequestedLimit::default()
    };
    assert_eq!(select(&[own_cost]).unwrap(), [(user("bob"), 7)]);

    for (limit, expected) in [
        (
            keyed("pair", "x"),
            "counts by `user`, `path`; leave out `key` and send `attributes`",
        ),
        (
            keyed("either", "x"),
            "counts by `user | client_ip`; leave out `key`",
        ),
        (
            keyed("all", "x"),
            "it has one counter for all requests; leave out `key`",
        ),
        (keyed("api", ""), "missing attribute `user`"),
        (keyed("address", "home"), "invalid attribute `client_ip`"),
        (keyed("nope", "x"), "unknown limit \"nope\""),
    ] {
        let error = select(&[limit]).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_limit_of_the_request_is_selected_by_its_rule() {
    let config = config("");
    let json = r#"{"name": "chat", "algorithm": "sliding_log", "limit": 9, "window": "1s"}"#;
    let rules = [config.inline_limits.parse(json, 0).unwrap()];
    let selector = Selector::new(&config);
    let inline = |key: Option<&'static str>| RequestedLimit {
        name: "chat".into(),
        key: key.map(Into::into),
        inline: Some(json.to_owned().into()),
        cost: None,
    };
    let select = |limit| {
        let limits = [keyed("api", "ann"), limit];
        selector
            .select_requested(&limits, &rules, &Request(&[]), Some(2), |_| {})
            .map(|found| {
                found
                    .into_iter()
                    .map(|demand| (demand.limit.name().to_string(), demand.cost))
                    .collect::<Vec<_>>()
            })
    };

    let expected = [("api".to_owned(), 2), ("chat".to_owned(), 2)];
    assert_eq!(select(inline(Some("user:42"))).unwrap(), expected);
    let error = select(inline(None)).unwrap_err();
    assert_eq!(
        error,
        SelectError::MissingKey {
            limit: "chat".into()
        }
    );
    assert!(matches!(
        select(inline(Some(""))),
        Err(SelectError::Key { .. })
    ));
}
