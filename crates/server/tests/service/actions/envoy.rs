//! A block behind a real Envoy.

use serde_json::{Value, json};
use testkit::reverse_proxy::{self, Upstream};

use super::send;
use crate::audit_log::{file, lines};
use crate::envoy::{LIMITS, RATELIMIT, SECRET, rate_limited, replaced};
use crate::harness::Tollgate;

/// The metadata that the documentation shows.
const METADATA: &str = "envoy_grpc: { cluster_name: tollgate }
                  initial_metadata: [{ key: x-request-id, value: \"%REQ(x-request-id)%\" }]\n";

/// Envoy denies with a status of its own, and sends the id that it gave the request.
#[test]
fn envoy_denies_a_blocked_address_and_the_audit_log_has_its_request_id() {
    let file = file("envoy");
    let config = format!("audit_log: {{ to: {} }}\n{LIMITS}", file.display());
    let (upstream, service) = (Upstream::start(), Tollgate::with(&config, &[], &[SECRET]));
    let shipped = "envoy_grpc: { cluster_name: tollgate }\n";
    let envoy = replaced(RATELIMIT, shipped, METADATA);
    let envoy = rate_limited(&envoy, &upstream, service.grpc);
    let get = || reverse_proxy::get(envoy.addr(), "/", &[]);
    assert_eq!(get().status, 200, "{}", envoy.log());

    let block = json!({"limit": "per-address", "key": {"client_ip": "127.0.0.1"}, "for": "1h",
        "reason": "r", "by": "b", "status": 403});
    assert_eq!(send(&service, "POST", "/admin/blocks", &block).status, 200);
    let denied = get();
    assert_eq!(denied.status, 429, "{denied:?}");
    let problem: Value = serde_json::from_str(&denied.text()).expect("JSON");
    let kind = problem["type"].as_str().expect("a type");
    assert!(kind.ends_with("#abnormal-usage-detected"), "{kind}");
    assert_eq!(problem["status"], 429);
    assert_eq!(upstream.answered(), 1);

    let line = lines(&file, 1).remove(0);
    assert_eq!(
        (&line["limit"], &line["source"]),
        (&"per-address".into(), &"block".into())
    );
    let id = line["request_id"].as_str().expect("an id");
    let is_uuid = id.len() == 36 && id.split('-').count() == 5;
    assert!(is_uuid, "{id}");
    std::fs::remove_file(file).expect("a file");
}
