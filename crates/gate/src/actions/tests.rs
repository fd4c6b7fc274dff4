//! What each action does to decisions, on a gate in memory.

mod fail_over;
mod overrides;

use std::time::Duration;

use serde_json::json;
use tollgate::store::Intent;
use tollgate::{Decision, ManualClock, Micros, Retry, Source};
use tollgate_rules::{Config, RequestedLimit};

use super::*;
use crate::api::{JsonBody, NamedAttributes};
use crate::{ActError, ActionDraft, CheckOptions, Gate};

const CONFIG: &str = r#"
hash_keys: ["header:x-api-key"]
hash_secret: "0123456789abcdef"
tiers: { free: { limit: 4 }, pro: { limit: 8 } }
limits:
  - { name: api, key: [client_ip], algorithm: fixed_window, limit: 2, window: 1h }
  - { name: user, key: [user], optional: true, algorithm: token_bucket, capacity: 3, refill_rate: 1/h }
  - { name: plan, key: [user], optional: true, algorithm: fixed_window, window: 1h, tier: { by: plan, default: free } }
  - { name: secret, key: ["header:x-api-key"], optional: true, algorithm: sliding_log, limit: 1, window: 1h }
  - { name: work, key: [job], optional: true, algorithm: concurrency, limit: 1, permit_timeout: 1m }
"#;

struct Scene {
    gate: Gate,
    clock: ManualClock,
}

fn config(text: &str) -> Config {
    Config::parse(text, "test.yaml", &|_: &str| None).expect("a valid configuration")
}

fn attributes(text: &str) -> NamedAttributes<'_> {
    serde_json::from_str(text).expect("attributes")
}

fn named(name: &str) -> RequestedLimit<'_> {
    RequestedLimit {
        name: name.into(),
        ..RequestedLimit::default()
    }
}

fn scene() -> Scene {
    let clock = ManualClock::default();
    let gate = Gate::with_clock(&clock, config(CONFIG));
    Scene { gate, clock }
}

impl Scene {
    async fn act(&self, limit: &str, key: &str, change: ActionChange) -> Result<Action, ActError> {
        let target = match key {
            "" => ActionTarget::Limit,
            network if network.contains('/') => {
                ActionTarget::Network(network.parse().expect("a network"))
            }
            key => {
                let attributes = attributes(key);
                let names = attributes.0.iter().map(|(name, _)| &**name);
                let active = self.gate.active();
                ActionTarget::Key(active.key_for(limit, &attributes, names)?)
            }
        };
        self.gate
            .act(ActionDraft {
                limit: limit.to_owned(),
                target,
                change,
                length: Duration::from_secs(60),
                reason: "a test".to_owned(),
                by: "ann".to_owned(),
            })
            .await
    }

    async fn decide(&self, limits: &[&str], key: &str, intent: Intent) -> crate::GateDecision {
        let limits: Vec<RequestedLimit<'_>> = limits.iter().map(|name| named(name)).collect();
        let options = CheckOptions {
            limits: Some(&limits),
            cost: None,
            intent,
            origin: crate::RequestOrigin::UNKNOWN,
        };
        let active = self.gate.active();
        let decision = self.gate.decide(&active, &attributes(key), options).await;
        decision.expect("a decision")
    }

    async fn check(&self, limits: &[&str], key: &str) -> Decision {
        self.decide(limits, key, Intent::Spend).await.decision
    }

    async fn remaining(&self, limit: &str, key: &str) -> u64 {
        let decision = self.decide(&[limit], key, Intent::Peek).await.decision;
        decision.limits()[0].remaining()
    }

    fn advance(&self, secs: u64) {
        self.clock.advance(Duration::from_secs(secs));
    }
}

fn override_with(numbers: serde_json::Value) -> ActionChange {
    let serde_json::Value::Object(numbers) = numbers else {
        panic!("an object");
    };
    ActionChange::Override(QuotaChange::Numbers(numbers))
}

