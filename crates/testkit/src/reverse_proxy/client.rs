//! A minimal HTTP/1.1 client: one request, one response, one connection.
//!
//! It shares no code with Tollgate's HTTP implementation, so that a bug cannot be on both sides.
//! Time and size are bounded: a test that fails is more useful than one that hangs.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const TIME_LIMIT: Duration = Duration::from_secs(10);
/// The maximum size of a response.
const BYTES_MAX: u64 = 1 << 20;

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// All headers in the order they were received, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, without transfer encoding.
    pub body: Vec<u8>,
}

impl Response {
    /// The first header with this name, which must be in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        value(&self.headers, name)
    }

    /// The body as text; invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends a GET request.
///
/// # Panics
///
/// If there is no valid response within ten seconds.
pub fn get(addr: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Response {
    send(addr, "GET", path, headers, b"")
}

/// Sends a request. `Host` is the address unless it is among the headers; `Connection` and
/// `Content-Length` are added.
///
/// # Panics
///
/// If there is no valid response within ten seconds.
#[expect(clippy::panic, reason = "a test cannot continue without the response")]
pub fn send(
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Response {
    exchange(addr, method, path, headers, body)
        .unwrap_or_else(|error| panic!("no response from {addr} to {method} {path}: {error}"))
}

fn exchange(
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Response> {
    let stream = TcpStream::connect_timeout(&addr, TIME_LIMIT)?;
    stream.set_read_timeout(Some(TIME_LIMIT))?;
    stream.set_write_timeout(Some(TIME_LIMIT))?;
    send_over(stream, addr, method, path, headers, body)
}

/// Sends a request over a connection to this address, such as one with TLS, and reads the response.
pub fn send_over(
    mut stream: impl Read + Write,
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Response> {
    let mut request = head(addr, method, path, headers, body.len()).into_bytes();
    request.extend_from_slice(body);
    stream.write_all(&request)?;

    read_response(&mut BufReader::new(stream.take(BYTES_MAX)), method)
}

fn head(
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    length: usize,
) -> String {
    let has = |wanted: &str| {
        let mut names = headers.iter().map(|(name, _)| name);
        names.any(|name| name.eq_ignore_ascii_case(wanted))
    };
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    if !has("connection") {
        head.push_str("Connection: close\r\n");
    }

    if !has("host") {
        let _infallible = write!(head, "Host: {addr}\r\n");
    }

    if length > 0 || !matches!(method, "GET" | "HEAD") {
        let _infallible = write!(head, "Content-Length: {length}\r\n");
    }

    for (name, value) in headers {
        let _infallible = write!(head, "{name}: {value}\r\n");
    }

    head + "\r\n"
}

fn read_response(reader: &mut impl BufRead, method: &str) -> io::Result<Response> {
    let line = read_line(reader)?;
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| unreadable(&line))?;

    let headers = read_headers(reader)?;

    let has_body = method != "HEAD" && !matches!(status, 204 | 304);
    let body = if has_body {
        read_body(reader, &headers)?
    } else {
        Vec::new()
    };

    Ok(Response {
        status,
        headers,
        body,
    })
}

/// Reads headers up to the empty line, with names in lower case.
pub(super) fn read_headers(reader: &mut impl BufRead) -> io::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let line = read_line(reader)?;
        if line.is_empty() {
            return Ok(headers);
        }
        let (name, value) = line.split_once(':').ok_or_else(|| unreadable(&line))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// Reads a body as its headers specify: chunked, with a known length, or up to the end of the
/// connection.
fn read_body(reader: &mut impl BufRead, headers: &[(String, String)]) -> io::Result<Vec<u8>> {
    if value(headers, "transfer-encoding")
        .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
    {
        return read_chunks(reader);
    }

    if let Some(length) = content_length(headers) {
        return read_exactly(reader, length);
    }

    let mut body = Vec::new();
    reader.read_to_end(&mut body)?;
    Ok(body)
}

pub(super) fn content_length(headers: &[(String, String)]) -> Option<u64> {
    value(headers, "content-length")?.parse().ok()
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(reader)?;
        let length = u64::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16);
        let length = length.map_err(|_| unreadable(&line))?;

        if length == 0 {
            // Trailers after the last chunk have the form of headers.
            read_headers(reader)?;
            return Ok(body);
        }

        body.extend(read_exactly(reader, length)?);
        read_line(reader)?;
    }
}

/// Reads exactly this many bytes; a truncated body is an error.
pub(super) fn read_exactly(reader: &mut impl BufRead, length: u64) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;
    let is_whole = u64::try_from(body.len()).is_ok_and(|read| read == length);
    is_whole
        .then_some(body)
        .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Reads a line and removes its line ending, which must be there.
pub(super) fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    // A proxy passes on bytes that are not text.
    let line = String::from_utf8_lossy(&line);
    match line.strip_suffix("\r\n") {
        Some(content) => Ok(content.to_owned()),
        None => Err(unreadable(&line)),
    }
}

fn value<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(found, _)| found == name)
        .map(|(_, value)| value.as_str())
}

fn unreadable(line: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("invalid HTTP: {line:?}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, method: &str) -> io::Result<Response> {
        read_response(&mut text.as_bytes(), method)
    }

    #[test]
    fn every_body_framing_is_read() {
        let known = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\n\r\nhellomore";
        let pieces = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                      2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
        let to_the_end = "HTTP/1.0 200 OK\r\n\r\nhello";
        for text in [known, pieces, to_the_end] {
            let response = read(text, "GET").unwrap();
            assert_eq!(
                (response.status, response.text().as_str()),
                (200, "hello"),
                "{text}"
            );
        }
        assert_eq!(read(known, "GET").unwrap().header("x-a"), Some("1"));
        assert!(read(known, "HEAD").unwrap().body.is_empty());
    }

    #[test]
    fn a_truncated_response_is_an_error() {
        for text in [
            "",
            "HTTP/1.1 200 OK",
            "HTTP/1.1 200 OK\r\nA: b\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        ] {
            assert!(read(text, "GET").is_err(), "{text}");
        }
    }

    #[test]
    fn a_request_names_its_host_once() {
        let addr = SocketAddr::from(([127, 0, 0, 1], 80));
        assert!(head(addr, "GET", "/", &[], 0).contains("\r\nHost: 127.0.0.1:80\r\n"));
        let named = head(addr, "POST", "/a", &[("host", "b")], 0);
        assert_eq!(
            named,
            "POST /a HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\nhost: b\r\n\r\n"
        );
    }
}
