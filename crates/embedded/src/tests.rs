use std::sync::mpsc;
use std::time::Duration;

use super::*;

const CONFIG: &str = r#"{"limits": [
    {"name": "api", "key": ["key"], "algorithm": "fixed_window", "limit": 2, "window": "10s"},
    {"name": "jobs", "key": ["key"], "algorithm": "concurrency", "limit": 1,
     "permit_timeout": "1m"}]}"#;

fn embedded() -> Embedded {
    Embedded::open_for_tests(CONFIG, "t.json").expect("a valid configuration")
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

    let first = embedded.try_check(api, "ann", None).unwrap().unwrap();
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

    let third = embedded.try_check(api, "ann", None).unwrap().unwrap();
    assert!(!third.is_allowed());
    embedded.advance(Duration::from_secs(10)).unwrap();
    let later = embedded.try_check(api, "ann", None).unwrap().unwrap();
    assert!(later.is_allowed());
}

#[test]
fn a_limit_of_the_program_is_found_again_and_checked_without_waiting() {
    let embedded = embedded();
    let text = r#"{"name": "own", "algorithm": "sliding_log", "limit": 1, "window": "1s"}"#;
    let own = embedded.limit(text).unwrap();
    assert_eq!(embedded.limit(text).unwrap(), own);
    assert_ne!(embedded.limit("api").unwrap(), own);

    let allowed = |key| {
        embedded
            .try_check(own, key, None)
            .unwrap()
            .unwrap()
            .is_allowed()
    };
    assert_eq!(
        [allowed("a"), allowed("a"), allowed("b")],
        [true, false, true]
    );
}

#[test]
fn a_limit_with_permits_is_left_to_operations() {
    let embedded = embedded();
    let jobs = embedded.limit("jobs").unwrap();
    assert!(embedded.try_check(jobs, "ann", None).unwrap().is_none());

    let check = r#"{"requests": [{"op": "check", "limits": [{"name": "jobs", "key": "ann"}]}]}"#;
    let (_, first) = batch(&embedded, check);
    assert!(
        first.contains(r#""permit":"#),
        "nothing was charged before: {first}"
    );
    let (_, second) = batch(&embedded, check);
    assert!(second.contains(r#""allowed":false"#), "{second}");
}

/// What depends on more than the key is left to operations, which select.
#[test]
fn only_plain_limits_are_decided_without_waiting() {
    let config = "
hash_secret: correct-horse-battery-staple
hash_keys: [email]
limits:
  - { name: plain, key: [user], cost: 3, algorithm: sliding_log, limit: 9, window: 1s }
  - { name: hashed, key: [email], algorithm: sliding_log, limit: 9, window: 1s }
  - { name: lower, key: ['lower(user)'], algorithm: sliding_log, limit: 9, window: 1s }
  - { name: address, key: [client_ip], algorithm: sliding_log, limit: 9, window: 1s }
  - { name: pair, key: [user, route], algorithm: sliding_log, limit: 9, window: 1s }
  - { name: priced, key: [user], cost: { by: size }, algorithm: sliding_log, limit: 9, window: 1s }
";
    let embedded = Embedded::open_for_tests(config, "t.yaml").expect("a valid configuration");
    let try_check = |name: &str| {
        let limit = embedded.limit(name).unwrap();
        embedded.try_check(limit, "10.0.0.1", None).unwrap()
    };

    assert_eq!(try_check("plain").unwrap().remaining(), 6);
    for name in ["hashed", "lower", "address", "pair", "priced"] {
        assert!(try_check(name).is_none(), "{name}");
    }
    let body =
        r#"{"requests": [{"op": "peek", "limits": [{"name": "plain", "key": "10.0.0.1"}]}]}"#;
    let (_, peek) = batch(&embedded, body);
    assert!(peek.contains(r#""used":3"#), "the same counter: {peek}");
}

#[test]
fn wrong_calls_say_what_is_right() {
    let embedded = embedded();
    let unknown = embedded.limit("apo").unwrap();
    assert!(embedded.try_check(unknown, "ann", None).unwrap().is_none());
    let api = embedded.limit("api").unwrap();
    assert!(embedded.try_check(api, "", None).unwrap().is_none());
    assert!(
        embedded
            .limit("{")
            .unwrap_err()
            .to_string()
            .contains("expected a name")
    );
    let error = embedded.try_check(LimitId(99), "ann", None).unwrap_err();
    assert!(matches!(error, EmbeddedError::Limit), "{error}");

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
