//! `tollgate_request_errors_total`: every front counts the requests that it answers with an error,
//! under the same codes.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use testkit::reverse_proxy;
use tollgate_envoy::{Code, CommitRequest, RateLimitDescriptor, RateLimitRequest, ReserveRequest};

use crate::grpc::client::{Client, SHOULD_RATE_LIMIT};
use crate::grpc::reservations::{COMMIT, RESERVE};
use crate::grpc::{about, described, request};
use crate::harness::Tollgate;
use crate::resp::connect;

const LIMITS: &str = "
limits:
  - { name: address, key: [client_ip], algorithm: fixed_window, limit: 9, window: 1h, optional: true }
  - { name: api, key: [user], algorithm: fixed_window, limit: 9, window: 1h, optional: true,
      cost: { by: pages, default: 1 } }
  - { name: pair, key: [user, tenant], algorithm: fixed_window, limit: 9, window: 1h }
";
const TOKENS: &str = "
server:
  tokens:
    - { name: shop, token: correct-horse-battery, allow: [check] }
    - { name: idle, token: correct-horse-staple-1, allow: [peek] }
";

/// The counts by code.
fn errors(service: &Tollgate) -> BTreeMap<String, u64> {
    let page = reverse_proxy::get(service.admin, "/metrics", &[]).text();
    let samples = page.lines().filter_map(|line| {
        let (code, count) = line
            .strip_prefix("tollgate_request_errors_total{code=\"")?
            .split_once("\"} ")?;
        Some((code.to_owned(), count.parse().ok()?))
    });
    samples.collect()
}

fn counts<const N: usize>(expected: [(&str, u64); N]) -> BTreeMap<String, u64> {
    expected
        .map(|(code, count)| (code.to_owned(), count))
        .into()
}

