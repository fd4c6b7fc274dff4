//! One request and its response on a connection of their own. The request is sent byte by byte as
//! it is: an HTTP client would correct or refuse most variants.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The largest response in bytes; more is cut off.
const RESPONSE_MAX: usize = 1 << 20;
/// The most headers of a response.
const HEADERS_MAX: usize = 128;

/// The parts of a response that tell handlers apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawResponse {
    pub(super) status: u16,
    /// As transferred, so a chunked body has its chunk sizes.
    pub(super) body: Vec<u8>,
}

/// Sends the bytes and reads the response. `Ok(None)` if the peer closes the connection, or does
/// not complete the response's head in time; an error if the connection cannot be opened.
pub(super) async fn exchange(
    address: SocketAddr,
    request: &[u8],
    timeout: Duration,
) -> io::Result<Option<RawResponse>> {
    let connect = tokio::time::timeout(timeout, TcpStream::connect(address));
    let mut stream = connect.await.map_err(|_| io::ErrorKind::TimedOut)??;

    // The peer may reject a request before it has read all of it.
    let _ignored = stream.write_all(request).await;

    let mut received = Vec::new();
    let read = read(&mut stream, &mut received);
    let _closed_or_late = tokio::time::timeout(timeout, read).await;
    Ok(parse(&received).map(|(response, _)| response))
}

/// Reads until the response is complete or the peer closes the connection.
async fn read(stream: &mut TcpStream, received: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = [0; 8192];
    while received.len() < RESPONSE_MAX {
        match stream.read(&mut buffer).await? {
            0 => break,
            length => received.extend_from_slice(&buffer[..length]),
        }
        if parse(received).is_some_and(|(_, is_complete)| is_complete) {
            break;
        }
    }
    Ok(())
}

/// The response so far, and whether it is complete; `None` before the end of its head.
fn parse(bytes: &[u8]) -> Option<(RawResponse, bool)> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head) = response.parse(bytes).ok()? else {
        return None;
    };

    let status = response.code?;
    let body = bytes[head..].to_vec();
    let value = |name: &str| {
        let mut headers = response.headers.iter();
        let header = headers.find(|header| header.name.eq_ignore_ascii_case(name));
        header.map(|header| header.value)
    };
    let length = value("content-length").and_then(|value| {
        std::str::from_utf8(value)
            .ok()?
            .trim()
            .parse::<usize>()
            .ok()
    });

    let is_complete = match length {
        _ if matches!(status, 204 | 304) => true,
        Some(length) => body.len() >= length,
        None => value("transfer-encoding").is_some() && body.ends_with(b"0\r\n\r\n"),
    };
    Some((RawResponse { status, body }, is_complete))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_ends_with_its_body() {
        let is_complete = |text: &str| parse(text.as_bytes()).map(|(_, is_complete)| is_complete);

        assert_eq!(is_complete("HTTP/1.1 200 OK\r\nContent-Le"), None);
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nh", false),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", true),
            (
                "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
                true,
            ),
            ("HTTP/1.1 204 No Content\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\n\r\nhi", false),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi",
                false,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
                true,
            ),
        ] {
            assert_eq!(is_complete(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_http_is_no_response() {
        assert_eq!(parse(b"+PONG\r\n"), None);
    }
}
