//! Sends raw bytes, for requests that no HTTP client would send.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};

use testkit::reverse_proxy::Response;

use crate::harness::PATIENCE;

/// Sends bytes and reads until the response is complete or the server closes the connection. With
/// `cut_off` the sending side is closed after the bytes.
pub(crate) fn exchange(server: SocketAddr, bytes: &[u8], cut_off: bool) -> Response {
    let mut stream = TcpStream::connect(server).expect("it listens");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a time limit");
    // The server may stop reading early.
    drop(stream.write_all(bytes));
    if cut_off {
        drop(stream.shutdown(Shutdown::Write));
    }
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        answer.extend_from_slice(&buffer[..read]);
        if let Some(response) = parse(&answer).filter(is_complete) {
            return response;
        }
    }
    let asked = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
    parse(&answer)
        .ok_or_else(|| format!("{asked:?} got {answer:?}"))
        .expect("an answer")
}

/// Sends bytes, expects a response without a body, after which the server closes the connection, and
/// returns its status.
pub(crate) fn bare_status(server: SocketAddr, bytes: &[u8]) -> u16 {
    let mut stream = TcpStream::connect(server).expect("it listens");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a time limit");
    // The server may stop reading early.
    drop(stream.write_all(bytes));
    let mut answer = Vec::new();
    stream
        .read_to_end(&mut answer)
        .expect("the server closes the connection");
    let response = parse(&answer).expect("an answer");
    assert_eq!(response.header("connection"), Some("close"));
    assert_eq!(response.header("content-length"), Some("0"));
    assert_eq!(response.body, b"");
    response.status
}

fn parse(bytes: &[u8]) -> Option<Response> {
    let end = bytes.windows(4).position(|part| part == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let pair = |line: &str| {
        line.split_once(':')
            .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
    };
    Some(Response {
        status,
        headers: lines.filter_map(pair).collect(),
        body: bytes[end + 4..].to_vec(),
    })
}

fn is_complete(response: &Response) -> bool {
    response.header("content-length") == Some(&*response.body.len().to_string())
}
