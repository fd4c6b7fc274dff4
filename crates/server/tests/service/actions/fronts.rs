//! Actions through gRPC and RESP: what an answer says, and what is charged.

use serde_json::{Value, json};
use testkit::reverse_proxy;
use tollgate_envoy::{Code, DescriptorStatus, RateLimitRequest};

use super::{act, send, undo};
use crate::grpc::client::Client;
use crate::grpc::{about, body, described, header, request, summary};
use crate::harness::Tollgate;
use crate::resp::{connect, integers};

const LIMITS: &str = "
limits:
  - { name: api, key: [user], algorithm: fixed_window, limit: 4, window: 1h,
      block: { keys: [{ user: eve }], status: 403 }, exempt: { keys: [{ user: monitor }] } }
  - { name: tenant, key: [tenant], optional: true, algorithm: fixed_window, limit: 9, window: 1h }
";
/// An hour, with the time that a test may take.
const HOUR_SECS: std::ops::RangeInclusive<i64> = 3_000..=3_600;

/// Ann's request, which both limits count.
fn ann() -> RateLimitRequest {
    about(&[("user", "ann"), ("tenant", "acme")])
}

/// Acts on Ann.
fn act_on_ann(service: &Tollgate, plural: &str, mut more: Value) -> String {
    more["key"] = json!({"user": "ann"});
    act(service, plural, &more)
}

/// What is left of both limits for Ann.
fn remaining(service: &Tollgate) -> [u64; 2] {
    let peek = service.post(
        "/v1/peek",
        r#"{"attributes": {"user": "ann", "tenant": "acme"}}"#,
    );
    let body: Value = serde_json::from_str(&peek.text()).expect("JSON");
    [0, 1].map(|limit| body["limits"][limit]["remaining"].as_u64().expect("units"))
}

fn count(service: &Tollgate, labels: &str) -> Option<u64> {
    let page = reverse_proxy::get(service.admin, "/metrics", &[]).text();
    let series = format!("tollgate_decisions_total{{{labels}}} ");
    let line = page.lines().find_map(|line| line.strip_prefix(&*series));
    line.and_then(|value| value.parse().ok())
}

/// A descriptor about which no limit has anything to say.
fn silent() -> DescriptorStatus {
    DescriptorStatus {
        code: Code::Ok.into(),
        ..Default::default()
    }
}

#[test]
fn a_block_denies_over_grpc_and_charges_nothing() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    for status in [429, 403] {
        let id = act_on_ann(&service, "blocks", json!({"status": status}));
        let denied = client.ask(&ann());
        assert_eq!(denied.overall_code(), Code::OverLimit);
        assert_eq!(
            summary(&denied.statuses[0]),
            (Code::OverLimit, "api", 0),
            "{status}"
        );
        let until = denied.statuses[0].duration_until_reset.expect("an end");
        assert!(HOUR_SECS.contains(&until.seconds), "{until:?}");
        let retry_after = until.seconds.to_string();
        assert_eq!(header(&denied, "retry-after"), Some(&*retry_after));
        assert_eq!(
            header(&denied, "ratelimit-policy"),
            Some(r#""api";q=4;w=3600"#)
        );

        let problem: Value = serde_json::from_str(&body(&denied)).expect("JSON");
        let kind = problem["type"].as_str().expect("a type");
        assert!(kind.ends_with("#abnormal-usage-detected"), "{kind}");
        assert_eq!(problem["violated-policies"], json!(["api"]));
        // Envoy sends the status of its own configuration, so the body cannot claim another one.
        assert_eq!(problem["status"], 429, "{status}");

        // The other descriptor was not asked, so it has no numbers.
        let both = request([
            described(&[("user", "ann")]),
            described(&[("tenant", "acme")]),
        ]);
        let denied = client.ask(&both);
        assert_eq!(denied.overall_code(), Code::OverLimit);
        assert_eq!(summary(&denied.statuses[0]), (Code::OverLimit, "api", 0));
        assert_eq!(denied.statuses[1], silent());

        undo(&service, "blocks", &id);
        assert_eq!(remaining(&service), [4, 9], "nothing was charged");
    }
    let blocked = r#"limit="api",outcome="denied",source="block""#;
    assert_eq!(count(&service, blocked), Some(4));
}

#[test]
fn a_block_without_an_end_has_no_retry_time() {
    let service = Tollgate::with_resp(LIMITS);
    let denied = Client::connect(service.grpc).ask(&about(&[("user", "eve")]));
    assert_eq!(summary(&denied.statuses[0]), (Code::OverLimit, "api", 0));
    assert_eq!(denied.statuses[0].duration_until_reset, None);
    assert_eq!(header(&denied, "retry-after"), None);

    let reply = connect(&service).call(&["TOLLGATE.CHECK", "api", "eve"]);
    assert_eq!(integers(&reply.expect("a reply")), [1, 4, 0, -1, 0]);
}

