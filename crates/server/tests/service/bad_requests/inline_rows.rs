//! Requests that bring invalid limits along, and the errors that they must get.

use super::Row;
use super::rows::{check, post, row};

/// A check of one limit with these members.
fn limit(members: &str) -> String {
    format!(
        r#"{{"attributes": {{"client_ip": "203.0.113.7"}}, "limits": ["address", {{{members}}}]}}"#
    )
}

/// A check of the limit `chat` with these further members.
fn chat(members: &str) -> String {
    limit(&format!(r#""name": "chat", "key": "ann", {members}"#))
}

/// A check of a sliding log with these further members.
fn log(members: &str) -> String {
    chat(&format!(r#""algorithm": "sliding_log", {members}"#))
}

#[rustfmt::skip]
pub(super) fn numbers() -> Vec<Row> {
    let nested = log(&format!(r#""limit": {}, "window": "1h""#, "[".repeat(5_000) + &"]".repeat(5_000)));
    vec![
        row("a limit of nothing", check(log(r#""limit": 0, "window": "1h""#)), 422, "bad-limit", "limits[chat].limit: invalid number \"0\": must be between 1 and 9007199254740992 (2^53)"),
        row("a negative limit", check(log(r#""limit": -5, "window": "1h""#)), 422, "bad-limit", "invalid number \"-5\": expected a whole number"),
        row("a limit and a half", check(log(r#""limit": 1.5, "window": "1h""#)), 422, "bad-limit", "invalid number \"1.5\""),
        row("a huge limit", check(log(r#""limit": 9007199254740993, "window": "1h""#)), 422, "bad-limit", "must be between 1 and 9007199254740992"),
        row("a limit beyond all numbers", check(log(r#""limit": 18446744073709551616, "window": "1h""#)), 422, "bad-limit", "invalid number"),
        row("a limit of truth", check(log(r#""limit": true, "window": "1h""#)), 422, "bad-limit", "invalid number \"true\""),
        row("a limit in a list", check(log(r#""limit": [5], "window": "1h""#)), 422, "bad-limit", "limits[chat].limit: found a list; expected a whole number"),
        row("a limit in five thousand lists", check(nested), 422, "bad-limit", "recursion limit exceeded"),
        row("a window without a unit", check(log(r#""limit": 5, "window": "60""#)), 422, "bad-limit", "limits[chat].window: invalid duration \"60\": the unit is missing; write 60s or 60ms"),
        row("a window as a number", check(log(r#""limit": 5, "window": 60"#)), 422, "bad-limit", "write 60s or 60ms"),
        row("a window of a rate", check(log(r#""limit": 5, "window": "1/s""#)), 422, "bad-limit", "expected a number with a unit, such as 10ms"),
        row("a window of nothing", check(log(r#""limit": 5, "window": "0s""#)), 422, "bad-limit", "must be between 1ms and 3653d"),
        row("a window that is missing", check(log(r#""limit": 5"#)), 422, "bad-limit", "missing field `window`; sliding_log requires it"),
        row("a window that is null", check(log(r#""limit": 5, "window": null"#)), 422, "bad-limit", "missing field `window`"),
        row("a rate without a period", check(chat(r#""algorithm": "token_bucket", "capacity": 5, "refill_rate": "10""#)), 422, "bad-limit", "the period is missing; write 10/s or 10/m"),
        row("a bucket with a window", check(chat(r#""algorithm": "token_bucket", "limit": 5, "window": "1h""#)), 422, "bad-limit", "`limit` is only for"),
        row("too many in flight", check(chat(r#""algorithm": "concurrency", "limit": 65537, "permit_timeout": "1s""#)), 422, "bad-limit", "must be between 1 and 65536"),
        row("two mistakes", check(log(r#""limit": 0, "window": "0s""#)), 422, "bad-limit", "(and 1 more error)"),
    ]
}

#[rustfmt::skip]
pub(super) fn members() -> Vec<Row> {
    let long = log(&format!(r#""limit": 5, "window": "1h", "{}": 1"#, "x".repeat(5_000)));
    let good = r#""algorithm": "sliding_log", "limit": 5, "window": "1h""#;
    vec![
        row("an empty limit", check(limit("")), 422, "bad-limit", "limits[1].name: missing field `name`"),
        row("a limit without a name", check(limit(&format!(r#""key": "ann", {good}"#))), 422, "bad-limit", "missing field `name`"),
        row("a name with a space", check(limit(&format!(r#""name": "a b", "key": "ann", {good}"#))), 422, "bad-limit", "limits[1].name: invalid name \"a b\": expected 1 to 47 letters"),
        row("a long name", check(limit(&format!(r#""name": "{}", "key": "ann", {good}"#, "x".repeat(48)))), 422, "bad-limit", "expected 1 to 47 letters"),
        row("a name as a number", check(limit(&format!(r#""name": [7], "key": "ann", {good}"#))), 422, "bad-limit", "limits[1].name: found a list"),
        row("a reserved name", check(limit(&format!(r#""name": "override:day", "key": "ann", {good}"#))), 422, "bad-limit", "the prefix `override:` is reserved"),
        row("the name of a configured limit", check(limit(&format!(r#""name": "login", "key": "ann", {good}"#))), 422, "limit-is-configured", "the limit \"login\" is configured: send only `name`, `key` and `cost`"),
        row("one number of a configured limit", check(limit(r#""name": "login", "limit": 500"#)), 422, "limit-is-configured", "\"login\""),
        row("an unknown limit with a key", check(limit(r#""name": "chat", "key": "ann""#)), 422, "unknown-limit", "unknown limit \"chat\""),
        row("no algorithm", check(chat(r#""limit": 5, "window": "1h""#)), 422, "bad-limit", "limits[chat].algorithm: missing field `algorithm`; expected fixed_window"),
        row("almost an algorithm", check(chat(r#""algorithm": "sliding-log""#)), 422, "bad-limit", "did you mean `sliding_log`?"),
        row("almost a field", check(log(r#""limits": 5, "window": "1h""#)), 422, "bad-limit", "limits[chat].limits: unknown field `limits`; did you mean `limit`?"),
        row("a field of the file alone", check(chat(&format!(r#"{good}, "match": {{"path": "/"}}"#))), 422, "bad-limit", "unknown field `match`"),
        row("a long field", check(long), 422, "bad-limit", "unknown field \"xxx"),
        row("a field twice", check(log(r#""limit": 5, "limit": 500, "window": "1h""#)), 422, "invalid-body", "duplicate field `limit`"),
        row("a key twice", check(chat(&format!(r#"{good}, "key": "bob""#))), 422, "invalid-body", "duplicate field `key`"),
        row("almost a consistency", check(chat(&format!(r#"{good}, "consistency": "lease""#))), 422, "bad-limit", "did you mean `leased`?"),
        row("a policy there is not", check(chat(&format!(r#"{good}, "on_store_failure": "panic""#))), 422, "bad-limit", "expected allow, deny or local"),
    ]
}

#[rustfmt::skip]
pub(super) fn keys() -> Vec<Row> {
    let good = r#""name": "chat", "algorithm": "sliding_log", "limit": 5, "window": "1h""#;
    let with = |members: &str| limit(&format!("{good}, {members}"));
    vec![
        row("no key", check(limit(good)), 422, "bad-key", "missing field `key` of the limit \"chat\""),
        row("a key that is null", check(with(r#""key": null"#)), 422, "bad-key", "missing field `key`"),
        row("an empty key", check(with(r#""key": """#)), 422, "bad-key", "invalid key for the limit \"chat\""),
        row("a long key of a request", check(with(&format!(r#""key": "{}""#, "x".repeat(2_000)))), 422, "bad-key", "key has 2003 bytes"),
        row("a key as a list", check(with(r#""key": ["ann"]"#)), 422, "invalid-body", "a string, a whole number or a boolean"),
        row("a key as an object", check(with(r#""key": {"user": "ann"}"#)), 422, "invalid-body", "a string, a whole number or a boolean"),
        row("a key that is half a number", check(with(r#""key": 1.5"#)), 422, "invalid-body", "a string, a whole number or a boolean"),
        row("a negative cost of one limit", check(with(r#""key": "ann", "cost": -1"#)), 422, "invalid-body", "invalid value: integer `-1`"),
        row("a cost of one limit in words", check(with(r#""key": "ann", "cost": "1""#)), 422, "invalid-body", "invalid type: string \"1\""),
        row("one counter twice", check(format!(r#"{{"limits": [{{{good}, "key": "ann"}}, {{{good}, "key": "ann"}}]}}"#)), 422, "duplicate-limit", "duplicate limit \"chat\""),
        row("one key for two attributes", check(limit(r#""name": "login", "key": "ann@example.com""#)), 422, "bad-key", "it counts by `client_ip`, `email`; leave out `key` and send `attributes`"),
        row("a key for one counter for all", check(limit(r#""name": "many-0", "key": "ann""#)), 422, "bad-key", "leave out `key`"),
        row("a key that is no address", check(r#"{"limits": [{"name": "address", "key": "home"}]}"#), 422, "bad-address", "invalid address \"home\""),
        row("a peek with a wrong limit", post("/v1/peek", limit(r#""name": "chat", "window": 1"#)), 422, "bad-limit", "missing field `algorithm`"),
        row("a refund with a wrong limit", post("/v1/refund", limit(r#""name": "chat", "window": 1"#)), 422, "bad-limit", "missing field `algorithm`"),
        row("a refund of half a limit", post("/v1/refund", limit(r#""name": "reports""#)), 422, "missing-attribute", "`tenant`"),
    ]
}