const ANN: &str = r#"{"client_ip": "203.0.113.7", "user": "ann"}"#;
const ANN_IP: &str = r#"{"client_ip": "203.0.113.7"}"#;
const ANN_USER: &str = r#"{"user": "ann"}"#;
const BLOCK: ActionChange = ActionChange::Block(BlockStatus::TooManyRequests);

#[tokio::test]
async fn a_block_denies_until_its_end_and_charges_no_limit() {
    let scene = scene();
    scene.act("api", ANN_IP, BLOCK).await.unwrap();

    let decision = scene.check(&["user", "api"], ANN).await;
    assert!(!decision.is_allowed());
    assert_eq!(decision.source(), Source::Block);
    assert_eq!(decision.denied_by().unwrap().name(), "api");
    assert_eq!(
        decision.retry(),
        Some(Retry::After(Duration::from_secs(60)))
    );
    assert!(!decision.limits()[0].is_counted(), "nothing was asked");
    assert_eq!(scene.remaining("user", ANN).await, 3);

    let other = r#"{"client_ip": "203.0.113.8", "user": "ann"}"#;
    assert!(scene.check(&["user", "api"], other).await.is_allowed());

    scene.advance(59);
    assert!(!scene.check(&["api"], ANN).await.is_allowed());
    scene.advance(1);
    assert_eq!(scene.check(&["api"], ANN).await.remaining(), 1);
    assert!(scene.gate.actions(ActionKind::Block, None).is_empty());
}

#[tokio::test]
async fn a_block_of_a_request_that_is_only_counted_charges_it() {
    let scene = scene();
    scene.act("user", ANN_USER, BLOCK).await.unwrap();

    let counted = scene.decide(&["user"], ANN, Intent::Count).await;
    assert!(counted.decision.limits()[0].is_blocked());
    scene.advance(60);
    assert_eq!(scene.remaining("user", ANN).await, 2);
}

#[tokio::test]
async fn an_exempt_key_is_neither_charged_nor_refunded() {
    let scene = scene();
    scene
        .act("user", ANN_USER, ActionChange::Exempt)
        .await
        .unwrap();

    for _ in 0..10 {
        let decision = scene.check(&["user"], ANN).await;
        assert!(decision.is_allowed());
        assert_eq!(decision.source(), Source::Exempt);
        assert!(decision.limits()[0].is_exempt());
    }
    let decision = scene.check(&["user", "api"], ANN).await;
    assert_eq!(decision.source(), Source::Store);
    assert_eq!(
        (decision.remaining(), decision.limits()[1].remaining()),
        (1, 1)
    );

    scene.advance(60);
    assert!(scene.check(&["user"], ANN).await.is_allowed());
    scene
        .act("user", ANN_USER, ActionChange::Exempt)
        .await
        .unwrap();
    let options = CheckOptions {
        limits: Some(&[named("user")]),
        cost: None,
        intent: Intent::Spend,
        origin: crate::RequestOrigin::UNKNOWN,
    };
    let active = scene.gate.active();
    let known = attributes(ANN);
    let demands = scene.gate.select(&active, &known, &[], options).unwrap();
    active.refund(&demands).await.unwrap();
    scene.advance(60);
    assert_eq!(
        scene.remaining("user", ANN).await,
        2,
        "nothing was refunded"
    );
}

#[tokio::test]
async fn an_exempt_job_takes_no_permit() {
    let scene = scene();
    let job = r#"{"job": "a"}"#;
    scene.act("work", job, ActionChange::Exempt).await.unwrap();
    for _ in 0..3 {
        let decision = scene.decide(&["work"], job, Intent::Spend).await;
        assert!(decision.decision.is_allowed() && decision.permit.is_none());
    }
    scene.advance(60);
    let decision = scene.decide(&["work"], job, Intent::Spend).await;
    assert!(decision.permit.is_some());
}

