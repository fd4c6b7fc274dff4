//! Traces reach a collector, with the decision but without the key.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use testkit::reverse_proxy;

use crate::harness::{PATIENCE, Tollgate};

/// A collector that accepts and keeps everything.
fn collector() -> (String, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut sent = Vec::new();
            let mut buffer = [0; 4096];
            let is_whole = |sent: &[u8]| {
                let text = String::from_utf8_lossy(sent).to_lowercase();
                let length = text
                    .split("content-length: ")
                    .nth(1)
                    .and_then(|rest| rest.split("\r\n").next());
                let body = sent
                    .windows(4)
                    .position(|four| four == b"\r\n\r\n")
                    .map(|at| sent.len() - at - 4);
                body.is_some() && body >= length.and_then(|length| length.parse().ok())
            };
            while !is_whole(&sent) {
                let Ok(read @ 1..) = stream.read(&mut buffer) else {
                    break;
                };
                sent.extend_from_slice(&buffer[..read]);
            }
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
            drop(sender.send(sent));
        }
    });
    (format!("http://{address}"), receiver)
}

#[test]
fn spans_have_the_decision_but_not_the_key() {
    let (url, received) = collector();
    let mut service = Tollgate::with_config(&format!(
        "monitoring: {{tracing: {{otlp_endpoint: '{url}', sample_ratio: 1.0}}}}\n\
         limits: [{{name: narrow, key: [client_ip], algorithm: sliding_window, limit: 1, window: 1h}}]"
    ));
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    let headers = [
        ("content-type", "application/json"),
        ("traceparent", parent.as_str()),
    ];
    for status in [200, 429] {
        let body = br#"{"attributes": {"client_ip": "198.51.100.77"}}"#;
        assert_eq!(
            reverse_proxy::send(service.http, "POST", "/v1/check", &headers, body).status,
            status
        );
    }
    service.signal("TERM");
    let sent = received
        .recv_timeout(PATIENCE)
        .expect("what is left is sent at the end");
    assert!(service.wait_for_exit().success());
    let text = String::from_utf8_lossy(&sent);
    assert!(text.starts_with("POST /v1/traces "), "{text}");
    for part in [
        "/v1/check",
        "tollgate.allowed",
        "tollgate.denied_by",
        "narrow",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    assert!(!text.contains("198.51.100.77"), "{text}");
    let id: Vec<u8> = (0..16)
        .map(|at| u8::from_str_radix(&trace[2 * at..2 * at + 2], 16).expect("hexadecimal"))
        .collect();
    assert!(
        sent.windows(16).any(|window| window == id),
        "the span continues the caller's trace"
    );
}

#[test]
fn an_unavailable_collector_does_not_affect_requests() {
    let mut service = Tollgate::with_config(
        "monitoring: {tracing: {otlp_endpoint: 'http://127.0.0.1:9', sample_ratio: 1.0}}\n\
         limits: [{name: narrow, key: [client_ip], algorithm: sliding_window, limit: 1, window: 1h}]",
    );
    assert_eq!(
        service
            .check(r#"{"attributes": {"client_ip": "198.51.100.77"}}"#)
            .status,
        200
    );
    service.signal("TERM");
    assert!(service.wait_for_exit().success());
}
