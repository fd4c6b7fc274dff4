//! Limits that requests bring along, and keys that they give for configured limits.

mod metrics;
mod stores;

use serde_json::{Value, json};
use testkit::reverse_proxy::{self, Response};

use crate::harness::Tollgate;

/// Three of these per hour and key.
const CHAT: &str = r#"{"limits": [{"name": "chat", "key": "user:42", "algorithm": "sliding_log", "limit": 3, "window": "1h"}]}"#;

pub(super) fn body(response: &Response) -> Value {
    serde_json::from_slice(&response.body).expect("JSON")
}

/// What the only limit of a response has left.
pub(super) fn remaining(response: &Response) -> Value {
    body(response)["limits"][0]["remaining"].clone()
}

#[test]
fn a_limit_of_the_request_needs_no_file() {
    let service = Tollgate::start();
    let statuses: Vec<u16> = (0..4).map(|_| service.check(CHAT).status).collect();
    assert_eq!(statuses, [200, 200, 200, 429]);
    let denied = service.check(CHAT);
    assert_eq!(body(&denied)["violated-policies"], json!(["chat"]));
    assert_eq!(denied.header("x-ratelimit-limit"), Some("3"));

    assert_eq!(service.post("/v1/refund", CHAT).status, 200);
    assert_eq!(remaining(&service.post("/v1/peek", CHAT)), 1);

    let another = |from: &str, to: &str| remaining(&service.check(&CHAT.replace(from, to)));
    assert_eq!(another("user:42", "user:43"), 2, "another key");
    assert_eq!(another("chat", "chats"), 2, "another name");
    assert_eq!(another("1h", "2h"), 2, "another window");
    assert_eq!(
        another("sliding_log", "sliding_window"),
        2,
        "another algorithm"
    );
    assert_eq!(another("\"limit\": 3", "\"limit\": 5"), 2, "a larger limit");
    // Spaces and the order of members mean nothing.
    let other_text = r#"{"limits":[{"window":"60m","limit":"3","key":"user:42","algorithm":"sliding_log","name":"chat"}]}"#;
    assert_eq!(remaining(&service.post("/v1/peek", other_text)), 0);
}

/// The same requests, once with a configured limit and once with its numbers.
#[test]
fn a_limit_of_the_request_decides_like_one_of_the_file() {
    let kinds = [
        r#""algorithm": "fixed_window", "limit": 3, "window": "1h""#,
        r#""algorithm": "fixed_window", "limit": 3, "window": "1month", "align": "clock""#,
        r#""algorithm": "sliding_window", "limit": 3, "window": "1h""#,
        r#""algorithm": "sliding_log", "limit": 3, "window": "1h""#,
        r#""algorithm": "token_bucket", "capacity": 3, "refill_rate": "1/h""#,
        r#""algorithm": "leaky_bucket", "capacity": 3, "leak_rate": "1/h""#,
        r#""algorithm": "leaky_bucket", "capacity": 3, "leak_rate": "1/h", "mode": "queue""#,
        r#""algorithm": "concurrency", "limit": 3, "permit_timeout": "1h""#,
        r#""algorithm": "sliding_log", "limit": 3, "window": "1h", "shadow": true"#,
    ];
    let limits: Vec<String> = kinds
        .iter()
        .enumerate()
        .map(|(number, kind)| format!("- {{ name: file-{number}, key: [user], {kind} }}"))
        .collect();
    let service = Tollgate::with_config(&format!("limits:\n{}", limits.join("\n")));

    // The times of two requests differ, so only the other members are compared.
    let timeless = |response: &Response, name: &str| {
        let mut body = body(response);
        let limit = &mut body["limits"][0];
        assert_eq!(limit["name"], name);
        let outcome = json!([
            limit["limit"],
            limit["remaining"],
            limit["never"],
            limit["shadow"]
        ]);
        json!([response.status, body["allowed"], body["source"], outcome])
    };
    for (number, kind) in kinds.iter().enumerate() {
        for cost in [1, 2, 0, 1, 4, 1] {
            let name = format!("file-{number}");
            let named = json!({"limits": [{"name": name, "key": "ann"}], "cost": cost});
            let by_name = service.check(&named.to_string());

            let inline = format!(
                r#"{{"limits": [{{"name": "own-{number}", "key": "ann", {kind}}}], "cost": {cost}}}"#
            );
            let by_numbers = service.check(&inline);
            assert_eq!(
                timeless(&by_name, &name),
                timeless(&by_numbers, &format!("own-{number}")),
                "{kind} {cost}"
            );
        }
    }
}