#[tokio::test]
async fn a_limit_is_switched_to_shadow_and_back() {
    let scene = scene();
    let action = scene
        .act("api", "", ActionChange::Shadow(true))
        .await
        .unwrap();
    for _ in 0..3 {
        assert!(scene.check(&["api"], ANN).await.is_allowed());
    }
    let decision = scene.check(&["api"], ANN).await;
    assert!(decision.limits()[0].is_shadow() && decision.limits()[0].retry().is_some());

    scene.act("api", ANN_IP, BLOCK).await.unwrap();
    assert!(
        !scene.check(&["api"], ANN).await.is_allowed(),
        "a block denies in any case"
    );
    let removed = scene
        .gate
        .undo(ActionKind::Block, &action.id)
        .await
        .unwrap();
    assert_eq!(removed, None, "of another kind");
    scene
        .gate
        .undo(ActionKind::Shadow, &action.id)
        .await
        .unwrap();
    let other = r#"{"client_ip": "203.0.113.8"}"#;
    for expected in [true, true, false] {
        assert_eq!(scene.check(&["api"], other).await.is_allowed(), expected);
    }
}

#[tokio::test]
async fn a_network_matches_every_address_inside_and_a_key_comes_first() {
    let scene = scene();
    scene.act("api", "203.0.113.0/24", BLOCK).await.unwrap();
    scene
        .act("api", "203.0.0.0/16", ActionChange::Exempt)
        .await
        .unwrap();
    assert!(
        !scene.check(&["api"], ANN).await.is_allowed(),
        "the smaller network"
    );
    let wide = r#"{"client_ip": "203.0.1.1"}"#;
    assert_eq!(scene.check(&["api"], wide).await.source(), Source::Exempt);
    let outside = r#"{"client_ip": "203.1.1.1"}"#;
    assert_eq!(scene.check(&["api"], outside).await.source(), Source::Store);

    scene
        .act("api", ANN_IP, ActionChange::Exempt)
        .await
        .unwrap();
    assert_eq!(scene.check(&["api"], ANN).await.source(), Source::Exempt);
    scene.act("api", ANN_IP, BLOCK).await.unwrap();
    assert_eq!(scene.check(&["api"], ANN).await.source(), Source::Block);

    let error = scene
        .act("user", "203.0.113.0/24", BLOCK)
        .await
        .unwrap_err();
    assert!(matches!(error, ActError::NoAddress { .. }), "{error}");
}

#[tokio::test]
async fn hashed_keys_are_hashed_before_they_are_stored() {
    let scene = scene();
    let key = r#"{"header:X-API-Key": "hunter2-hunter2"}"#;
    let action = scene.act("secret", key, BLOCK).await.unwrap();
    assert!(!scene.check(&["secret"], key).await.is_allowed());
    let text = action.to_record(0);
    assert!(!text.contains("hunter2"));
    let read = Action::from_record(&action.id, &text, action.expires_at);
    assert_eq!(read, Some(action));
}

#[tokio::test]
async fn a_key_has_the_attributes_of_its_limit_and_no_others() {
    let scene = scene();
    let foreign = r#"{"client_ip": "203.0.113.7", "emial": "a"}"#;
    for (limit, key, expected) in [
        (
            "api",
            foreign,
            "\"emial\" is not part of the key of the limit \"api\", which is client_ip",
        ),
        ("api", "{}", "missing attribute `client_ip`"),
        ("user", "{}", "missing attribute `user`"),
        (
            "api",
            r#"{"client_ip": "nine"}"#,
            "invalid attribute `client_ip`",
        ),
        ("nope", ANN_USER, "unknown limit \"nope\""),
    ] {
        let error = scene.act(limit, key, BLOCK).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{limit} {key}: {error}");
    }
}

