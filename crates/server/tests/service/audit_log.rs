//! The audit log of denials: every front is in it, with the ids of requests.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;

use serde_json::Value;
use testkit::reverse_proxy;
use testkit::wait;
use tollgate_envoy::{
    Code, RateLimitOverride, RateLimitRequest, RateLimitUnit, ReserveRequest, ReserveResponse,
};

use crate::grpc::about;
use crate::grpc::client::Client;
use crate::grpc::reservations::RESERVE;
use crate::harness::{PATIENCE, Tollgate};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// A limit that denies everything after the first request of a key.
fn config(audit_log: &str) -> String {
    format!(
        "audit_log: {audit_log}\n\
         limits: [{{ name: api, key: [client_ip], algorithm: sliding_log, limit: 1, window: 1h }}]"
    )
}

pub(crate) fn file(name: &str) -> PathBuf {
    let name = format!("tollgate-{name}-{}.jsonl", std::process::id());
    std::env::temp_dir().join(name)
}

/// The lines so far, once there are this many.
pub(crate) fn lines(file: &PathBuf, count: usize) -> Vec<Value> {
    let mut lines = Vec::new();
    wait::until_true(PATIENCE, "the lines of the audit log", || {
        let text = fs::read_to_string(file).unwrap_or_default();
        let whole = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        lines = whole.collect();
        lines.len() >= count
    });
    lines
}

fn body(client: &str) -> String {
    format!(r#"{{"attributes": {{"client_ip": "{client}"}}}}"#)
}

#[test]
fn denials_of_every_front_are_logged_with_the_ids_of_their_requests() {
    let file = file("fronts");
    let settings = format!("{{ to: {} }}", file.display());
    let service = Tollgate::with_resp(&config(&settings));

    let traceparent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let headers = [("x-request-id", "r-1"), ("traceparent", &*traceparent)];
    let check = body("203.0.113.1");
    for _ in 0..2 {
        reverse_proxy::send(
            service.http,
            "POST",
            "/v1/check",
            &headers,
            check.as_bytes(),
        );
    }
    let batch = format!(r#"{{"requests": [{check}, {check}]}}"#)
        .replace(r#"{"attributes""#, r#"{"op": "check", "attributes""#);
    let headers = [("x-request-id", "r-2")];
    reverse_proxy::send(
        service.http,
        "POST",
        "/v1/batch",
        &headers,
        batch.as_bytes(),
    );
    let headers = [
        ("x-request-id", "r-3"),
        ("x-original-uri", "/"),
        ("x-original-method", "GET"),
    ];
    for _ in 0..2 {
        reverse_proxy::send(
            service.http,
            "GET",
            "/v1/forward-auth?proxy=nginx",
            &headers,
            b"",
        );
    }
    let mut resp = TcpStream::connect(service.resp()).expect("a connection");
    resp.write_all(b"CL.THROTTLE ann 0 1 3600\r\nCL.THROTTLE ann 0 1 3600\r\n")
        .expect("sent");
    resp.read_exact(&mut [0; 8]).expect("a reply");

    let lines = lines(&file, 5);
    let seen: Vec<_> = lines
        .iter()
        .map(|line| {
            (
                line["limit"].as_str().unwrap_or_default(),
                line["key"][0]["value"].as_str().unwrap_or_default(),
                line["request_id"].as_str(),
                line["trace_id"].as_str(),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("api", "203.0.113.1", Some("r-1"), Some(TRACE)),
            ("api", "203.0.113.1", Some("r-2"), None),
            ("api", "203.0.113.1", Some("r-2"), None),
            ("api", "127.0.0.1", Some("r-3"), None),
            ("override:cl.throttle", "ann", None, None),
        ]
    );
    fs::remove_file(file).expect("a file");
}

#[test]
fn a_reload_turns_the_log_on_and_off_and_a_bad_target_is_refused() {
    let file = file("reload");
    let settings = format!("{{ to: {} }}", file.display());
    let plain = config("{}").replace("audit_log: {}\n", "");
    let service = Tollgate::with_config(&plain);
    let deny = || (0..2).for_each(|_| drop(service.check(&body("203.0.113.1"))));
    deny();

    service.rewrite_config(&config(&settings));
    service.wait_for_log("configuration reloaded");
    deny();
    assert_eq!(lines(&file, 2).len(), 2);

    service.rewrite_config(&config("{ to: /nowhere/denials.jsonl }"));
    service.wait_for_log("audit_log.to: cannot write to /nowhere/denials.jsonl");
    deny();
    assert_eq!(
        lines(&file, 4).len(),
        4,
        "the old configuration stays active"
    );

    let page = reverse_proxy::get(service.admin, "/metrics", &[]);
    let page = String::from_utf8_lossy(&page.body);
    assert!(page.contains("tollgate_audit_log_lines_total 4"), "{page}");
    assert!(
        page.contains(r#"tollgate_audit_log_dropped_total{reason="rate"} 0"#),
        "{page}"
    );
    fs::remove_file(file).expect("a file");
}

/// A proxy can send both ids as metadata of its call.
#[test]
fn denials_over_grpc_are_logged_with_the_ids_of_their_metadata() {
    let file = file("grpc");
    let settings = format!("{{ to: {} }}", file.display());
    let service = Tollgate::with_config(&config(&settings));
    let traceparent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let mut client = Client::connect(service.grpc)
        .with_metadata("x-request-id", "r-4")
        .with_metadata("traceparent", &traceparent);

    let entries = [("remote_address", "203.0.113.1")];
    assert_eq!(client.ask(&about(&entries)).overall_code(), Code::Ok);
    assert_eq!(client.ask(&about(&entries)).overall_code(), Code::OverLimit);
    // Whether a unit is left is a decision, too.
    let mut question = about(&entries);
    question.descriptors[0].hits_addend = Some(0);
    assert_eq!(client.ask(&question).overall_code(), Code::OverLimit);
    let RateLimitRequest {
        domain,
        descriptors,
        ..
    } = about(&entries);
    let reserve = ReserveRequest {
        domain,
        descriptors,
        amount: 1,
        ttl: None,
    };
    let reserved: ReserveResponse = client.call(RESERVE, &reserve).only();
    assert_eq!(reserved.code(), Code::OverLimit);
    let limit = RateLimitOverride {
        requests_per_unit: 1,
        unit: RateLimitUnit::Year.into(),
        ..Default::default()
    };
    let mut own = about(&[("tenant", "acme")]);
    own.descriptors[0].limit = Some(limit);
    client.ask(&own);
    assert_eq!(client.ask(&own).overall_code(), Code::OverLimit);

    let lines = lines(&file, 4);
    for line in &lines {
        assert_eq!(line["request_id"], "r-4", "{line}");
        assert_eq!(line["trace_id"], TRACE, "{line}");
    }
    let keys: Vec<_> = lines.iter().map(shown_key).collect();
    let address = ("api", "203.0.113.1".to_owned());
    let tenant = ("override:year", "shop tenant acme".to_owned());
    assert_eq!(keys, [address.clone(), address.clone(), address, tenant]);
    fs::remove_file(file).expect("a file");
}

/// The limit of a line, and the parts of its key.
fn shown_key(line: &Value) -> (&str, String) {
    let parts = line["key"].as_array().expect("a list").iter();
    let values: Vec<&str> = parts.filter_map(|part| part["value"].as_str()).collect();
    (line["limit"].as_str().unwrap_or_default(), values.join(" "))
}
