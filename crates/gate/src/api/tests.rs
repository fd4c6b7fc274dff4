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
