use std::sync::mpsc;
use std::time::Duration;

use testkit::servers::{Flavor, Server};

use super::*;

const CONFIG: &str = r#"{"limits": [
    {"name": "api", "key": ["key"], "algorithm": "fixed_window", "limit": 2, "window": "10s"},
    {"name": "jobs", "key": ["key"], "algorithm": "concurrency", "limit": 1,
     "permit_timeout": "1m"}]}"#;

fn embedded() -> Embedded {
    Embedded::open_for_tests(CONFIG, "t.json").expect("a valid configuration")
}

/// Decides about one limit without waiting.
fn try_check(embedded: &Embedded, limit: LimitId, key: &str) -> Option<Decision> {
    try_check_all(embedded, &[(limit, key)])
}

fn try_check_all(embedded: &Embedded, demands: &[(LimitId, &str)]) -> Option<Decision> {
    let ask = |list: &mut DirectDemands<'_>| {
        let mut demands = demands.iter();
        demands.try_for_each(|(limit, key)| list.add(*limit, key, None))
    };
    let decided = embedded.try_check(ask, |decision, _| decision.clone());
    decided.unwrap()
}

fn batch(embedded: &Embedded, body: &str) -> (u16, String) {
    let (sender, receiver) = mpsc::channel();
    embedded.batch(body.to_owned(), move |status, text| {
        sender.send((status, text)).expect("the test waits");
    });
    receiver.recv().expect("an answer")
}

