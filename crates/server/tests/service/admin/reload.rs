//! `POST /admin/reload`.

use super::{check, get, json, send};
use crate::harness::Tollgate;

fn config(name: &str, limit: &str) -> String {
    format!(
        "limits:\n  - {{ name: {name}, key: [tenant], algorithm: sliding_log, limit: {limit}, \
         window: 1h }}\n"
    )
}

#[test]
fn a_valid_file_is_applied_and_counts_stay() {
    let service = Tollgate::with_config(&config("api", "10"));
    (0..4).for_each(|_| assert_eq!(check(&service, "api", r#"{"tenant": "a"}"#).status, 200));
    service.rewrite_config(&config("api", "5"));
    let reloaded = send(&service, "POST", "/admin/reload");
    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    assert_eq!(
        (&json(&reloaded)["reloaded"], &json(&reloaded)["limits"]),
        (&true.into(), &1.into())
    );
    // Also if the service has found the new file by itself meanwhile.
    let change = r#"limit "api": limit 10 -> 5"#;
    assert_eq!(json(&reloaded)["changes"], serde_json::json!([change]));
    service.wait_for_log(r#"changed: limit \"api\": limit 10 -> 5"#);
    let status = json(&get(&service, "/admin/status"));
    assert_eq!(status["config"]["changes"][0], change);

    let key = json(&get(&service, "/admin/keys?limit=api&tenant=a"));
    assert_eq!((&key["limit"], &key["remaining"]), (&5.into(), &1.into()));
    let limits = json(&get(&service, "/admin/limits"));
    assert_eq!(
        (
            &limits["limits"][0]["limit"],
            &limits["limits"][0]["outcomes"]["allowed"]
        ),
        (&5.into(), &4.into())
    );
    assert!(json(&get(&service, "/admin/status"))["config"]["reloads"].as_u64() >= Some(1));
}

#[test]
fn an_invalid_file_is_rejected_with_its_line_and_the_old_one_stays() {
    let service = Tollgate::with_config(&config("api", "10"));
    service.rewrite_config(&config("api", "many"));
    let rejected = send(&service, "POST", "/admin/reload");
    assert_eq!(
        (rejected.status, rejected.header("content-type")),
        (422, Some("application/problem+json"))
    );
    let body = json(&rejected);
    assert_eq!(
        (&body["code"], &body["status"]),
        (&"bad-config".into(), &422.into())
    );
    let fault = &body["faults"][0];
    assert_eq!(
        (&fault["line"], &fault["field"]),
        (&2.into(), &"limits[api].limit".into())
    );
    assert!(
        fault["column"].as_u64() > Some(0)
            && fault["message"]
                .as_str()
                .is_some_and(|text| text.contains("many")),
        "{body}"
    );
    assert_eq!(fault["file"].as_str(), service.config_path().to_str());

    assert_eq!(
        json(&get(&service, "/admin/limits"))["limits"][0]["limit"],
        10
    );
    assert_eq!(check(&service, "api", r#"{"tenant": "a"}"#).status, 200);
    let status = json(&get(&service, "/admin/status"));
    let message = status["config"]["error"]["message"]
        .as_str()
        .unwrap_or_default();
    assert!(message.contains("limits[api].limit"), "{status}");
    assert!(
        get(&service, "/metrics")
            .text()
            .contains("\ntollgate_config_reload_failed 1\n")
    );

    service.rewrite_config(&config("api", "7"));
    assert_eq!(send(&service, "POST", "/admin/reload").status, 200);
    assert!(json(&get(&service, "/admin/status"))["config"]["error"].is_null());
    assert!(
        get(&service, "/metrics")
            .text()
            .contains("\ntollgate_config_reload_failed 0\n")
    );
}

#[test]
fn a_reload_without_a_file_is_a_conflict() {
    let service = Tollgate::start();
    let rejected = send(&service, "POST", "/admin/reload");
    assert_eq!(
        (rejected.status, json(&rejected)["code"].as_str()),
        (409, Some("no-file"))
    );
    assert!(json(&get(&service, "/admin/status"))["config"]["file"].is_null());
}