#[test]
fn an_exemption_passes_over_grpc_and_only_other_limits_are_charged() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    let id = act_on_ann(&service, "exemptions", json!({}));
    for left in [8, 7, 6, 5, 4, 3] {
        let allowed = client.ask(&ann());
        assert_eq!(allowed.overall_code(), Code::Ok);
        assert_eq!(summary(&allowed.statuses[0]), (Code::Ok, "tenant", left));
        let policy = header(&allowed, "ratelimit-policy");
        assert_eq!(policy, Some(r#""tenant";q=9;w=3600"#));
    }

    // Nothing is left to report, also for a key that the file exempts.
    for user in ["ann", "monitor"] {
        let allowed = client.ask(&about(&[("user", user)]));
        assert_eq!(allowed.overall_code(), Code::Ok);
        assert_eq!(allowed.statuses, [silent()], "{user}");
        assert_eq!(header(&allowed, "ratelimit"), None, "{user}");
    }

    undo(&service, "exemptions", &id);
    assert_eq!(remaining(&service), [4, 3]);
    let exempt = r#"limit="api",outcome="allowed",source="exempt""#;
    assert_eq!(count(&service, exempt), Some(8));
}

#[test]
fn an_override_changes_the_numbers_over_grpc() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    let ann = about(&[("user", "ann")]);
    let id = act_on_ann(&service, "overrides", json!({"multiply": 2}));
    let allowed = client.ask(&ann);
    assert_eq!(summary(&allowed.statuses[0]), (Code::Ok, "api", 7));
    let current = allowed.statuses[0].current_limit.as_ref();
    assert_eq!(current.map(|limit| limit.requests_per_unit), Some(8));
    assert_eq!(
        header(&allowed, "ratelimit-policy"),
        Some(r#""api";q=8;w=3600"#)
    );

    act_on_ann(&service, "overrides", json!({"quota": {"limit": 1}}));
    let denied = client.ask(&ann);
    assert_eq!(summary(&denied.statuses[0]), (Code::OverLimit, "api", 0));
    assert!(body(&denied).contains("#quota-exceeded"));

    undo(&service, "overrides", &id);
    assert_eq!(remaining(&service), [3, 9], "one request was charged");
}

#[test]
fn a_block_denies_over_resp_and_charges_nothing() {
    let service = Tollgate::with_resp(LIMITS);
    let mut client = connect(&service);
    for status in [429, 403] {
        let id = act_on_ann(&service, "blocks", json!({"status": status}));
        for command in [
            &["TOLLGATE.CHECK", "api", "ann"][..],
            &["TOLLGATE.CHECK", "api", "ann", "3"],
            &["TOLLGATE.CHECK", "api", "ann", "0"],
        ] {
            let denied = integers(&client.call(command).expect("a reply"));
            assert_eq!(denied[..3], [1, 4, 0], "{command:?}");
            assert!(HOUR_SECS.contains(&denied[3]), "{denied:?}");
        }
        let other = integers(
            &client
                .call(&["TOLLGATE.CHECK", "api", "bob"])
                .expect("a reply"),
        );
        assert_eq!(other[0], 0, "another key");
        undo(&service, "blocks", &id);
        assert_eq!(remaining(&service)[0], 4, "nothing was charged");
    }
}

#[test]
fn an_exemption_and_an_override_over_resp() {
    let service = Tollgate::with_resp(LIMITS);
    let mut client = connect(&service);
    let mut check = || {
        let reply = client.call(&["TOLLGATE.CHECK", "api", "ann"]);
        integers(&reply.expect("a reply"))
    };
    let id = act_on_ann(&service, "exemptions", json!({}));
    for _ in 0..6 {
        assert_eq!(check(), [0, 4, 4, -1, 0]);
    }
    undo(&service, "exemptions", &id);
    assert_eq!(remaining(&service)[0], 4, "nothing was charged");

    let id = act_on_ann(&service, "overrides", json!({"multiply": 0.5}));
    assert_eq!(check()[..3], [0, 2, 1]);
    assert_eq!(check()[..3], [0, 2, 0]);
    assert_eq!(check()[..3], [1, 2, 0]);
    undo(&service, "overrides", &id);
    assert_eq!(check()[..3], [0, 4, 1], "the denied one was not charged");
}

/// The numbers of `CL.THROTTLE` come with the call, so there is no limit to act on.
#[test]
fn actions_do_not_concern_the_numbers_of_a_call() {
    let service = Tollgate::with_resp(LIMITS);
    act_on_ann(&service, "blocks", json!({}));
    let reply = connect(&service).call(&["CL.THROTTLE", "ann", "3", "4", "3600"]);
    assert_eq!(integers(&reply.expect("a reply"))[..3], [0, 4, 3]);

    let block = json!({"limit": "override:cl.throttle", "key": {"key": "ann"}, "for": "1h",
        "reason": "r", "by": "b"});
    let refused = send(&service, "POST", "/admin/blocks", &block);
    assert_eq!(refused.status, 422);
    let text = refused.text();
    assert!(
        text.contains("unknown-limit") && text.contains("expected one of api"),
        "{text}"
    );
}
