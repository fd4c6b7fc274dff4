//! Bounds on connections, requests and their sizes, and what happens beyond them.

use std::sync::mpsc;
use std::thread;

use testkit::reverse_proxy;
use testkit::servers::{Flavor, Server};
use testkit::wait;
use tollgate_envoy::Code;

use crate::grpc::about;
use crate::grpc::client::Client;
use crate::harness::{PATIENCE, Tollgate};
use crate::load::Connection;

const ANN: &str = r#"{"attributes": {"client_ip": "203.0.113.7"}}"#;

fn with_server(server: &str) -> Tollgate {
    Tollgate::with_config(&format!(
        "server: {{{server}}}\n\
         limits: [{{name: api, key: [client_ip], algorithm: sliding_window, limit: 1000000, window: 1m}}]"
    ))
}

fn open(service: &Tollgate) -> Connection {
    Connection::open(service.http).expect("a connection")
}

/// A connection with a request in flight: its body has not arrived completely.
fn open_busy(service: &Tollgate) -> Connection {
    let mut busy = open(service);
    busy.begin_check(ANN.len()).expect("it is handled");
    busy
}

#[test]
fn the_longest_idle_connection_makes_room() {
    let service = with_server("connections_max: 3");
    let mut kept: Vec<Connection> = (0..3).map(|_| open(&service)).collect();
    for index in [1, 2, 0] {
        assert_eq!(kept[index].check(ANN).expect("an answer").status, 200);
    }

    let mut newcomer = open(&service);
    assert_eq!(newcomer.check(ANN).expect("an answer").status, 200);
    assert_eq!(kept[1].until_closed().expect("it is closed"), "");
    kept.remove(1);
    kept.push(newcomer);
    for connection in &mut kept {
        assert_eq!(connection.check(ANN).expect("an answer").status, 200);
    }

    let metrics = reverse_proxy::get(service.admin, "/metrics", &[]).text();
    let evicted = "\ntollgate_evicted_connections_total 1\n";
    assert!(metrics.contains(evicted), "{metrics}");
}

#[test]
fn silent_connections_do_not_fill_a_port() {
    let service = with_server("connections_max: 8");
    let _silent: Vec<Connection> = (0..400).map(|_| open(&service)).collect();
    for _ in 0..20 {
        assert_eq!(service.check(ANN).status, 200);
    }
}

