//! What the operations make of token counts and amounts, on a gate in memory.

use serde_json::{Value, json};
use tollgate::ManualClock;
use tollgate_rules::Config;

use super::*;
use crate::{Caller, Gate, RequestOrigin};

const LIMITS: &str = "
limits:
  - { name: requests, match: { path: /llm }, key: [user], algorithm: fixed_window, limit: 60, window: 1m, cost: 1 }
  - name: tokens
    match: { path: /llm }
    key: [user]
    algorithm: fixed_window
    limit: 40000
    window: 1h
    cost: { tokens: { input: 1, output: 4, cached: 0.1 } }
  - { name: pages, match: { path: /pages }, key: [user], algorithm: fixed_window, limit: 9, window: 1h, cost: { by: tokens.pages } }
  - { name: units, match: { path: /units }, key: [user], algorithm: fixed_window, limit: 99, window: 1h }
";

async fn ask(gate: &Gate, operation: ApiOperation, body: &Value) -> (u16, Value) {
    let active = gate.active();
    let context = ApiContext {
        gate,
        active: &active,
        caller: Caller::ANYONE,
        origin: RequestOrigin::UNKNOWN,
    };
    let body = body.to_string();
    let (status, text) = match operation
        .answer(context, JsonBody::new(body.as_bytes()))
        .await
    {
        Ok(answer) => (answer.status, answer.body.into_owned()),
        Err(error) => (error.status, error.problem().to_json()),
    };
    (status.as_u16(), serde_json::from_str(&text).expect("JSON"))
}

fn gate() -> Gate {
    gate_with(LIMITS)
}

fn gate_with(limits: &str) -> Gate {
    let config = Config::parse(limits, "test.yaml", &|_: &str| None);
    Gate::with_clock(&ManualClock::default(), config.expect("a configuration"))
}

fn request(path: &str, more: Value) -> Value {
    let mut body = json!({"attributes": {"user": "ann", "path": path}});
    if let (Some(body), Value::Object(members)) = (body.as_object_mut(), more) {
        body.extend(members);
    }
    body
}

/// Reserves, and settles with what a client says. Returns the answer and the units used of the
/// limit that is charged most.
async fn settle(gate: &Gate, path: &str, reserve: Value, actual: Value) -> (u16, Value) {
    let (_, reserved) = ask(gate, ApiOperation::Reserve, &request(path, reserve)).await;
    let mut body = actual;
    body["reservation"] = reserved["reservation"].clone();
    ask(gate, ApiOperation::Settle, &body).await
}

