//! Adds a problem body to the error responses of hyper.
//!
//! When a client sends something that is not HTTP, hyper itself answers with a status and no body.
//! This stream rewrites that response, so that it has a problem body like every other error.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::{HEAD_MAX, HEADERS_MAX};

/// The start of an error response of hyper.
const STATUS_LINE_START: &[u8] = b"HTTP/1.1 4";
/// Marks a response without a body. Error responses of a front always have one.
const NO_BODY: &[u8] = b"\r\ncontent-length: 0\r\n";
/// The most bytes of an error response of hyper.
const RESPONSE_MAX: usize = 256;

/// A stream that adds problem bodies to error responses without a body.
#[derive(Debug)]
pub(super) struct ProblemBodyStream<S> {
    stream: S,
    /// The rest of a rewritten response, and the length of the original.
    pending: Option<(Vec<u8>, usize)>,
}

impl<S> ProblemBodyStream<S> {
    pub(super) const fn new(stream: S) -> Self {
        Self {
            stream,
            pending: None,
        }
    }
}

/// The response with a problem body; none if it is not an error response of hyper.
fn with_problem_body(response: &[u8]) -> Option<Vec<u8>> {
    if !response.starts_with(STATUS_LINE_START) || response.len() > RESPONSE_MAX {
        return None;
    }
    let at = response
        .windows(NO_BODY.len())
        .position(|part| part == NO_BODY)?;
    let body = problem_body(response.get(9..12)?)?;

    let mut rewritten = response[..at].to_vec();
    let headers =
        "\r\ncontent-type: application/problem+json\r\ncache-control: no-store\r\ncontent-length: ";
    rewritten.extend_from_slice(format!("{headers}{}\r\n", body.len()).as_bytes());
    rewritten.extend_from_slice(&response[at + NO_BODY.len()..]);
    rewritten.extend_from_slice(body.as_bytes());
    Some(rewritten)
}

fn problem_body(status: &[u8]) -> Option<String> {
    let (status, title, code, detail) = match status {
        b"400" => (
            400,
            "Bad Request",
            r#""code":"unreadable-head""#,
            "invalid HTTP/1.1 request: check its first line, its header lines and its lengths"
                .to_owned(),
        ),
        b"414" => (
            414,
            "URI Too Long",
            r#""code":"target-too-long""#,
            format!("request target too long: the whole head may have {HEAD_MAX} bytes"),
        ),
        b"431" => (
            431,
            "Request Header Fields Too Large",
            r#""code":"head-too-large""#,
            format!(
                "request head too large: at most {HEADERS_MAX} header lines and {HEAD_MAX} bytes"
            ),
        ),
        _ => return None,
    };

    let kind = r#"{"type":"about:blank""#;
    Some(format!(
        r#"{kind},"title":"{title}","status":{status},"detail":"{detail}",{code}}}"#
    ))
}

impl<S: AsyncRead + Unpin> AsyncRead for ProblemBodyStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> ProblemBodyStream<S> {
    /// Writes the rewritten response; then reports the original as written.
    fn poll_pending(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        while let Some((rest, length)) = &mut self.pending {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }

            rest.drain(..written.min(rest.len()));
            if rest.is_empty() {
                let length = *length;
                self.pending = None;
                return Poll::Ready(Ok(length));
            }
        }
        Poll::Ready(Ok(0))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ProblemBodyStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.pending.is_none() {
            match with_problem_body(buffer) {
                Some(response) => self.pending = Some((response, buffer.len())),
                None => return Pin::new(&mut self.stream).poll_write(context, buffer),
            }
        }

        self.poll_pending(context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