#[test]
fn a_check_without_waiting_and_an_operation_share_the_counter() {
    let embedded = embedded();
    let api = embedded.limit("api").unwrap();

    let first = try_check(&embedded, api, "ann").unwrap();
    assert_eq!((first.is_allowed(), first.remaining()), (true, 1));
    let body = r#"{"requests": [{"op": "check", "limits": [{"name": "api", "key": "ann"}]}],
                   "headers": true}"#;
    let (status, text) = batch(&embedded, body);
    assert_eq!(status, 200);
    assert!(text.contains(r#""remaining":0"#), "{text}");
    assert!(
        text.contains(r#""ratelimit-policy":"\"api\";q=2;w=10""#),
        "{text}"
    );

    let third = try_check(&embedded, api, "ann").unwrap();
    assert!(!third.is_allowed());
    embedded.advance(Duration::from_secs(10)).unwrap();
    let later = try_check(&embedded, api, "ann").unwrap();
    assert!(later.is_allowed());
}

#[test]
fn a_limit_of_the_program_is_found_again_and_checked_without_waiting() {
    let embedded = embedded();
    let text = r#"{"name": "own", "algorithm": "sliding_log", "limit": 1, "window": "1s"}"#;
    let own = embedded.limit(text).unwrap();
    assert_eq!(embedded.limit(text).unwrap(), own);
    assert_ne!(embedded.limit("api").unwrap(), own);

    let allowed = |key| try_check(&embedded, own, key).unwrap().is_allowed();
    assert_eq!(
        [allowed("a"), allowed("a"), allowed("b")],
        [true, false, true]
    );
}

#[test]
fn a_limit_with_permits_is_left_to_operations() {
    let embedded = embedded();
    let jobs = embedded.limit("jobs").unwrap();
    assert!(try_check(&embedded, jobs, "ann").is_none());

    let check = r#"{"requests": [{"op": "check", "limits": [{"name": "jobs", "key": "ann"}]}]}"#;
    let (_, first) = batch(&embedded, check);
    assert!(
        first.contains(r#""permit":"#),
        "nothing was charged before: {first}"
    );
    let (_, second) = batch(&embedded, check);
    assert!(second.contains(r#""allowed":false"#), "{second}");
}

/// What depends on more than the key is left to operations, which tell what is missing.
#[test]
fn keys_are_made_by_the_configuration() {
    let config = "
hash_secret: correct-horse-battery-staple
hash_keys: [email]
limits:
  - { name: plain, key: [user], cost: 3, algorithm: sliding_log, limit: 9, window: 1s }
  - { name: hashed, key: [email], algorithm: sliding_log, limit: 9, window: 1s }
  - { name: lower, key: ['lower(user)'], algorithm: sliding_log, limit: 9, window: 1s }
  - { name: address, key: [client_ip], algorithm: sliding_log, limit: 9, window: 1s }
  - { name: pair, key: [user, route], algorithm: sliding_log, limit: 9, window: 1s }
";
    let embedded = Embedded::open_for_tests(config, "t.yaml").expect("a valid configuration");
    let limit = |name: &str| embedded.limit(name).unwrap();

    for (name, used) in [("plain", 3), ("hashed", 1), ("lower", 1), ("address", 1)] {
        let decision = try_check(&embedded, limit(name), "10.0.0.1").unwrap();
        assert_eq!(decision.remaining(), 9 - used, "{name}");
        let body = format!(
            r#"{{"requests": [{{"op": "peek", "limits": [{{"name": "{name}", "key": "10.0.0.1"}}]}}]}}"#
        );
        let (_, peek) = batch(&embedded, &body);
        let used = format!(r#""used":{used}"#);
        assert!(peek.contains(&used), "the same counter: {peek}");
    }
    assert!(try_check(&embedded, limit("pair"), "ann").is_none());
    assert!(try_check(&embedded, limit("address"), "not an address").is_none());
}

#[test]
fn several_limits_pass_together_or_not_at_all() {
    let embedded = embedded();
    let api = embedded.limit("api").unwrap();
    let text = r#"{"name": "own", "algorithm": "sliding_log", "limit": 1, "window": "1s"}"#;
    let own = embedded.limit(text).unwrap();
    let both = || try_check_all(&embedded, &[(api, "ann"), (own, "ann")]);

    let first = both().unwrap();
    assert!(first.is_allowed());
    let remaining = |decision: &Decision| -> Vec<u64> {
        let limits = decision.limits().iter();
        limits.map(tollgate::LimitOutcome::remaining).collect()
    };
    assert_eq!(remaining(&first), [1, 0]);
    let second = both().unwrap();
    assert_eq!(
        (second.is_allowed(), remaining(&second)),
        (false, vec![1, 0])
    );

    // A limit with permits is left to operations, and so are all others of the request.
    let jobs = embedded.limit("jobs").unwrap();
    assert!(try_check_all(&embedded, &[(api, "ann"), (jobs, "ann")]).is_none());
    assert_eq!(try_check(&embedded, api, "ann").unwrap().remaining(), 0);
    // The same counter twice is an error, which the operation reports.
    let ask = |list: &mut DirectDemands<'_>| {
        list.add(api, "bob", None)?;
        list.add(api, "bob", None)
    };
    let twice = embedded.try_check(ask, |decision, _| decision.is_allowed());
    assert!(matches!(twice, Err(EmbeddedError::Decide(_))), "{twice:?}");
}

#[test]
fn wrong_calls_say_what_is_right() {
    let embedded = embedded();
    let unknown = embedded.limit("apo").unwrap();
    assert!(try_check(&embedded, unknown, "ann").is_none());
    let api = embedded.limit("api").unwrap();
    assert!(try_check(&embedded, api, "").is_none());
    assert!(
        embedded
            .limit("{")
            .unwrap_err()
            .to_string()
            .contains("expected a name")
    );
    assert!(try_check(&embedded, LimitId(99), "ann").is_none());

    let (status, text) = batch(&embedded, "{}");
    assert_eq!(status, 422);
    assert!(text.contains("missing field `requests`"), "{text}");

    let error = Embedded::open("limits: [{ name: a }]", "t.yaml")
        .unwrap_err()
        .to_string();
    assert!(error.contains("t.yaml"), "{error}");
    let system = Embedded::open(CONFIG, "t.json").unwrap();
    assert!(matches!(
        system.advance(Duration::from_secs(1)),
        Err(EmbeddedError::SystemClock)
    ));
}

fn on_redis(endpoint: &str) -> String {
    format!(
        r#"{{"store": {{"type": "redis", "endpoints": ["{endpoint}"]}},
             "limits": [{{"name": "api", "algorithm": "fixed_window", "limit": 1, "window": "1h",
                          "key": ["user"]}}]}}"#
    )
}

#[test]
fn opening_waits_for_the_store_and_says_why_it_cannot_be_used() {
    let server = Server::builder(Flavor::Redis).password("secret").start();
    Embedded::open(&on_redis(&server.url()), "t.json").expect("a store that can decide");

    let address = server.addr();
    for (endpoint, expected) in [
        (
            format!("redis://{address}"),
            format!("store: cannot use the store: {address}: the server requires a password"),
        ),
        (
            format!("redis://:wrong@{address}"),
            format!("store: cannot use the store: {address}: the server does not accept the user"),
        ),
        (
            "redis://no-such-host.invalid:6379".to_owned(),
            "store: cannot use the store: cannot find the host \"no-such-host.invalid\"".to_owned(),
        ),
        (
            "redis://127.0.0.1:1".to_owned(),
            "store: cannot use the store: cannot connect to 127.0.0.1:1: Connection refused"
                .to_owned(),
        ),
    ] {
        let config = on_redis(&endpoint);
        let error = Embedded::open(&config, "t.json").expect_err("unusable");
        assert!(error.to_string().starts_with(&expected), "{error}");
        Embedded::open_lazy(&config, "t.json").expect("a store may come later");
    }
}

#[test]
fn the_number_of_limits_is_bounded() {
    let embedded = embedded();
    for number in 0..LIMITS_MAX {
        embedded.limit(&format!("limit-{number}")).unwrap();
    }
    assert!(matches!(
        embedded.limit("one-more"),
        Err(EmbeddedError::TooManyLimits { .. })
    ));
    assert_eq!(embedded.limit("limit-7").unwrap(), LimitId(7));
}
