//! Errors that are answered before the request's body was read do not break the connection.

use crate::harness::Tollgate;
use crate::load::Connection;

const ANN: &str = r#"{"attributes": {"client_ip": "203.0.113.7"}}"#;
/// Every case is repeated, because whether a connection breaks depends on timing.
const ROUNDS: usize = 15;

/// A request that is answered early, and the status of the answer.
const EARLY: [(&str, u16); 4] = [
    ("POST /nowhere HTTP/1.1\r\nHost: x\r\n", 404),
    ("PUT /v1/check HTTP/1.1\r\nHost: x\r\n", 405),
    (
        "POST /v1/check HTTP/1.1\r\nHost: x\r\nOrigin: https://evil.example\r\n",
        403,
    ),
    ("POST /v1/check HTTP/1.1\r\nHost: x\r\nHost: x\r\n", 400),
];

/// A body whose length is announced, or one in chunks.
fn message(head: &str, bytes: usize, is_chunked: bool) -> Vec<u8> {
    let body = "x".repeat(bytes);
    if !is_chunked {
        return format!("{head}Content-Length: {bytes}\r\n\r\n{body}").into_bytes();
    }

    let mut message = format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    for chunk in body.as_bytes().chunks(8 * 1024) {
        message.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        message.extend_from_slice(chunk);
        message.extend_from_slice(b"\r\n");
    }
    message.extend_from_slice(b"0\r\n\r\n");
    message
}

/// Sends early errors between checks on a kept connection. Opens another one only if the answer
/// announces the end of the connection. Returns the number of requests and that of connections.
fn alternate(service: &Tollgate, bytes: usize) -> (usize, usize) {
    let open = || Connection::open(service.http).expect("it listens");
    let (mut connection, mut requests, mut connections) = (open(), 0, 1);

    for _ in 0..ROUNDS {
        for ((head, status), is_chunked) in EARLY.iter().flat_map(|row| [(row, false), (row, true)])
        {
            connection
                .send(&message(head, bytes, is_chunked))
                .expect("everything is sent");
            let answer = connection.answer().expect("an answer");
            assert_eq!(answer.status, *status, "{head}");
            requests += 1;
            if answer.is_last {
                connection = open();
                connections += 1;
            }
            assert_eq!(connection.check(ANN).expect("an answer").status, 200);
        }
    }
    (requests, connections)
}

#[test]
fn early_errors_break_no_connection() {
    let service = Tollgate::with_config(
        "limits: [{name: api, key: [client_ip], algorithm: sliding_window, limit: 1000000, window: 1m}]",
    );
    let mut requests = 0;
    for bytes in [0, 100, 64_000, 1_000_000] {
        let (sent, connections) = alternate(&service, bytes);
        requests += sent;
        // Small bodies are read, so the connection stays; large ones end it.
        assert_eq!(connections > 1, bytes > 128 << 10, "{bytes} bytes");
    }
    assert_eq!(requests, 480);
}

/// A client that waits for permission to send the body is not made to send it.
#[test]
fn an_expected_body_is_not_asked_for() {
    let service = Tollgate::start();
    let mut connection = Connection::open(service.http).expect("it listens");
    connection
        .send(b"PUT /v1/check HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n")
        .expect("it is sent");
    let answer = connection.answer().expect("an answer");
    assert!(answer.status == 405 && answer.is_last, "{answer:?}");
}

/// A body that does not arrive delays the answer for a moment only.
#[test]
fn a_body_that_does_not_arrive_ends_the_connection() {
    let service = Tollgate::start();
    let mut connection = Connection::open(service.http).expect("it listens");
    connection
        .send(b"PUT /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        .expect("it is sent");
    let answer = connection.answer().expect("an answer");
    assert!(answer.status == 405 && answer.is_last, "{answer:?}");
}
