//! Other numbers for a key.

use super::*;

fn multiply(factor: f64) -> ActionChange {
    ActionChange::Override(QuotaChange::Multiply(Multiple::new(factor).unwrap()))
}

#[tokio::test]
async fn an_override_changes_the_numbers_and_keeps_what_was_used() {
    let scene = scene();
    assert_eq!(scene.check(&["api"], ANN).await.remaining(), 1);
    scene.act("api", ANN_IP, multiply(2.0)).await.unwrap();
    let decision = scene.check(&["api"], ANN).await;
    assert_eq!((decision.limit(), decision.remaining()), (4, 2));

    let numbers = override_with(json!({"limit": 10}));
    scene.act("api", ANN_IP, numbers).await.unwrap();
    let listed = scene.gate.actions(ActionKind::Override, None);
    assert_eq!(listed.len(), 1, "the new one replaces the old one");
    assert_eq!(scene.check(&["api"], ANN).await.remaining(), 7);

    scene.advance(60);
    let decision = scene.check(&["api"], ANN).await;
    assert_eq!((decision.is_allowed(), decision.limit()), (false, 2));

    let numbers = override_with(json!({"capacity": 10, "refill_rate": "2/h"}));
    scene.act("user", ANN_USER, numbers).await.unwrap();
    assert_eq!(scene.check(&["user"], ANN).await.remaining(), 9);
}

#[tokio::test]
async fn a_multiple_is_that_of_the_tier_and_a_tier_can_be_given() {
    let scene = scene();
    let pro = r#"{"user": "ann", "plan": "pro"}"#;
    scene.act("plan", ANN_USER, multiply(0.5)).await.unwrap();
    assert_eq!(scene.check(&["plan"], pro).await.limit(), 4);
    assert_eq!(scene.check(&["plan"], ANN).await.limit(), 2);

    let tier = ActionChange::Override(QuotaChange::Tier("pro".to_owned()));
    scene.act("plan", ANN_USER, tier).await.unwrap();
    assert_eq!(scene.check(&["plan"], ANN).await.limit(), 8);
}

#[tokio::test]
async fn overrides_that_do_not_fit_are_refused() {
    let scene = scene();
    for (limit, change, expected) in [
        (
            "user",
            override_with(json!({"limit": 5})),
            "takes `capacity` and `refill_rate`",
        ),
        (
            "api",
            override_with(json!({"window": "1s"})),
            "takes `limit`",
        ),
        (
            "api",
            override_with(json!({"limit": 0})),
            "limit 0 is out of range",
        ),
        ("api", override_with(json!({"limit": "5"})), "invalid type"),
        (
            "user",
            override_with(json!({"refill_rate": "soon"})),
            "invalid rate",
        ),
        ("work", multiply(1e6), "out of range"),
        (
            "api",
            ActionChange::Override(QuotaChange::Tier("pro".into())),
            "has no tiers; set `multiply`, or `limit`",
        ),
        (
            "plan",
            ActionChange::Override(QuotaChange::Tier("gold".into())),
            "unknown tier \"gold\"; the limit \"plan\" has free, pro",
        ),
    ] {
        let key = match limit {
            "api" => ANN_IP,
            "work" => r#"{"job": "a"}"#,
            _ => ANN_USER,
        };
        let error = scene.act(limit, key, change).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{limit}: {error}");
    }
    assert!(scene.gate.actions(ActionKind::Override, None).is_empty());
}
