//! The requests, and the errors that they must get.

use super::{Request, Row, batch_rows, inline_rows};

const CHECK: &str = "/v1/check";
const AUTH: &str = "/v1/forward-auth";

pub(super) fn row(
    what: &'static str,
    request: Request,
    status: u16,
    code: &'static str,
    detail: &'static str,
) -> Row {
    Row {
        what,
        request,
        status,
        code,
        detail,
    }
}

/// A body for `/v1/check`.
pub(super) fn check(body: impl AsRef<[u8]>) -> Request {
    post(CHECK, body)
}

pub(super) fn post(path: &'static str, body: impl AsRef<[u8]>) -> Request {
    Request::Post(path, body.as_ref().to_vec())
}

/// A forward-auth request.
fn auth(path: &'static str, headers: &'static [(&'static str, &'static str)]) -> Request {
    Request::Send("GET", path, headers, b"")
}

fn raw(bytes: impl AsRef<[u8]>) -> Request {
    Request::Raw(bytes.as_ref().to_vec())
}

fn cut_off(bytes: &str) -> Request {
    Request::CutOff(bytes.as_bytes().to_vec())
}

pub(super) fn all() -> Vec<Row> {
    let parts = [
        no_json(),
        other_json(),
        unprocessable(),
        costs(),
        bodies(),
        paths(),
        permits(),
        reservations(),
        proxies(),
        cut_off_bodies(),
        inline_rows::numbers(),
        inline_rows::members(),
        inline_rows::keys(),
        batch_rows::all(),
    ];
    parts.into_iter().flatten().collect()
}

