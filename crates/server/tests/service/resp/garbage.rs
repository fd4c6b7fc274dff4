//! Bytes that are no commands, over a real connection: an error, and the end of the connection.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use super::{LIMITS, connect, integers};
use crate::harness::{PATIENCE, Tollgate};

/// Sends bytes, and returns everything that the service sends until it closes the connection.
fn exchange(service: &Tollgate, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(service.resp()).expect("it listens");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a time limit");
    // The service may stop reading early.
    drop(stream.write_all(bytes));
    let mut received = Vec::new();
    stream
        .read_to_end(&mut received)
        .expect("the service closes the connection");
    String::from_utf8_lossy(&received).into_owned()
}

#[test]
fn garbage_gets_an_error_and_ends_the_connection() {
    let service = Tollgate::with_resp(LIMITS);
    let long_line = vec![b'x'; 40_000];
    let long_argument = [&b"*128\r\n$1000\r\n"[..], &vec![b'y'; 40_000]].concat();
    for (bytes, expected) in [
        (&b"*abc\r\n"[..], "invalid multibulk length"),
        (b"*1000000\r\n", "invalid multibulk length"),
        (b"*2\r\n$4\r\nPING\r\n#t\r\n", "expected '$', got '#'"),
        (b"*1\r\n$536870912\r\n", "invalid bulk length"),
        (b"*1\r\n$-5\r\n", "invalid bulk length"),
        (b"*1\r\n$2\r\nPING\r\n", "expected CRLF"),
        (b"\0\0\0\0", "unexpected byte 0x00"),
        (b"\x16\x03\x01\x00\xff", "unexpected byte 0x16"),
        (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "this is not an HTTP port",
        ),
        (
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "this is not an HTTP port",
        ),
        (&long_line, "too big request"),
        (&long_argument, "expected CRLF"),
    ] {
        let received = exchange(&service, bytes);
        let start = format!("-ERR Protocol error: {expected}");
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(30)]);
        assert!(received.starts_with(&start), "{shown}: {received}");
        assert_eq!(received.lines().count(), 1, "{shown}: {received}");
    }
}

#[test]
fn a_web_page_cannot_reach_a_command() {
    let service = Tollgate::with_resp(LIMITS);
    let body = "CL.THROTTLE page 0 1 60\r\n".repeat(3);
    let request = format!(
        "POST / HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n{body}",
        service.resp(),
        body.len()
    );
    let received = exchange(&service, request.as_bytes());
    assert_eq!(
        received,
        "-ERR Protocol error: this is not an HTTP port; use the address of --http\r\n"
    );
    let looked = connect(&service).call(&["CL.THROTTLE", "page", "0", "1", "60", "0"]);
    assert_eq!(integers(&looked.expect("a reply")), [0, 1, 1, -1, 0]);
}

#[test]
fn commands_may_arrive_byte_by_byte() {
    let service = Tollgate::with_resp(LIMITS);
    let mut stream = TcpStream::connect(service.resp()).expect("it listens");
    stream.set_nodelay(true).expect("a socket");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a time limit");
    let commands = b"PING\r\n*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\na\r\n$1\r\n0\r\n$1\r\n1\r\n$2\r\n60\r\nQUIT\r\n";
    for byte in commands {
        stream.write_all(&[*byte]).expect("it is open");
    }
    let mut received = String::new();
    stream
        .read_to_string(&mut received)
        .expect("QUIT closes the connection");
    assert_eq!(
        received,
        "+PONG\r\n*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n+OK\r\n"
    );
}

#[test]
fn the_end_of_the_input_ends_the_connection_after_the_replies() {
    let service = Tollgate::with_resp(LIMITS);
    let mut stream = TcpStream::connect(service.resp()).expect("it listens");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a time limit");
    // The last command is incomplete.
    stream
        .write_all(b"PING\r\nECHO a\r\n*2\r\n$4\r\nPI")
        .expect("it is open");
    stream.shutdown(Shutdown::Write).expect("it is open");
    let mut received = String::new();
    stream
        .read_to_string(&mut received)
        .expect("the service closes the connection");
    assert_eq!(received, "+PONG\r\n$1\r\na\r\n");
}
