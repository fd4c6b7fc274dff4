//! Bounds on connections, requests and their sizes, and what happens beyond them.

use testkit::wait;

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

#[test]
fn a_connection_beyond_the_limit_gets_503() {
    let service = with_server("connections_max: 3");
    let mut kept: Vec<Connection> = (0..3).map(|_| open(&service)).collect();
    for connection in &mut kept {
        assert_eq!(connection.check(ANN).expect("an answer").status, 200);
    }
    let refused = open(&service).until_closed().expect("it is closed");
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    drop(kept);
    let again = || {
        open(&service)
            .check(ANN)
            .ok()
            .filter(|answer| answer.status == 200)
    };
    wait::until(PATIENCE, "room for another connection", again);
}

#[test]
fn requests_beyond_the_limit_in_flight_are_rejected() {
    let service = with_server("in_flight_max: 2");
    let half = b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{";
    let (mut slow, mut connection) = (Vec::new(), open(&service));
    // A request that arrives while the other one is in flight is rejected itself, so this may take
    // a few attempts.
    let answer = wait::until(PATIENCE, "a request to be shed", || {
        let mut another = open(&service);
        another.send(half).expect("it is sent");
        slow.push(another);
        connection
            .check(ANN)
            .ok()
            .filter(|answer| answer.status == 503)
    });
    assert!(answer.body.contains(r#""code":"overloaded""#), "{answer:?}");
    drop(slow);
    let mut passes = || {
        connection
            .check(ANN)
            .ok()
            .filter(|answer| answer.status == 200)
    };
    wait::until(PATIENCE, "room for another request", &mut passes);
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
