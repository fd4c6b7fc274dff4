//! The life of connections to the RESP port: bounds, timeouts and the shutdown.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use testkit::reverse_proxy;
use testkit::servers::Reply;

use super::{LIMITS, connect, integers};
use crate::harness::{PATIENCE, Tollgate};

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

#[test]
fn the_longest_idle_connection_makes_room() {
    let service = with_server("connections_max: 2");
    let mut kept = [connect(&service), connect(&service)];
    for client in &mut kept {
        assert_eq!(client.call(&["PING"]), Ok(Reply::Status("PONG".into())));
    }
    let mut newcomer = connect(&service);
    assert_eq!(newcomer.call(&["PING"]), Ok(Reply::Status("PONG".into())));
    assert!(kept[0].call(&["PING"]).is_err(), "it was closed");
    assert_eq!(kept[1].call(&["PING"]), Ok(Reply::Status("PONG".into())));

    let metrics = reverse_proxy::get(service.admin, "/metrics", &[]).text();
    assert!(
        metrics.contains("\ntollgate_evicted_connections_total 1\n"),
        "{metrics}"
    );
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