#[rustfmt::skip]
fn no_json() -> Vec<Row> {
    vec![
        row("nothing", check(""), 400, "bad-json", "EOF"),
        row("spaces", check("  \n "), 400, "bad-json", "EOF"),
        row("a word", check("hello"), 400, "bad-json", "line 1 column 1"),
        row("half an object", check(r#"{"attributes": {"client_ip": "203.0.113.7""#), 400, "bad-json", "EOF"),
        row("a comma too many", check(r#"{"attributes": {"client_ip": "203.0.113.7"},}"#), 400, "bad-json", "trailing comma"),
        row("more after the end", check(r#"{"attributes": {"client_ip": "203.0.113.7"}} {}"#), 400, "bad-json", "trailing characters"),
        row("single quotes", check("{'attributes': {}}"), 400, "bad-json", "column 2"),
        row("a comment", check("{/* all */}"), 400, "bad-json", "column 2"),
        row("no UTF-8", check(b"{\"attributes\": {\"client_ip\": \"203.0.113.7\", \"a\": \"\xff\xfe\"}}"), 400, "bad-json", "unicode"),
        row("a mark of UTF-16", check(b"\xfe\xff\0{\0}"), 400, "bad-json", "column 1"),
        row("half a surrogate", check(r#"{"attributes": {"client_ip": "203.0.113.7", "a": "\ud800"}}"#), 400, "bad-json", "hex escape"),
        row("a bare control character", check("{\"attributes\": {\"a\": \"\u{1}\"}}"), 400, "bad-json", "control character"),
        row("not a number", check(r#"{"attributes": {"client_ip": "203.0.113.7"}, "cost": NaN}"#), 400, "bad-json", "expected value"),
        row("more than any number", check(r#"{"attributes": {"client_ip": "203.0.113.7"}, "cost": 1e400}"#), 400, "bad-json", "out of range"),
        row("a leading zero", check(r#"{"attributes": {"client_ip": "203.0.113.7"}, "cost": 01}"#), 400, "bad-json", "invalid number"),
    ]
}

#[rustfmt::skip]
fn other_json() -> Vec<Row> {
    let deep = r#"{"attributes": {"client_ip": "203.0.113.7", "a": "#.to_owned() + &"[".repeat(20_000);
    let long = format!(r#"{{"{}": 1}}"#, "x".repeat(50_000));
    let many = (0..65).map(|n| format!(r#", "a{n}": 1"#)).collect::<Vec<_>>().concat();
    let many = format!(r#"{{"attributes": {{"client_ip": "203.0.113.7"{many}}}}}"#);
    vec![
        row("a list by position", check(r#"[{"client_ip": "203.0.113.7"}]"#), 422, "invalid-body", "expected an object"),
        row("a string", check(r#""check""#), 422, "invalid-body", "expected an object"),
        row("null", check("null"), 422, "invalid-body", "expected an object"),
        row("twenty thousand brackets", check("[".repeat(20_000)), 422, "invalid-body", "expected an object"),
        row("twenty thousand brackets inside", check(deep), 422, "invalid-body", "as the value of an attribute"),
        row("an unknown member", check(r#"{"attribute": {"client_ip": "203.0.113.7"}}"#), 422, "invalid-body", "unknown field `attribute`, expected one of `attributes`, `limits`, `cost`"),
        row("a long unknown member", check(long), 422, "invalid-body", "expected one of `attributes`"),
        row("attributes twice", check(r#"{"attributes": {"client_ip": "203.0.113.7"}, "attributes": {}}"#), 422, "invalid-body", "duplicate field `attributes`"),
        row("cost twice", check(r#"{"attributes": {"client_ip": "203.0.113.7"}, "cost": 1, "cost": 2}"#), 422, "invalid-body", "duplicate field `cost`"),
        row("an attribute twice", check(r#"{"attributes": {"client_ip": "203.0.113.7", "client_ip": "203.0.113.8"}}"#), 422, "invalid-body", "duplicate attribute \"client_ip\""),
        row("a header twice", check(r#"{"attributes": {"header:a": "1", "header:A": "2"}}"#), 422, "invalid-body", "duplicate attribute \"header:A\""),
        row("attributes as a list", check(r#"{"attributes": ["client_ip"]}"#), 422, "invalid-body", "expected an object of attributes"),
        row("attributes null", check(r#"{"attributes": null}"#), 422, "invalid-body", "expected an object of attributes"),
        row("an attribute null", check(r#"{"attributes": {"client_ip": null}}"#), 422, "missing-attribute", "missing attribute `client_ip`"),
        row("an attribute as a list", check(r#"{"attributes": {"client_ip": ["203.0.113.7"]}}"#), 422, "invalid-body", "a string, a whole number or a boolean"),
        row("an attribute as an object", check(r#"{"attributes": {"client_ip": {"v4": "203.0.113.7"}}}"#), 422, "invalid-body", "a string, a whole number or a boolean"),
        row("an attribute as a fraction", check(r#"{"attributes": {"client_ip": "203.0.113.7", "a": 1.5}}"#), 422, "invalid-body", "a string, a whole number or a boolean"),
        row("65 attributes", check(many), 422, "invalid-body", "more than 64 attributes"),
        row("limits as a string", check(r#"{"limits": "address"}"#), 422, "invalid-body", "expected a sequence"),
        row("a limit as a number", check(r#"{"limits": [7]}"#), 422, "invalid-body", "expected the name of a limit, or an object with its name"),
    ]
}

#[rustfmt::skip]
fn unprocessable() -> Vec<Row> {
    let long = format!(r#"{{"attributes": {{"tenant": "{}"}}, "limits": ["reports"]}}"#, "x".repeat(2_000));
    vec![
        row("no limits", check(r#"{"attributes": {"client_ip": "203.0.113.7"}, "limits": []}"#), 422, "no-limits", "leave it out"),
        row("a limit there is not", check(r#"{"attributes": {"client_ip": "203.0.113.7"}, "limits": ["address", "logn"]}"#), 422, "unknown-limit", "unknown limit \"logn\"; expected one of address, login"),
        row("a limit that no file has", check(r#"{"attributes": {"client_ip": "203.0.113.7"}, "limits": ["override:minute"]}"#), 422, "unknown-limit", "override:minute"),
        row("a limit twice", check(r#"{"attributes": {"client_ip": "203.0.113.7"}, "limits": ["address", "address"]}"#), 422, "duplicate-limit", "duplicate limit \"address\""),
        row("129 limits named", check(format!(r#"{{"limits": [{}]}}"#, ["\"many-0\""; 129].join(","))), 422, "too-many-limits", "at most 128"),
        row("no attributes at all", check("{}"), 422, "missing-attribute", "missing attribute `client_ip`: the limit \"address\" counts by it"),
        row("half a key", check(r#"{"attributes": {"client_ip": "203.0.113.7", "path": "/auth/login"}}"#), 422, "missing-attribute", "missing attribute `email`: the limit \"login\" counts by it"),
        row("an empty attribute", check(r#"{"attributes": {"client_ip": "203.0.113.7", "path": "/auth/login", "email": ""}}"#), 422, "missing-attribute", "`email`"),
        row("an empty address", check(r#"{"attributes": {"client_ip": ""}}"#), 422, "missing-attribute", "`client_ip`"),
        row("a peek without a key", post("/v1/peek", "{}"), 422, "missing-attribute", "`client_ip`"),
        row("a refund without a key", post("/v1/refund", "{}"), 422, "missing-attribute", "`client_ip`"),
        row("a name as the address", check(r#"{"attributes": {"client_ip": "localhost"}}"#), 422, "bad-address", "invalid address \"localhost\""),
        row("an address too many", check(r#"{"attributes": {"client_ip": "203.0.113.7, 10.0.0.1"}}"#), 422, "bad-address", "invalid address"),
        row("a number as the address", check(r#"{"attributes": {"client_ip": 3405803783}}"#), 422, "bad-address", "invalid address"),
        row("the unspecified address", check(r#"{"attributes": {"client_ip": "0.0.0.0"}}"#), 422, "bad-address", "invalid address"),
        row("a long address", check(format!(r#"{{"attributes": {{"client_ip": "{}"}}}}"#, "1".repeat(9_000))), 422, "bad-address", "9000 bytes"),
        row("a long key", check(long), 422, "bad-key", "invalid key for the limit \"reports\""),
    ]
}

#[rustfmt::skip]
fn costs() -> Vec<Row> {
    vec![
        row("a negative cost", check(r#"{"attributes": {"client_ip": "203.0.113.7"}, "cost": -1}"#), 422, "invalid-body", "invalid value: integer `-1`"),
        row("half a cost", check(r#"{"attributes": {"client_ip": "203.0.113.7"}, "cost": 0.5}"#), 422, "invalid-body", "floating point `0.5`"),
        row("more than any counter", check(r#"{"attributes": {"client_ip": "203.0.113.7"}, "cost": 18446744073709551616}"#), 422, "invalid-body", "expected u64"),
        row("a cost in words", check(r#"{"attributes": {"client_ip": "203.0.113.7"}, "cost": "1"}"#), 422, "invalid-body", "invalid type: string \"1\""),
        row("pages in words", check(r#"{"attributes": {"client_ip": "203.0.113.7", "tenant": "acme", "path": "/reports/1", "pages": "three"}}"#), 422, "bad-cost", "invalid cost \"three\" in the attribute `pages` for the limit \"reports\""),
        row("fewer than no pages", check(r#"{"attributes": {"client_ip": "203.0.113.7", "tenant": "acme", "path": "/reports/1", "pages": -3}}"#), 422, "bad-cost", "\"-3\""),
        row("a cost with a sign", check(r#"{"attributes": {"client_ip": "203.0.113.7", "tenant": "acme", "path": "/reports/1", "pages": "+3"}}"#), 422, "bad-cost", "\"+3\""),
        row("pages that are a truth", check(r#"{"attributes": {"client_ip": "203.0.113.7", "tenant": "acme", "path": "/reports/1", "pages": true}}"#), 422, "bad-cost", "\"true\""),
    ]
}

#[rustfmt::skip]
fn bodies() -> Vec<Row> {
    let large = format!(r#"{{"attributes": {{"a": "{}"}}}}"#, "x".repeat(70_000));
    let head = "POST /v1/check HTTP/1.1\r\nHost: a\r\n";
    let in_pieces = format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    vec![
        row("no host", raw("GET /healthz HTTP/1.1\r\n\r\n"), 400, "bad-host", "no Host header, which HTTP/1.1 requires"),
        row("two hosts", raw("GET /healthz HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400, "bad-host", "several Host headers"),
        row("an empty host", raw("GET /healthz HTTP/1.1\r\nHost:\r\n\r\n"), 400, "bad-host", "the Host header is \"\""),
        row("an invalid host", raw("GET /healthz HTTP/1.1\r\nHost: a/b\r\n\r\n"), 400, "bad-host", "the Host header is \"a/b\""),
        row("two hosts in HTTP/1.0", raw("GET /healthz HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"), 400, "bad-host", "several Host headers"),
        row("a large body", check(large), 413, "body-too-large", "longer than 65536 bytes"),
        row("a large body in pieces", raw(in_pieces), 413, "body-too-large", "longer than 65536 bytes"),
        row("a large body announced", raw(format!("{head}Content-Length: 999999999999\r\n\r\n{{")), 413, "body-too-large", "longer than 65536 bytes"),
        row("a body cut off", cut_off(&format!("{head}Content-Length: 100\r\n\r\n{{\"attributes\"")), 400, "incomplete-body", "incomplete"),
        row("a body in pieces cut off", cut_off(&format!("{head}Transfer-Encoding: chunked\r\n\r\n20\r\n{{\"attri")), 400, "incomplete-body", "incomplete"),
        row("a body in broken pieces", raw(format!("{head}Transfer-Encoding: chunked\r\n\r\nsix\r\n{{}}\r\n0\r\n\r\n")), 400, "incomplete-body", "incomplete"),
        row("a form", Request::Send("POST", CHECK, &[("content-type", "application/x-www-form-urlencoded")], b"client_ip=203.0.113.7"), 400, "bad-json", "expected value"),
        row("a form in parts", Request::Send("POST", CHECK, &[("content-type", "multipart/form-data; boundary=x")], b"--x\r\n\r\n{}\r\n--x--"), 400, "bad-json", "invalid number"),
        row("a packed body", Request::Send("POST", CHECK, &[("content-type", "application/json"), ("content-encoding", "gzip")], b"\x1f\x8b\x08\x00"), 400, "bad-json", "line 1 column 1"),
    ]
}

#[rustfmt::skip]
fn paths() -> Vec<Row> {
    vec![
        row("a check by GET", auth(CHECK, &[]), 405, "method-not-allowed", "the method is GET; it must be POST"),
        row("a check by PUT", Request::Send("PUT", CHECK, &[], b"{}"), 405, "method-not-allowed", "PUT"),
        row("a check by an unknown method", Request::Send("CHECK", CHECK, &[], b"{}"), 405, "method-not-allowed", "CHECK"),
        row("what may be done with a check", Request::Send("OPTIONS", CHECK, &[], b""), 405, "method-not-allowed", "OPTIONS"),
        row("a peek by DELETE", Request::Send("DELETE", "/v1/peek", &[], b""), 405, "method-not-allowed", "POST"),
        row("a refund by PATCH", Request::Send("PATCH", "/v1/refund", &[], b"{}"), 405, "method-not-allowed", "POST"),
        row("a release by GET", auth("/v1/release", &[]), 405, "method-not-allowed", "POST"),
        row("health by POST", post("/healthz", "{}"), 405, "method-not-allowed", "GET or HEAD"),
        row("readiness by POST", post("/readyz", "{}"), 405, "method-not-allowed", "GET or HEAD"),
        row("the description by POST", post("/openapi.json", "{}"), 405, "method-not-allowed", "GET or HEAD"),
        row("nowhere", auth("/v1/chekc", &[]), 404, "not-found", "unknown path \"/v1/chekc\""),
        row("the root", auth("/", &[]), 404, "not-found", "/openapi.json"),
        row("a slash too many", post("/v1/check/", "{}"), 404, "not-found", "\"/v1/check/\""),
        row("a double slash", post("//v1/check", "{}"), 404, "not-found", "\"//v1/check\""),
        row("capitals", post("/V1/Check", "{}"), 404, "not-found", "\"/V1/Check\""),
        row("an escaped path", post("/v1/%63heck", "{}"), 404, "not-found", "%63heck"),
        row("percent and garbage", auth("/%zz%00%", &[]), 404, "not-found", "%zz%00%"),
        row("up and away", auth("/v1/../../etc/passwd", &[]), 404, "not-found", ".."),
        row("almost forward-auth", auth("/v1/forward-authx", &[]), 404, "not-found", "forward-authx"),
        row("administration", auth("/metrics", &[]), 404, "not-found", "/metrics"),
        row("everything", Request::Send("OPTIONS", "*", &[], b""), 404, "not-found", "\"*\""),
    ]
}

#[rustfmt::skip]
fn permits() -> Vec<Row> {
    vec![
        row("a release of nothing", post("/v1/release", "{}"), 422, "invalid-body", "missing field `permit`"),
        row("an empty permit", post("/v1/release", r#"{"permit": ""}"#), 422, "bad-permit", "the token returned by /v1/check"),
        row("not a token", post("/v1/release", r#"{"permit": "let me out"}"#), 422, "bad-permit", "invalid permit"),
        row("a token of other bytes", post("/v1/release", r#"{"permit": "AQIDBAUGBwgJCgsMDQ4P"}"#), 422, "bad-permit", "invalid permit"),
        row("a permit without counters", post("/v1/release", r#"{"permit": "BeBCVsEHAAAAAAAAAAAAAAAAAAAAANF-XHv63oD4s_XGOL51jg"}"#), 422, "bad-permit", "invalid permit"),
        row("a permit of another limit", post("/v1/release", r#"{"permit": "BeBCVsEHAAAAAAAAAAAAAAAAAAAAMUIfCPe3rQcySTgzhNerdeoLR9JlQ6urBvKDjRjohA"}"#), 422, "unknown-limit", "nope"),
        row("a permit as a number", post("/v1/release", r#"{"permit": 7}"#), 422, "invalid-body", "expected a string"),
        row("a permit as null", post("/v1/release", r#"{"permit": null}"#), 422, "invalid-body", "expected a string"),
        row("a permit and more", post("/v1/release", r#"{"permit": "A", "all": true}"#), 422, "invalid-body", "unknown field `all`"),
        row("a long permit", post("/v1/release", format!(r#"{{"permit": "{}"}}"#, "A".repeat(60_000))), 422, "bad-permit", "invalid permit"),
    ]
}

#[rustfmt::skip]
fn reservations() -> Vec<Row> {
    const PERMIT: &str = "BeBCVsEHAAAAAAAAAAAAAAAAAAAAMUIfCPe3rQcySTgzhNerdeoLR9JlQ6urBvKDjRjohA";
    const NOPE: &str = "BuBCVsEHAAAAAAAAAAAAAAAAAAAAR1cFmb1Ai2T0QqvFedlU9BYfSAZsdUvxtuTZZe0BNoauchdZ5BmtuQ";
    let reserve = |more: &str| post("/v1/reserve", format!(r#"{{"limits": [{{"name": "chat", "key": "ann", "algorithm": "fixed_window", "limit": 10, "window": "1m"}}]{more}}}"#));
    let settle = |token: &str, more: &str| post("/v1/settle", format!(r#"{{"reservation": "{token}"{more}}}"#));
    vec![
        row("a time of 0", reserve(r#", "ttl": "0s""#), 422, "bad-ttl", "between 1ms and 1h"),
        row("a time without a unit", reserve(r#", "ttl": "60""#), 422, "bad-ttl", "invalid `ttl` \"60\""),
        row("a time as a number", reserve(r#", "ttl": 60"#), 422, "invalid-body", "expected a string"),
        row("a time that is too long", reserve(r#", "ttl": "2h""#), 422, "bad-ttl", "between 1ms and 1h"),
        row("a time that is too short", reserve(r#", "ttl": "1us""#), 422, "bad-ttl", "between 1ms and 1h"),
        row("a negative time", reserve(r#", "ttl": "-1s""#), 422, "bad-ttl", "such as \"60s\""),
        row("a negative estimate", reserve(r#", "cost": -20"#), 422, "invalid-body", "-20"),
        row("an estimate with a fraction", reserve(r#", "cost": 1.5"#), 422, "invalid-body", "1.5"),
        row("an estimate that is too large", reserve(r#", "cost": 18446744073709551616"#), 422, "invalid-body", "u64"),
        row("a count that is reserved", reserve(r#", "count": true"#), 422, "bad-count", "use /v1/check"),
        row("tokens as a number", reserve(r#", "tokens": 7"#), 422, "invalid-body", "an object of token counts"),
        row("tokens as a list", reserve(r#", "tokens": [7]"#), 422, "invalid-body", "an object of token counts"),
        row("negative tokens", reserve(r#", "tokens": {"input": -1}"#), 422, "bad-tokens", "invalid number of tokens -1 for `input`"),
        row("a kind of tokens that no limit counts", reserve(r#", "tokens": {"inptu": 1}"#), 422, "bad-tokens", "did you mean `input`?"),
        row("an attribute of tokens that no limit counts", reserve(r#", "attributes": {"tokens.inptu": 1}"#), 422, "bad-tokens", "did you mean `input`?"),
        row("tokens that are null", reserve(r#", "tokens": null"#), 422, "invalid-body", "an object of token counts"),
        row("no tokens", reserve(r#", "tokens": {}"#), 422, "bad-tokens", "no number that a limit counts"),
        row("only a total of tokens", reserve(r#", "tokens": {"total_tokens": 900}"#), 422, "bad-tokens", "no number that a limit counts"),
        row("no number of tokens", reserve(r#", "tokens": {"input": null}"#), 422, "bad-tokens", "no number that a limit counts"),
        row("tokens by two names", reserve(r#", "tokens": {"input": 1, "prompt_tokens": 1}"#), 422, "bad-tokens", "`input` and `prompt_tokens`"),
        row("an estimate beyond 2^53", reserve(r#", "cost": 9007199254740993"#), 422, "bad-cost", "up to 9007199254740992"),
        row("tokens as a text", reserve(r#", "tokens": {"input": "1"}"#), 422, "bad-tokens", "must be a whole number"),
        row("a kind of tokens twice", reserve(r#", "tokens": {"input": 1, "input": 2}"#), 422, "invalid-body", "duplicate kind of tokens"),
        row("tokens and their attribute", reserve(r#", "tokens": {"input": 1}, "attributes": {"tokens.input": 2}"#), 422, "bad-tokens", "tokens.input"),
        row("too many kinds of tokens", reserve(&format!(r#", "tokens": {{{}}}"#, (0..33).map(|n| format!(r#""k{n}": 1"#)).collect::<Vec<_>>().join(", "))), 422, "invalid-body", "more than 32 kinds of tokens"),
        row("a reservation without limits", post("/v1/reserve", r#"{"limits": []}"#), 422, "no-limits", "empty"),
        row("a check with a time", post("/v1/check", r#"{"attributes": {"client_ip": "203.0.113.7"}, "ttl": "1s"}"#), 422, "bad-ttl", "use /v1/reserve"),
        row("a peek that counts", post("/v1/peek", r#"{"attributes": {"client_ip": "203.0.113.7"}, "count": true}"#), 422, "bad-count", "use /v1/check"),
        row("a refund that counts", post("/v1/refund", r#"{"attributes": {"client_ip": "203.0.113.7"}, "count": true}"#), 422, "bad-count", "refund"),
        row("a count as a number", post("/v1/check", r#"{"attributes": {"client_ip": "203.0.113.7"}, "count": 1}"#), 422, "invalid-body", "expected a boolean"),
        row("a settlement of nothing", post("/v1/settle", "{}"), 422, "invalid-body", "missing field `reservation`"),
        row("a settlement without a cost", settle(NOPE, ""), 422, "no-actual", "missing field `actual`"),
        row("a negative cost", settle(NOPE, r#", "actual": -1"#), 422, "invalid-body", "-1"),
        row("a cost with a fraction", settle(NOPE, r#", "actual": 0.5"#), 422, "invalid-body", "0.5"),
        row("a cost that is too large", settle(NOPE, r#", "actual": 1e30"#), 422, "invalid-body", "invalid type"),
        row("an empty reservation", settle("", r#", "actual": 1"#), 422, "bad-reservation", "the token returned by /v1/reserve"),
        row("a reservation that is no token", settle("mine!", r#", "actual": 1"#), 422, "bad-reservation", "invalid reservation"),
        row("a permit as a reservation", settle(PERMIT, r#", "actual": 1"#), 422, "bad-reservation", "invalid reservation"),
        row("a reservation without counters", settle("BuBCVsEHAAAAAAAAAAAAAAAAAAAAlNf2ogmK-ov9Iv2hU3kh-g", r#", "actual": 1"#), 422, "bad-reservation", "invalid reservation"),
        row("a settlement with tokens that no limit counts", settle(NOPE, r#", "tokens": {"total": 9}"#), 422, "bad-tokens", "unknown kind of tokens \"total\""),
        row("a reservation of another limit", settle(NOPE, r#", "actual": 1"#), 422, "unknown-limit", "nope"),
        row("a reservation as a permit", post("/v1/release", format!(r#"{{"permit": "{NOPE}"}}"#)), 422, "bad-permit", "invalid permit"),
        row("a settlement and more", settle(NOPE, r#", "actual": 1, "cost": 1"#), 422, "invalid-body", "unknown field `cost`"),
        row("a cancellation of nothing", post("/v1/cancel", "{}"), 422, "invalid-body", "missing field `reservation`"),
        row("a cancellation with a cost", post("/v1/cancel", format!(r#"{{"reservation": "{NOPE}", "actual": 1}}"#)), 422, "invalid-body", "unknown field `actual`"),
        row("a cancellation of a permit", post("/v1/cancel", format!(r#"{{"reservation": "{PERMIT}"}}"#)), 422, "bad-reservation", "invalid reservation"),
        row("a reservation by GET", Request::Send("GET", "/v1/reserve", &[], b""), 405, "method-not-allowed", "POST"),
        row("a settlement by PUT", Request::Send("PUT", "/v1/settle", &[], b""), 405, "method-not-allowed", "POST"),
    ]
}

#[rustfmt::skip]
fn proxies() -> Vec<Row> {
    vec![
        row("a proxy that says nothing", auth(AUTH, &[]), 400, "missing-original-request", "X-Original-URI and X-Original-Method (nginx)"),
        row("nginx without a path", auth("/v1/forward-auth?proxy=nginx", &[("X-Original-Method", "GET")]), 400, "missing-original-request", "missing header X-Original-URI"),
        row("nginx with the headers of Traefik", auth("/v1/forward-auth?proxy=nginx", &[("X-Forwarded-Uri", "/")]), 400, "missing-original-request", "missing header X-Original-URI"),
        row("Traefik without a path", auth("/v1/forward-auth?proxy=traefik", &[("X-Original-URI", "/")]), 400, "missing-original-request", "missing header X-Forwarded-Uri"),
        row("Envoy without a path", auth("/v1/forward-auth?proxy=envoy", &[]), 400, "missing-original-request", "after /v1/forward-auth"),
        row("two proxies at once", auth(AUTH, &[("X-Original-URI", "/"), ("X-Forwarded-Uri", "/b")]), 400, "conflicting-original-request", "name your proxy"),
        row("Envoy and a client that plays nginx", auth("/v1/forward-auth/a", &[("X-Original-URI", "/b")]), 400, "conflicting-original-request", "name your proxy"),
        row("a path twice", auth("/v1/forward-auth?proxy=nginx", &[("X-Original-URI", "/"), ("X-Original-URI", "/b")]), 400, "invalid-original-request", "duplicate header x-original-uri"),
        row("a method twice", auth("/v1/forward-auth?proxy=caddy", &[("X-Forwarded-Uri", "/"), ("X-Forwarded-Method", "GET"), ("X-Forwarded-Method", "PUT")]), 400, "invalid-original-request", "duplicate header x-forwarded-method"),
        row("another proxy", auth("/v1/forward-auth?proxy=squid", &[("X-Original-URI", "/")]), 400, "unknown-proxy", "\"squid\"; expected nginx, traefik, caddy or envoy"),
        row("a proxy without a name", auth("/v1/forward-auth?proxy", &[("X-Original-URI", "/")]), 400, "unknown-proxy", "nginx"),
        row("a status in words", auth("/v1/forward-auth?deny_status=forbidden", &[("X-Original-URI", "/")]), 400, "bad-deny-status", "\"forbidden\"; it must be a number from 400 to 499"),
        row("a status of success", auth("/v1/forward-auth?deny_status=200", &[("X-Original-URI", "/")]), 400, "bad-deny-status", "\"200\""),
        row("a status of failure", auth("/v1/forward-auth?deny_status=500", &[("X-Original-URI", "/")]), 400, "bad-deny-status", "\"500\""),
        row("a status with a sign", auth("/v1/forward-auth?deny_status=+403", &[("X-Original-URI", "/")]), 400, "bad-deny-status", "\"+403\""),
        row("a status twice", auth("/v1/forward-auth?deny_status=403&deny_status=429", &[("X-Original-URI", "/")]), 400, "duplicate-parameter", "duplicate parameter deny_status"),
        row("a parameter there is not", auth("/v1/forward-auth?limit=login", &[("X-Original-URI", "/")]), 400, "unknown-parameter", "\"limit\"; expected proxy or deny_status"),
        row("a parameter without a name", auth("/v1/forward-auth?=403", &[("X-Original-URI", "/")]), 400, "unknown-parameter", "proxy or deny_status"),
        row("a request without its key", auth("/v1/forward-auth?proxy=nginx", &[("X-Original-URI", "/secret")]), 422, "missing-attribute", "`header:x-api-key`"),
    ]
}

#[rustfmt::skip]
fn cut_off_bodies() -> Vec<Row> {
    vec![
        row("HTTP/1.0 without a body", cut_off("POST /v1/check HTTP/1.0\r\n\r\n"), 400, "bad-json", "EOF"),
    ]
}

/// Requests that are not HTTP/1.1, or whose head is too large, with the status of the response.
#[rustfmt::skip]
pub(super) fn no_http() -> Vec<(&'static str, Vec<u8>, u16)> {
    let many = (0..10_000).map(|n| format!("X-{n}: 1\r\n")).collect::<Vec<_>>().concat();
    let long = "a".repeat(1 << 20);
    vec![
        ("ten thousand headers", format!("GET /healthz HTTP/1.1\r\nHost: a\r\n{many}\r\n").into(), 431),
        ("a header of a megabyte", format!("GET /healthz HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n").into(), 431),
        ("noise", b"\x00\x01\x02\xff\r\n\r\n".into(), 400),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".into(), 400),
        ("a version to come", b"GET / HTTP/9.9\r\nHost: a\r\n\r\n".into(), 400),
        ("no version", b"GET /\r\n\r\n".into(), 400),
        ("a space in the path", b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n".into(), 400),
        ("a header without a colon", b"GET / HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n".into(), 400),
        ("a header with a zero", b"GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n".into(), 400),
        ("a folded header", b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n".into(), 400),
        ("two lengths", b"POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}".into(), 400),
        ("a negative length", b"POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n{}".into(), 400),
        ("an unknown transfer encoding", b"POST /v1/check HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n{}".into(), 400),
    ]
}
