//! One persistent HTTP/1.1 connection to a replica, and the check requests sent on it.
//!
//! Written by hand, because the client must cost little compared with what it measures, and needs
//! only one method, one path and bodies of known length.

use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::record::DecisionSource;

/// How long a response may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// Larger than any response of the service.
const RESPONSE_MAX: usize = 16 * 1_024;

/// The parts of a check request that are the same in a whole cell: the limit and the key prefix.
#[derive(Clone, Debug)]
pub(super) struct CheckRequest {
    pub(super) limit: &'static str,
    /// The prefix of all keys of the cell.
    pub(super) cell: String,
}

impl CheckRequest {
    /// Writes a complete HTTP request.
    pub(super) fn write(&self, request: &mut String, key: u32, cost: u32) {
        let Self { limit, cell } = self;
        request.clear();
        let body = format!(
            r#"{{"attributes":{{"user":"{cell}-{key}"}},"limits":["{limit}"],"cost":{cost}}}"#
        );
        let length = body.len();
        write!(
            request,
            "POST /v1/check HTTP/1.1\r\nHost: replica\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
        .expect("writing to a string cannot fail");
    }
}

/// A response: its status and body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CheckResponse<'a> {
    status: u16,
    pub(super) body: &'a [u8],
}

impl CheckResponse<'_> {
    /// Whether the request was admitted, and the source of the decision.
    pub(super) fn decision(&self) -> (bool, DecisionSource) {
        let source = word_after(self.body, br#""source":""#)
            .map_or(DecisionSource::Missing, DecisionSource::from_word);
        match self.status {
            200 if source != DecisionSource::Missing => (true, source),
            429 | 503 => (false, source),
            _ => (false, DecisionSource::Missing),
        }
    }
}

#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Connection {
    pub(super) async fn open(replica: SocketAddr) -> io::Result<Self> {
        let stream = timeout(PATIENCE, TcpStream::connect(replica)).await??;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            bytes: Vec::with_capacity(RESPONSE_MAX),
        })
    }

    /// Sends a request and waits for the complete response. After an error the connection cannot be
    /// used any more.
    pub(super) async fn ask(&mut self, request: &str) -> io::Result<CheckResponse<'_>> {
        let Self { stream, bytes } = self;
        bytes.clear();
        let asked = async {
            stream.write_all(request.as_bytes()).await?;
            loop {
                if let Some(answer) = parse(bytes)? {
                    return Ok::<_, io::Error>(answer);
                }
                if bytes.len() >= RESPONSE_MAX || stream.read_buf(bytes).await? == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
            }
        };
        let ResponseParts { status, start, end } = timeout(PATIENCE, asked).await??;
        Ok(CheckResponse {
            status,
            body: &bytes[start..end],
        })
    }
}

/// The status of a complete response, and where its body starts and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ResponseParts {
    status: u16,
    start: usize,
    end: usize,
}

/// Parses a response; `None` while it is incomplete.
fn parse(bytes: &[u8]) -> io::Result<Option<ResponseParts>> {
    let Some(head_len) = position(bytes, b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..head_len]).map_err(io::Error::other)?;
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    });
    let (Some(status), Some(length)) = (status, length) else {
        return Err(io::Error::other(format!(
            "response without status or length: {head}"
        )));
    };
    let start = head_len + 4;
    let end = start.saturating_add(length);
    Ok((end <= bytes.len()).then_some(ResponseParts { status, start, end }))
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

/// The bytes after `wanted`, up to the next quotation mark.
fn word_after<'a>(bytes: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    let rest = &bytes[position(bytes, wanted)? + wanted.len()..];
    rest.split(|byte| *byte == b'"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_complete_with_its_body() {
        let text = b"HTTP/1.1 429 Too Many Requests\r\nContent-length: 4\r\nx: y\r\n\r\nbody";
        for cut in 0..text.len() {
            assert_eq!(parse(&text[..cut]).unwrap(), None, "{cut}");
        }
        let found = parse(text).unwrap().unwrap();
        assert_eq!(
            (found.status, &text[found.start..found.end]),
            (429, &b"body"[..])
        );
        assert!(parse(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert!(parse(b"what\r\ncontent-length: 1\r\n\r\n").is_err());
    }

    #[test]
    fn a_decision_is_a_status_and_a_source() {
        let decision = |status, body: &str| {
            CheckResponse {
                status,
                body: body.as_bytes(),
            }
            .decision()
        };
        assert_eq!(
            decision(200, r#"{"allowed":true,"source":"lease","x":1}"#),
            (true, DecisionSource::Lease)
        );
        assert_eq!(
            decision(429, r#"{"source":"deny_cache"}"#),
            (false, DecisionSource::DenyCache)
        );
        assert_eq!(
            decision(503, r#"{"source":"fallback"}"#),
            (false, DecisionSource::Fallback)
        );
        assert_eq!(
            decision(422, r#"{"source":"store"}"#),
            (false, DecisionSource::Missing)
        );
        assert_eq!(decision(200, "{}"), (false, DecisionSource::Missing));
    }

    #[test]
    fn a_request_has_the_length_of_its_body() {
        let mut request = "left over".to_owned();
        CheckRequest {
            limit: "a",
            cell: "c7".to_owned(),
        }
        .write(&mut request, 3, 2);
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert_eq!(
            body,
            r#"{"attributes":{"user":"c7-3"},"limits":["a"],"cost":2}"#
        );
        assert!(head.starts_with("POST /v1/check HTTP/1.1\r\n"));
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())));
    }
}