#[tokio::test]
async fn usage_objects_of_providers_are_charged_as_they_are() {
    let chat = json!({
        "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050,
        "prompt_tokens_details": {"cached_tokens": 800, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 20, "accepted_prediction_tokens": 0},
    });
    let responses = json!({
        "input_tokens": 1000, "input_tokens_details": {"cached_tokens": 800},
        "output_tokens": 50, "output_tokens_details": {"reasoning_tokens": 20}, "total_tokens": 1050,
    });
    let messages = json!({
        "input_tokens": 150, "cache_creation_input_tokens": 50, "cache_read_input_tokens": 800,
        "cache_creation": {"ephemeral_5m_input_tokens": 50, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 50, "service_tier": "standard", "server_tool_use": null,
        "what_they_add_next": {"a": [1]},
    });
    let own = json!({"input": 200, "output": 50, "cached": 800});
    for usage in [chat, responses, messages, own] {
        for operation in [ApiOperation::Settle, ApiOperation::Check] {
            let gate = gate();
            let tokens = json!({"tokens": usage});
            if operation == ApiOperation::Settle {
                let estimate = json!({"tokens": {"input": 9}});
                let (_, answer) = settle(&gate, "/llm", estimate, tokens).await;
                assert_eq!(answer["charged"], 480, "{usage}: {answer}");
            } else {
                let (status, _) = ask(&gate, operation, &request("/llm", tokens)).await;
                assert_eq!(status, 200);
            }
            let peek = request("/llm", json!({"cost": 0}));
            let (_, answer) = ask(&gate, ApiOperation::Peek, &peek).await;
            assert_eq!(answer["limits"][1]["remaining"], 40_000 - 480, "{usage}");
        }
    }
}

#[tokio::test]
async fn counts_that_match_nothing_are_errors() {
    let unknown = "unknown kind of tokens \"inptu\"; did you mean `input`? The limits count cached, \
                   input, output and pages, and the names in usage objects of OpenAI and Anthropic";
    let whole = "must be a whole number up to 9007199254740992";
    for (tokens, expected) in [
        (json!({"inptu": 900}), unknown),
        (json!({"input": 1, "inptu": 900}), unknown),
        (json!({"prompt_tokens": 1, "inptu": 900}), unknown),
        (
            json!({"usage": {"prompt_tokens": 900}}),
            "unknown kind of tokens \"usage.prompt_tokens\"",
        ),
        (json!({"input": "900"}), whole),
        (
            json!({"input": -1}),
            "invalid number of tokens -1 for `input`",
        ),
        (json!({"output": 0.5}), whole),
        (
            json!({"prompt_tokens": {"a": 1}}),
            "unknown kind of tokens \"prompt_tokens.a\"",
        ),
        (json!({"input": (1_u64 << 53) + 1}), whole),
        (json!({"output": 1_u64 << 53}), "up to 9007199254740992"),
        (
            json!({"input": 1, "completion_tokens": 9}),
            "has `input` and `completion_tokens`",
        ),
    ] {
        let gate = gate();
        let body = json!({"tokens": tokens});
        for operation in [
            ApiOperation::Check,
            ApiOperation::Reserve,
            ApiOperation::Peek,
        ] {
            let (status, answer) = ask(&gate, operation, &request("/llm", body.clone())).await;
            let detail = answer["detail"].as_str().unwrap_or_default();
            assert!(
                status == 422 && detail.contains(expected),
                "{tokens}: {answer}"
            );
        }
        let (status, answer) = settle(&gate, "/llm", json!({}), body).await;
        let detail = answer["detail"].as_str().unwrap_or_default();
        assert!(
            status == 422 && detail.contains(expected),
            "{tokens}: {answer}"
        );
    }

    let attributes = json!({"attributes": {"user": "ann", "path": "/llm", "tokens.inptu": 900}});
    let (status, answer) = ask(&gate(), ApiOperation::Check, &attributes).await;
    assert_eq!((status, answer["detail"].as_str()), (422, Some(unknown)));
    let (status, _) = settle(
        &gate(),
        "/llm",
        json!({}),
        json!({"tokens": {"total_tokens": 9}}),
    )
    .await;
    assert_eq!(status, 422, "a sum alone says nothing about kinds");

    let none = "limits: [{ name: a, key: [], algorithm: fixed_window, limit: 9, window: 1h }]";
    for tokens in [json!({"input": 9}), json!({"prompt_tokens": 9})] {
        let body = json!({"tokens": tokens});
        let (status, answer) = ask(&gate_with(none), ApiOperation::Check, &body).await;
        let detail = answer["detail"].as_str().unwrap_or_default();
        assert!(
            status == 422 && detail.contains("no limit counts tokens"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_settlement_that_cannot_change_anything_says_so() {
    let fixed = json!({"limits": ["requests"]});
    let (_, answer) = settle(&gate(), "/llm", fixed, json!({"actual": 5})).await;
    let warning = answer["warning"].as_str().unwrap_or_default();
    assert!(warning.contains("were fixed"), "{answer}");

    let (_, answer) = settle(
        &gate(),
        "/units",
        json!({"cost": 7}),
        json!({"tokens": {"input": 5}}),
    )
    .await;
    let warning = answer["warning"].as_str().unwrap_or_default();
    assert!(warning.contains("counts these tokens"), "{answer}");
    assert_eq!(answer["charged"], 7);

    for (path, actual) in [
        ("/llm", json!({"tokens": {"input": 5}})),
        ("/units", json!({"actual": 5})),
        ("/pages", json!({"tokens": {"pages": 5}})),
    ] {
        let (_, answer) = settle(&gate(), path, json!({}), actual).await;
        assert_eq!(
            (answer.get("warning"), &answer["charged"]),
            (None, &json!(5)),
            "{path}"
        );
    }
}

#[tokio::test]
async fn amounts_above_2_to_the_53_are_errors() {
    let large = (1_u64 << 53) + 1;
    let inline = json!([{"name": "own", "key": "ann", "algorithm": "fixed_window", "limit": 9, "window": "1h", "cost": large}]);
    let gate = gate();
    for (operation, more) in [
        (ApiOperation::Check, json!({"cost": large})),
        (
            ApiOperation::Check,
            json!({"cost": u64::MAX, "count": true}),
        ),
        (ApiOperation::Peek, json!({"cost": large})),
        (ApiOperation::Refund, json!({"cost": large})),
        (ApiOperation::Reserve, json!({"cost": large})),
        (
            ApiOperation::Check,
            json!({"limits": [{"name": "units", "cost": large}]}),
        ),
        (ApiOperation::Check, json!({"limits": inline})),
    ] {
        let (status, answer) = ask(&gate, operation, &request("/units", more)).await;
        let detail = answer["detail"].as_str().unwrap_or_default();
        let is_bound = detail.contains("must be a whole number up to 9007199254740992");
        assert!(status == 422 && is_bound, "{operation:?}: {answer}");
    }
    for actual in [large, u64::MAX] {
        let (status, answer) = settle(&gate, "/units", json!({}), json!({"actual": actual})).await;
        assert_eq!((status, &answer["code"]), (422, &json!("bad-cost")));
    }
    let (status, _) = settle(&gate, "/units", json!({}), json!({"actual": large - 1})).await;
    assert_eq!(status, 200);
}

/// Each pair of a body and a member that must have an effect or be named.
#[tokio::test]
async fn no_number_of_tokens_is_dropped_without_a_word() {
    let gate = gate();
    for operation in [ApiOperation::Check, ApiOperation::Reserve] {
        for tokens in [
            json!({}),
            json!({"total_tokens": 900}),
            json!({"input": null}),
            json!({"completion_tokens_details": {"reasoning_tokens": 9}}),
        ] {
            let body = request("/llm", json!({"tokens": tokens}));
            let (status, answer) = ask(&gate, operation, &body).await;
            let detail = answer["detail"].as_str().unwrap_or_default();
            let is_told = detail.contains("no number that a limit counts");
            assert!(status == 422 && is_told, "{body}: {answer}");
        }

        let body = request("/units", json!({"tokens": {"input": 900}}));
        let (_, answer) = ask(&gate, operation, &body).await;
        let warning = answer["warning"].as_str().unwrap_or_default();
        assert!(warning.contains("`tokens` changed nothing"), "{answer}");
    }
}

/// A provider's name counts where the limit's own is missing, whatever else is there, and by
/// whichever recipe the limit reads it.
#[tokio::test]
async fn the_names_of_a_provider_count_kind_by_kind() {
    const LIMITS: &str = "
limits:
  - { name: both, key: [user], algorithm: fixed_window, limit: 99999, window: 1h, cost: { tokens: { input: 1, output: 4 } } }
  - { name: out, key: [user], algorithm: fixed_window, limit: 99999, window: 1h, cost: { by: tokens.output } }
  - { name: own, key: [user], algorithm: fixed_window, limit: 99999, window: 1h, cost: { tokens: { prompt_tokens: 1, output: 1 } } }
";
    let used = async |gate: &Gate, name: &str| {
        let body = json!({"attributes": {"user": "ann"}, "limits": [name], "cost": 0});
        let (_, answer) = ask(gate, ApiOperation::Peek, &body).await;
        answer["limits"][0]["used"].as_u64()
    };

    let mixed = json!({"tokens.output": "2", "tokens.prompt_tokens": "900"});
    let usage = json!({"prompt_tokens": 900, "completion_tokens": 2});
    for body in [json!({"attributes": mixed}), json!({"tokens": usage})] {
        let gate = gate_with(LIMITS);
        let mut body = body;
        body["attributes"]["user"] = json!("ann");
        let (status, answer) = ask(&gate, ApiOperation::Check, &body).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(used(&gate, "both").await, Some(908), "{body}");
        assert_eq!(used(&gate, "out").await, Some(2), "{body}");
        assert_eq!(used(&gate, "own").await, Some(902), "{body}");
    }
}

/// A permit may be held longer than its reservation is open. It does not keep the reservation open.
#[tokio::test]
async fn a_permit_does_not_keep_an_expired_reservation_open() {
    const LIMITS: &str = "
limits:
  - { name: in-flight, key: [user], algorithm: concurrency, limit: 4, permit_timeout: 5m }
  - { name: units, key: [user], algorithm: fixed_window, limit: 99, window: 1h }
";
    let clock = ManualClock::default();
    let config = Config::parse(LIMITS, "test.yaml", &|_: &str| None);
    let gate = Gate::with_clock(&clock, config.expect("a configuration"));
    let ends = [
        (ApiOperation::Settle, json!({"actual": 5})),
        (ApiOperation::Cancel, json!({})),
    ];
    for (operation, mut body) in ends {
        let reserve = request("/", json!({"cost": 7, "ttl": "1s"}));
        let (_, reserved) = ask(&gate, ApiOperation::Reserve, &reserve).await;
        clock.advance(std::time::Duration::from_secs(2));

        body["reservation"] = reserved["reservation"].clone();
        let (_, answer) = ask(&gate, operation, &body).await;
        assert_eq!(answer["reservation"], "unknown", "{operation:?}: {answer}");
    }
    let (_, peeked) = ask(&gate, ApiOperation::Peek, &request("/", json!({"cost": 0}))).await;
    let used = |index: usize| peeked["limits"][index]["used"].clone();
    assert_eq!((used(0), used(1)), (json!(0), json!(19)), "{peeked}");
}

/// Without `debt_max` a counter owes at most ten limits, and `charged` tells what was applied.
#[tokio::test]
async fn a_counter_owes_at_most_ten_limits() {
    for numbers in [
        "algorithm: fixed_window, limit: 10, window: 1h",
        "algorithm: sliding_window, limit: 10, window: 1h",
        "algorithm: sliding_log, limit: 10, window: 1h",
        "algorithm: token_bucket, capacity: 10, refill_rate: 1/1h",
    ] {
        let gate = gate_with(&format!("limits: [{{ name: a, key: [user], {numbers} }}]"));
        let actual = json!({"actual": 1_u64 << 53});
        let (status, answer) = settle(&gate, "/", json!({"cost": 5}), actual).await;
        assert_eq!(
            (status, &answer["charged"]),
            (200, &json!(110)),
            "{numbers}"
        );
    }
}