#[test]
fn a_connection_with_a_request_in_flight_is_not_evicted() {
    let service = with_server("connections_max: 3, header_timeout: 1h");
    let mut busy: Vec<Connection> = (0..3).map(|_| open_busy(&service)).collect();
    assert_eq!(service.check(ANN).status, 503);

    // The reserve answers health probes on any connection, and says why it answers nothing else.
    for _ in 0..200 {
        let mut newcomer = open(&service);
        let answer = newcomer.check(ANN).expect("an answer");
        assert_eq!(answer.status, 503);
        assert!(
            answer
                .body
                .contains(r#""code":"overloaded","retryable":true"#),
            "{answer:?}"
        );
        newcomer
            .send(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
            .expect("it is sent");
        assert_eq!(newcomer.answer().expect("an answer").status, 200);
    }
    service.wait_for_log("overloaded: rejecting requests");
    assert_eq!(service.log().matches("overloaded: rejecting").count(), 1);

    for connection in &mut busy {
        connection.send(ANN.as_bytes()).expect("it is sent");
        assert_eq!(connection.answer().expect("an answer").status, 200);
    }
    assert_eq!(service.check(ANN).status, 200);
}

/// A slot is taken when the body has arrived, so slow clients cannot take them all.
#[test]
fn requests_whose_body_has_not_arrived_hold_no_slots() {
    let service = with_server("in_flight_max: 2, header_timeout: 1h");
    let mut slow: Vec<Connection> = (0..20).map(|_| open_busy(&service)).collect();
    for _ in 0..20 {
        assert_eq!(service.check(ANN).status, 200);
    }

    for connection in &mut slow {
        connection.send(ANN.as_bytes()).expect("it is sent");
        assert_eq!(connection.answer().expect("an answer").status, 200);
    }
}

/// A proxy takes errors for an outage, and lets requests pass.
#[test]
fn a_proxy_gets_a_denial_for_a_request_beyond_the_limit_in_flight() {
    let store = Server::start(Flavor::Redis);
    let service = Tollgate::with_config(&format!(
        "server: {{in_flight_max: 1}}\n\
         store: {{type: redis, endpoints: ['{}'], timeout: 10s}}\n\
         limits: [{{name: api, key: [client_ip], algorithm: sliding_window, limit: 100, window: 1h}}]",
        store.url()
    ));
    let is_ready = || service.check(ANN).header("x-ratelimit-fallback").is_none();
    wait::until_true(PATIENCE, "the store to be reached", is_ready);
    store.freeze();

    thread::scope(|scope| {
        let held = scope.spawn(|| service.check(ANN));
        let mut envoy = Client::connect(service.grpc);
        let ask = |envoy: &mut Client| envoy.ask(&about(&[("client_ip", "203.0.113.7")]));
        let waiting = scope.spawn(move || ask(&mut envoy));
        let status = || reverse_proxy::get(service.admin, "/admin/status", &[]).text();
        let in_flight = || status().contains(r#""in_flight":2"#);
        wait::until_true(PATIENCE, "both requests to be in flight", in_flight);

        let path = "/v1/forward-auth?proxy=nginx&deny_status=403";
        let headers = [("x-real-ip", "203.0.113.7"), ("x-original-uri", "/")];
        let shed = reverse_proxy::get(service.http, path, &headers);
        assert_eq!(shed.status, 403, "{}", shed.text());
        assert_eq!(shed.header("retry-after"), Some("1"));
        assert_eq!(shed.header("x-ratelimit-status"), Some("503"));

        let mut envoy = Client::connect(service.grpc);
        assert_eq!(ask(&mut envoy).overall_code(), Code::OverLimit);

        store.thaw();
        assert_eq!(held.join().expect("an answer").status, 200);
        assert_eq!(waiting.join().expect("an answer").overall_code(), Code::Ok);
    });
    let metrics = reverse_proxy::get(service.admin, "/metrics", &[]).text();
    let counted = "tollgate_request_errors_total{code=\"overloaded\"} 2";
    assert!(metrics.contains(counted), "{metrics}");
}

/// While the store does not reply, decisions are in flight.
#[test]
fn requests_beyond_the_limit_in_flight_are_rejected() {
    let store = Server::start(Flavor::Redis);
    let service = Tollgate::with_config(&format!(
        "server: {{in_flight_max: 1}}\n\
         store: {{type: redis, endpoints: ['{}'], timeout: 10s}}\n\
         limits: [{{name: api, key: [client_ip], algorithm: sliding_window, limit: 100, window: 1h}}]",
        store.url()
    ));
    let is_ready = || service.check(ANN).header("x-ratelimit-fallback").is_none();
    wait::until_true(PATIENCE, "the store to be reached", is_ready);
    store.freeze();

    thread::scope(|scope| {
        let (answers, answered) = mpsc::channel();
        for _ in 0..2 {
            let (service, answers) = (&service, answers.clone());
            scope.spawn(move || {
                let answer = service.check(ANN);
                answers.send(answer).expect("the test waits for it");
            });
        }
        let rejected = answered.recv().expect("an answer");
        assert_eq!(rejected.status, 503);
        let text = rejected.text();
        assert!(text.contains(r#""code":"overloaded""#), "{text}");
        assert_eq!(
            reverse_proxy::get(service.http, "/healthz", &[]).status,
            200
        );

        // The other port has a slot of its own.
        let mut envoy = Client::connect(service.grpc);
        let waiting = scope.spawn(move || envoy.ask(&about(&[("client_ip", "203.0.113.7")])));
        let status = || reverse_proxy::get(service.admin, "/admin/status", &[]).text();
        let in_flight = || status().contains(r#""in_flight":2"#);
        wait::until_true(PATIENCE, "both requests to be in flight", in_flight);

        store.thaw();
        assert_eq!(answered.recv().expect("an answer").status, 200);
        assert_eq!(waiting.join().expect("an answer").overall_code(), Code::Ok);
    });
}

#[test]
fn a_head_that_does_not_arrive_times_out() {
    let service = with_server("header_timeout: 200ms");
    let mut slow = open(&service);
    slow.send(b"POST /v1/check HTTP/1.1\r\nHos")
        .expect("it is sent");
    assert_eq!(slow.until_closed().expect("it is closed"), "");
    assert_eq!(service.check(ANN).status, 200);
}

#[test]
fn a_body_that_does_not_arrive_times_out() {
    let service = with_server("header_timeout: 200ms");
    let mut slow = open(&service);
    slow.send(b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        .expect("it is sent");
    assert_eq!(slow.answer().expect("an answer").status, 408);
}

#[test]
fn an_idle_connection_is_closed() {
    let service = with_server("idle_timeout: 200ms");
    let mut used = open(&service);
    assert_eq!(used.check(ANN).expect("an answer").status, 200);
    assert_eq!(used.until_closed().expect("it is closed"), "");
    assert_eq!(open(&service).until_closed().expect("it is closed"), "");
}

#[test]
fn heads_and_bodies_have_a_maximum_size() {
    let service = with_server("body_max: 1KiB");
    let long = "x".repeat(2_000);
    assert_eq!(
        service
            .check(&format!(r#"{{"attributes": {{"a": "{long}"}}}}"#))
            .status,
        413
    );
    let mut connection = open(&service);
    let chunks = format!(
        "POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n{long}\r\n"
    );
    connection.send(chunks.as_bytes()).expect("it is sent");
    assert_eq!(connection.answer().expect("an answer").status, 413);
    let head = format!(
        "GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
        "y".repeat(100_000)
    );
    let mut connection = open(&service);
    // The service may answer and close before everything was sent.
    drop(connection.send(head.as_bytes()));
    assert_eq!(connection.answer().expect("an answer").status, 431);
}

#[test]
fn a_service_out_of_file_descriptors_recovers() {
    let service = Tollgate::with_few_files(48);
    let crowd: Vec<Connection> = (0..80)
        .filter_map(|_| Connection::open(service.http).ok())
        .collect();
    service.wait_for_log("cannot accept connections");
    drop(crowd);
    let passes = || {
        open(&service)
            .check(ANN)
            .ok()
            .filter(|answer| answer.status == 200)
    };
    wait::until(PATIENCE, "room for another connection", passes);
}
