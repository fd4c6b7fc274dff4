//! One kept-open connection of HTTP/1.1 to a replica, and its questions.
//!
//! Made by hand because it has to cost little beside what it measures, and needs one method, one
//! path and bodies of a known length.

use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::record::Told;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// More than any answer of the service has.
const ANSWER_MAX: usize = 16 * 1_024;

/// What is asked: always the same limit, about keys of this cell alone.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) limit: &'static str,
    /// What the keys begin with.
    pub(super) cell: String,
}

impl Question {
    /// The whole request.
    pub(super) fn write(&self, request: &mut String, key: u32, cost: u32) {
        let Self { limit, cell } = self;
        request.clear();
        let body = format!(
            r#"{{"attributes":{{"user":"{cell}-{key}"}},"limits":["{limit}"],"cost":{cost}}}"#
        );
        let length = body.len();
        write!(
            request,
            "POST /v1/check HTTP/1.1\r\nHost: replica\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .expect("a string takes everything");
    }
}

/// A status and a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer<'a> {
    status: u16,
    pub(super) body: &'a [u8],
}

impl Answer<'_> {
    /// Whether it lets the request through, and who says so.
    pub(super) fn decision(&self) -> (bool, Told) {
        let told = word_after(self.body, br#""source":""#).map_or(Told::Nothing, Told::from_word);
        match self.status {
            200 if told != Told::Nothing => (true, told),
            429 | 503 => (false, told),
            _ => (false, Told::Nothing),
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
            bytes: Vec::with_capacity(ANSWER_MAX),
        })
    }

    /// Sends a request and waits for the whole answer. After an error nothing more can be asked
    /// here.
    pub(super) async fn ask(&mut self, request: &str) -> io::Result<Answer<'_>> {
        let Self { stream, bytes } = self;
        bytes.clear();
        let asked = async {
            stream.write_all(request.as_bytes()).await?;
            loop {
                if let Some(answer) = parse(bytes)? {
                    return Ok::<_, io::Error>(answer);
                }
                if bytes.len() >= ANSWER_MAX || stream.read_buf(bytes).await? == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
            }
        };
        let Found { status, start, end } = timeout(PATIENCE, asked).await??;
        Ok(Answer {
            status,
            body: &bytes[start..end],
        })
    }
}

/// Where a whole answer has its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    status: u16,
    start: usize,
    end: usize,
}

/// Nothing as long as the answer is not whole.
fn parse(bytes: &[u8]) -> io::Result<Option<Found>> {
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
            "an answer without status or length: {head}"
        )));
    };
    let start = head_len + 4;
    let end = start.saturating_add(length);
    Ok((end <= bytes.len()).then_some(Found { status, start, end }))
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

/// What stands behind these bytes, up to the next quotation mark.
fn word_after<'a>(bytes: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    let rest = &bytes[position(bytes, wanted)? + wanted.len()..];
    rest.split(|byte| *byte == b'"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_when_its_body_is() {
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
            Answer {
                status,
                body: body.as_bytes(),
            }
            .decision()
        };
        assert_eq!(
            decision(200, r#"{"allowed":true,"source":"lease","x":1}"#),
            (true, Told::Lease)
        );
        assert_eq!(
            decision(429, r#"{"source":"deny_cache"}"#),
            (false, Told::DenyCache)
        );
        assert_eq!(
            decision(503, r#"{"source":"fallback"}"#),
            (false, Told::Fallback)
        );
        assert_eq!(
            decision(422, r#"{"source":"store"}"#),
            (false, Told::Nothing)
        );
        assert_eq!(decision(200, "{}"), (false, Told::Nothing));
    }

    #[test]
    fn a_question_says_how_long_it_is() {
        let mut request = "left over".to_owned();
        Question {
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