#[test]
fn errors_over_http_are_counted() {
    let service = Tollgate::start();
    assert_eq!(service.check("{").status, 400);
    assert_eq!(service.check(r#"{"limits": ["none"]}"#).status, 422);
    let batch = r#"{"requests": [{"op": "check", "limits": ["none"]}]}"#;
    assert_eq!(service.post("/v1/batch", batch).status, 200);
    let expected = counts([("bad-json", 1), ("unknown-limit", 2)]);
    assert_eq!(errors(&service), expected);
}

#[test]
fn errors_over_grpc_are_counted() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    let long = "x".repeat(5_000);
    let address = about(&[("client_ip", "nowhere")]);
    for denied in [
        address.clone(),
        about(&[("user", "ann"), ("pages", "many")]),
        about(&[("user", &long)]),
        request(vec![described(&[("user", "ann")]); 257]),
    ] {
        assert_eq!(client.ask(&denied).overall_code(), Code::OverLimit);
    }
    assert_eq!(client.fault(&request([])).0, "3");

    let RateLimitRequest {
        domain,
        descriptors,
        ..
    } = address;
    let reserve = ReserveRequest {
        domain: domain.clone(),
        descriptors: descriptors.clone(),
        amount: 1,
        ttl: None,
    };
    assert_eq!(client.call(RESERVE, &reserve).status, "0");
    let commit = CommitRequest {
        domain,
        descriptors,
        reservation_id: String::new(),
        actual_amount: 1,
    };
    assert_eq!(client.call(COMMIT, &commit).status, "3");

    // What does not reach a service: an unknown method, and a message of another kind.
    let nothing = RateLimitDescriptor::default();
    let unknown = format!("{SHOULD_RATE_LIMIT}Now");
    assert_eq!(client.call(&unknown, &nothing).status, "12");
    assert_eq!(client.call(SHOULD_RATE_LIMIT, &7_u64).status, "13");

    // Decisions are no errors.
    assert_eq!(
        client.ask(&about(&[("user", "ann")])).overall_code(),
        Code::Ok
    );
    let expected = counts([
        ("bad-address", 3),
        ("bad-cost", 1),
        ("bad-key", 1),
        ("bad-message", 1),
        ("invalid-request", 1),
        ("not-found", 1),
        ("too-many-limits", 1),
    ]);
    assert_eq!(errors(&service), expected);
}

#[test]
fn errors_over_resp_are_counted() {
    let service = Tollgate::with_resp(LIMITS);
    let mut client = connect(&service);
    for command in [
        &["TOLLGATE.CHECK", "none", "ann"][..],
        &["TOLLGATE.CHECK", "address", "nowhere"],
        &["TOLLGATE.CHECK", "pair", "ann"],
        &["TOLLGATE.CHECK", "api", ""],
        &["TOLLGATE.CHECK", "api"],
        &["CL.THROTTLE", "ann", "many", "1", "60"],
        &["GET", "ann"],
        &["SELECT", "9"],
    ] {
        let reply = client.call(command).expect("a reply");
        assert!(reply.error().is_some(), "{command:?}: {reply:?}");
    }
    for command in [
        &["TOLLGATE.CHECK", "api", "ann"][..],
        &["CL.THROTTLE", "ann", "0", "1", "60"],
        &["CL.THROTTLE", "ann", "0", "1", "60"],
        &["PING"],
    ] {
        let reply = client.call(command).expect("a reply");
        assert_eq!(reply.error(), None, "{command:?}");
    }
    let mut garbage = TcpStream::connect(service.resp()).expect("it listens");
    garbage.write_all(b"*x\r\n").expect("it is open");
    garbage
        .read_to_end(&mut Vec::new())
        .expect("the service closes the connection");

    let expected = counts([
        ("bad-address", 1),
        ("bad-key", 1),
        ("invalid-command", 4),
        ("protocol-error", 1),
        ("unknown-command", 1),
        ("unknown-limit", 1),
    ]);
    assert_eq!(errors(&service), expected);
}

#[test]
fn missing_tokens_and_permissions_are_counted_on_every_front() {
    let service = Tollgate::with_resp(&format!("{TOKENS}{LIMITS}"));
    let body = r#"{"attributes": {"user": "ann", "tenant": "acme"}}"#;
    let ann = about(&[("user", "ann")]);
    let throttle = ["CL.THROTTLE", "ann", "0", "1", "60"];
    for (token, http, grpc) in [
        ("", 401, "16"),
        ("not-the-token-of-anyone", 401, "16"),
        ("correct-horse-staple-1", 403, "7"),
    ] {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", &*bearer)];
        let headers = if token.is_empty() { &[][..] } else { &headers };
        let response =
            reverse_proxy::send(service.http, "POST", "/v1/check", headers, body.as_bytes());
        assert_eq!(response.status, http);

        let client = Client::connect(service.grpc);
        let mut client = match token {
            "" => client,
            _ => client.with_metadata("authorization", &bearer),
        };
        assert_eq!(client.fault(&ann).0, grpc);
    }

    let mut client = connect(&service);
    let mut call = |command: &[&str]| {
        let reply = client.call(command).expect("a reply");
        reply.error().map(str::to_owned)
    };
    assert!(call(&throttle).is_some_and(|error| error.starts_with("NOAUTH")));
    assert!(call(&["AUTH", "not-the-token"]).is_some_and(|error| error.starts_with("WRONGPASS")));
    assert_eq!(call(&["AUTH", "correct-horse-battery"]), None);
    assert!(call(&throttle).is_some_and(|error| error.starts_with("NOPERM")));
    let expected = counts([("no-token", 3), ("wrong-token", 3), ("not-permitted", 3)]);
    assert_eq!(errors(&service), expected);
}

/// A limit that denies because the store is unavailable has decided.
#[test]
fn a_denial_by_failure_policy_is_no_error() {
    let service = Tollgate::with_resp(
        "store: {type: redis, endpoints: ['redis://127.0.0.1:1']}\n\
         defaults: {on_store_failure: deny}\n\
         limits: [{name: api, key: [user], algorithm: fixed_window, limit: 9, window: 1h}]",
    );
    let check = service.check(r#"{"attributes": {"user": "ann"}}"#);
    assert_eq!(check.status, 503);
    let mut client = Client::connect(service.grpc);
    let ann = about(&[("user", "ann")]);
    assert_eq!(client.ask(&ann).overall_code(), Code::OverLimit);
    let reply = connect(&service).call(&["TOLLGATE.CHECK", "api", "ann"]);
    assert!(reply.expect("a reply").error().is_some());
    assert_eq!(errors(&service), BTreeMap::new());

    // A refund has no failure policy.
    let mut refund = ann;
    refund.descriptors[0].is_negative_hits = true;
    assert_eq!(client.fault(&refund).0, "14");
    assert_eq!(errors(&service), counts([("store-unavailable", 1)]));
}