#[tokio::test]
async fn an_inspection_shows_the_counter_of_a_blocked_key() {
    let scene = scene();
    assert!(scene.check(&["api"], ANN).await.is_allowed());
    let status = ActionChange::Block(BlockStatus::Forbidden);
    scene.act("api", ANN_IP, status).await.unwrap();

    let body = r#"{"limits": ["api"], "attributes": {"client_ip": "203.0.113.7"}}"#;
    let active = scene.gate.active();
    let context = crate::api::ApiContext {
        gate: &scene.gate,
        active: &active,
        caller: crate::Caller::ANYONE,
        origin: crate::RequestOrigin::UNKNOWN,
    };
    let operation = crate::api::ApiOperation::Peek;
    let answer = operation
        .answer(context, JsonBody::new(body.as_bytes()))
        .await;
    let answer = answer.unwrap();
    let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(
        (answer.status.as_u16(), &body["status"]),
        (403, &json!(403))
    );
    assert!(
        body["type"]
            .as_str()
            .unwrap()
            .ends_with("#abnormal-usage-detected")
    );
    let limit = &body["limits"][0];
    assert_eq!(
        (&limit["used"], &limit["blocked"]),
        (&json!(1), &json!(true))
    );
}

#[tokio::test]
async fn after_a_reload_actions_that_no_longer_fit_are_ignored() {
    let scene = scene();
    scene.act("api", ANN_IP, BLOCK).await.unwrap();
    let numbers = override_with(json!({"capacity": 10}));
    scene.act("user", ANN_USER, numbers).await.unwrap();
    scene.act("plan", ANN_USER, BLOCK).await.unwrap();

    let text = "limits:\n  - { name: user, key: [user], algorithm: fixed_window, limit: 2, window: 1h }\n  \
                - { name: plan, key: [user, client_ip], algorithm: fixed_window, limit: 2, window: 1h }";
    scene.gate.replace(config(text)).unwrap();
    let reasons: Vec<Option<String>> = ActionKind::ALL
        .iter()
        .flat_map(|kind| scene.gate.actions(*kind, None))
        .map(|listed| listed.ignored)
        .collect();
    assert!(reasons.iter().all(Option::is_some), "{reasons:?}");
    assert!(scene.check(&["user"], ANN).await.is_allowed());

    scene.gate.replace(config(CONFIG)).unwrap();
    assert!(!scene.check(&["api"], ANN).await.is_allowed());
}

#[test]
fn a_request_without_actions_finds_no_table() {
    let scene = scene();
    let active = scene.gate.active();
    let demands = active
        .selector
        .select_named(&["api"], &attributes(ANN), None);
    assert!(active.actions.touching(&demands.unwrap()).is_none());
}

#[tokio::test]
async fn lists_of_the_file_have_no_end_and_actions_come_before_them() {
    let text = r"
limits:
  - name: api
    key: [client_ip]
    algorithm: fixed_window
    limit: 2
    window: 1h
    exempt: { keys: [{ client_ip: 198.51.100.9 }], networks: [203.0.113.0/24] }
    block: { keys: [{ client_ip: 203.0.113.7 }], networks: [198.51.100.0/24], status: 403 }
";
    let clock = ManualClock::default();
    let gate = Gate::with_clock(&clock, config(text));
    let scene = Scene { gate, clock };
    let from = |address: &str| format!(r#"{{"client_ip": "{address}"}}"#);

    let blocked = scene.decide(&["api"], ANN, Intent::Spend).await;
    assert_eq!(blocked.block, Some(BlockStatus::Forbidden));
    assert_eq!(blocked.decision.retry(), Some(Retry::Never));
    let source = async |address: &str| scene.check(&["api"], &from(address)).await.source();
    assert_eq!(source("203.0.113.8").await, Source::Exempt);
    assert_eq!(source("198.51.100.8").await, Source::Block);
    assert_eq!(
        source("198.51.100.9").await,
        Source::Exempt,
        "a key before a network"
    );
    assert_eq!(source("192.0.2.1").await, Source::Store);

    scene
        .act("api", ANN_IP, ActionChange::Exempt)
        .await
        .unwrap();
    assert_eq!(source("203.0.113.7").await, Source::Exempt);
    scene.advance(60);
    assert_eq!(source("203.0.113.7").await, Source::Block);
}
