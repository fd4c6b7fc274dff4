//! The life of connections to the RESP port: bounds, timeouts and the shutdown.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use testkit::reverse_proxy;
use testkit::servers::{Flavor, Reply, Server};
use testkit::wait;

use super::{LIMITS, connect, integers};
use crate::harness::{PATIENCE, Tollgate};

/// A call that is allowed, and waits for the store.
const WAITING: [&str; 5] = ["CL.THROTTLE", "waiting", "9", "1", "60"];
/// The length of a long pipeline.
const CALLS: usize = 5_000;

fn with_server(settings: &str) -> Tollgate {
    Tollgate::with_resp(&format!("server: {{ {settings} }}\n{LIMITS}"))
}

/// Sends bytes on a new connection, which stays open.
fn send(service: &Tollgate, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(service.resp()).expect("it listens");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a time limit");
    stream.write_all(bytes).expect("it is open");
    stream
}

/// What is received until the service closes the connection.
fn until_closed(mut stream: TcpStream) -> String {
    let mut received = String::new();
    stream.read_to_string(&mut received).expect("it is closed");
    received
}

#[test]
fn a_command_that_never_arrives_completely_is_given_up() {
    let service = with_server("header_timeout: 100ms");
    let partial = send(&service, b"*2\r\n$4\r\nPI");
    let line = send(&service, b"PIN");
    assert_eq!(until_closed(partial), "");
    assert_eq!(until_closed(line), "");
}

#[test]
fn an_idle_connection_is_closed() {
    let service = with_server("idle_timeout: 100ms");
    assert_eq!(until_closed(send(&service, b"PING\r\n")), "+PONG\r\n");
    assert_eq!(
        until_closed(send(&service, b"PING\r\n*1\r\n$4")),
        "+PONG\r\n"
    );
}

/// Which of two idle connections is evicted depends on ticks; the unit tests of the table show that
/// it is the longest idle one.
#[test]
fn an_idle_connection_makes_room() {
    let service = with_server("connections_max: 2");
    let mut kept = [connect(&service), connect(&service)];
    for client in &mut kept {
        assert_eq!(client.call(&["PING"]), Ok(Reply::Status("PONG".into())));
    }
    let mut newcomer = connect(&service);
    assert_eq!(newcomer.call(&["PING"]), Ok(Reply::Status("PONG".into())));

    wait::until_true(PATIENCE, "an eviction", || {
        let metrics = reverse_proxy::get(service.admin, "/metrics", &[]).text();
        metrics.contains("\ntollgate_evicted_connections_total 1\n")
    });
    wait::until_true(PATIENCE, "a closed connection", || {
        let answers = kept.each_mut().map(|client| client.call(&["PING"]).is_ok());
        answers.iter().filter(|is_open| **is_open).count() == 1
    });
    assert_eq!(newcomer.call(&["PING"]), Ok(Reply::Status("PONG".into())));
}

#[test]
fn a_long_pipeline_is_answered_completely() {
    let service = with_server("in_flight_max: 1");
    let mut stream = send(&service, b"");
    let mut writer = stream.try_clone().expect("a socket");
    let received = std::thread::scope(|scope| {
        scope.spawn(move || {
            let calls = "CL.THROTTLE a 4999 1 3600\r\n".repeat(CALLS);
            writer.write_all(calls.as_bytes()).expect("it is open");
            writer
                .write_all(b"CL.THROTTLE a 4999 1 3600\r\nQUIT\r\n")
                .expect("it is open");
        });
        let mut received = String::new();
        stream
            .read_to_string(&mut received)
            .expect("QUIT closes the connection");
        received
    });
    assert_eq!(received.matches("*5\r\n:0\r\n").count(), CALLS);
    assert_eq!(received.matches("*5\r\n:1\r\n").count(), 1);
    assert!(received.ends_with("+OK\r\n"));
}

#[test]
fn a_shutdown_answers_what_has_arrived_and_closes_connections() {
    let mut service = Tollgate::with_resp(LIMITS);
    let mut idle = connect(&service);
    let mut busy = connect(&service);
    assert_eq!(idle.call(&["PING"]), Ok(Reply::Status("PONG".into())));
    let throttle = ["CL.THROTTLE", "a", "999999999", "1", "1"];
    assert_eq!(integers(&busy.call(&throttle).expect("a reply"))[0], 0);
    service.signal("TERM");

    // A busy client is served until the port accepts no more connections.
    while let Ok(reply) = busy.call(&throttle) {
        assert_eq!(integers(&reply)[0], 0);
    }
    assert!(service.wait_for_exit().success());
    assert!(idle.call(&["PING"]).is_err());
    assert!(!service.log().contains("drain timeout reached"));
}

/// A service whose store does not reply, with a decision in flight.
fn with_decision_in_flight(settings: &str) -> (Server, Tollgate, TcpStream) {
    let store = Server::start(Flavor::Redis);
    let url = store.url();
    let service = with_server(&format!(
        "{settings} }}\nstore: {{ type: redis, endpoints: ['{url}'], timeout: 10s"
    ));
    assert_eq!(
        integers(&connect(&service).call(&WAITING).expect("a reply"))[0],
        0
    );

    store.freeze();
    let waiting = send(&service, b"PING\r\nCL.THROTTLE waiting 9 1 60\r\n");
    wait::until_true(PATIENCE, "a decision in flight", || {
        let metrics = reverse_proxy::get(service.admin, "/metrics", &[]).text();
        metrics.contains("\ntollgate_in_flight_requests 1\n")
    });
    (store, service, waiting)
}

#[test]
fn too_many_requests_in_flight_are_refused() {
    let (store, service, waiting) = with_decision_in_flight("in_flight_max: 1");
    let mut other = connect(&service);
    let refused = other.call(&WAITING).expect("a reply");
    let text = "ERR overloaded: too many requests in flight; retry in a second";
    assert_eq!(refused.error(), Some(text));
    assert_eq!(other.call(&["PING"]), Ok(Reply::Status("PONG".into())));

    store.thaw();
    wait::until_true(PATIENCE, "a slot", || {
        other.call(&WAITING).expect("a reply").error().is_none()
    });
    drop(waiting);
}

#[test]
fn beyond_the_last_connection_there_is_only_an_error() {
    let (store, service, waiting) = with_decision_in_flight("connections_max: 1");
    let refused = until_closed(send(&service, b"PING\r\n"));
    assert_eq!(
        refused,
        "-ERR overloaded: too many connections; retry in a second\r\n"
    );
    store.thaw();
    drop(waiting);
}

#[test]
fn a_shutdown_waits_for_the_decisions_in_flight() {
    let (store, mut service, waiting) = with_decision_in_flight("in_flight_max: 9");
    service.signal("TERM");
    service.wait_for_log("shutting down");
    store.thaw();
    assert_eq!(
        until_closed(waiting),
        "+PONG\r\n*5\r\n:0\r\n:10\r\n:8\r\n:-1\r\n:120\r\n"
    );
    assert!(service.wait_for_exit().success());
}
