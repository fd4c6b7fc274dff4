//! `near_limit` is about what keys have used, and not about every denial.

use serde_json::json;
use testkit::reverse_proxy;
use testkit::wait;

use super::{Receiver, metric, service};
use crate::harness::{PATIENCE, Tollgate};

/// Uses up the limit of a user, and waits until that is reported.
fn use_up(service: &Tollgate, limit: &str) {
    let bob = json!({"limits": [limit], "attributes": {"user": "bob"}}).to_string();
    (0..5).for_each(|_| drop(service.check(&bob)));
    let percent = |percent: u8| {
        format!("tollgate_near_limit_keys_total{{limit=\"{limit}\",percent=\"{percent}\"}}")
    };
    wait::until_true(PATIENCE, "the report", || {
        [80, 100].map(|share| metric(service, &percent(share))) == [Some(1); 2]
    });
}

#[test]
fn a_blocked_key_has_not_used_its_limit() {
    let receiver = Receiver::start(&[]);
    let limits = "limits: [{ name: daily, key: [user], algorithm: fixed_window, limit: 5, \
                  window: 1d, block: { keys: [{ user: ann }] } }]";
    let service = service(receiver.address, "near_limit: 1h", limits);
    let ann = json!({"attributes": {"user": "ann"}}).to_string();
    (0..9).for_each(|_| assert_eq!(service.check(&ann).status, 429));
    use_up(&service, "daily");
    for delivery in receiver.wait_for(2) {
        assert_eq!(delivery.json()["key"][0]["value"], "bob");
    }
}

#[test]
fn an_outage_uses_up_no_limit() {
    let receiver = Receiver::start(&[]);
    let limits = "store: { type: redis, endpoints: ['redis://127.0.0.1:1'] }\n\
        limits:\n\
        - { name: shared, key: [user], algorithm: fixed_window, limit: 5, window: 1d, \
            on_store_failure: deny }\n\
        - { name: here, key: [user], algorithm: fixed_window, limit: 5, window: 1d, \
            consistency: local }";
    let service = service(receiver.address, "near_limit: 1h", limits);
    let ann = json!({"limits": ["shared"], "attributes": {"user": "ann"}}).to_string();
    (0..9).for_each(|_| assert_eq!(service.check(&ann).status, 503));
    use_up(&service, "here");
    let page = reverse_proxy::get(service.admin, "/metrics", &[]).text();
    let shared = "tollgate_near_limit_keys_total{limit=\"shared\"";
    assert!(!page.contains(shared), "{page}");
}