const MIXED: &str = "
limits:
  - { name: api, key: [user], algorithm: sliding_log, limit: 10, window: 1h }
  - { name: address, key: [client_ip], algorithm: sliding_log, limit: 10, window: 1h }
";

#[test]
fn limits_of_both_kinds_pass_together_or_not_at_all() {
    let service = Tollgate::with_config(MIXED);
    let check = |cost: u64| {
        let chat = json!({"name": "chat", "key": "ann", "algorithm": "sliding_log", "limit": 3,
                          "window": "1h", "cost": cost});
        let limits = json!(["address", {"name": "api", "key": "ann", "cost": 4}, chat]);
        let attributes = json!({"client_ip": "203.0.113.7", "user": "bob"});
        let response = service
            .check(&json!({"attributes": attributes, "limits": limits, "cost": 2}).to_string());
        let body = body(&response);
        let limits = body["limits"].as_array().expect("a list").iter();
        (
            response.status,
            limits
                .map(|limit| limit["remaining"].clone())
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(check(3), (200, vec![json!(8), json!(6), json!(0)]));
    assert_eq!(check(1).0, 429);
    // The denial charged nothing, and the key given for `api` is not the attribute.
    assert_eq!(check(0), (200, vec![json!(6), json!(2), json!(0)]));
    let bob = r#"{"attributes": {"user": "bob"}, "limits": ["api"]}"#;
    assert_eq!(remaining(&service.post("/v1/peek", bob)), 10);
}

#[test]
fn an_attribute_or_key_that_is_null_is_missing() {
    let service = Tollgate::with_config(MIXED);
    let ann = r#"{"attributes": {"user": "ann", "client_ip": null}, "limits": [{"name": "api", "key": null, "cost": null}]}"#;
    assert_eq!(remaining(&service.check(ann)), 9);
    let missing = service.check(&ann.replace("api", "address"));
    assert_eq!(missing.status, 422);
    assert_eq!(body(&missing)["code"], "missing-attribute");
}

#[test]
fn the_file_and_tokens_decide_who_may_bring_limits_along() {
    let refusal = |service: &Tollgate, token: &str| {
        let token = format!("Bearer {token}");
        let headers = [("authorization", token.as_str())];
        let response =
            reverse_proxy::send(service.http, "POST", "/v1/check", &headers, CHAT.as_bytes());
        (
            response.status,
            body(&response)["code"].clone(),
            response.text(),
        )
    };
    let (status, code, _) = refusal(
        &Tollgate::with_config(&format!("inline_limits: deny{MIXED}")),
        "",
    );
    assert_eq!((status, code), (403, json!("inline-not-allowed")));

    let restricted = Tollgate::with_config(&format!("inline_limits: {{ limit_max: 2 }}{MIXED}"));
    let (status, code, text) = refusal(&restricted, "");
    assert_eq!((status, code), (403, json!("inline-not-allowed")), "{text}");
    assert!(text.contains("`inline_limits` allows at most 2"), "{text}");

    let tokens = "
server:
  tokens:
    - { name: shop, token: correct-horse-battery }
    - { name: chat, token: correct-horse-staples, allow: [check, inline] }";
    let service = Tollgate::with_config(&format!("{tokens}{MIXED}"));
    let (status, code, text) = refusal(&service, "correct-horse-battery");
    assert_eq!((status, code), (403, json!("not-permitted")));
    assert!(
        text.contains("the token `shop` does not allow `inline`"),
        "{text}"
    );
    assert_eq!(refusal(&service, "correct-horse-staples").0, 200);
}
