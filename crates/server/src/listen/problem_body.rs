//! What a client is told that sends no HTTP.
//!
//! The library below refuses that by itself, with a status and nothing else. Here the same answer
//! gets a body that names the fault, as every other refusal has.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::{HEAD_MAX, HEADERS_MAX};

/// How such an answer begins. An answer to a request that could be read always has a body, so its
/// length is never 0.
const BEGINNING: &[u8] = b"HTTP/1.1 4";
const EMPTY: &[u8] = b"\r\ncontent-length: 0\r\n";
/// The longest such answer.
const ANSWER_MAX: usize = 256;

/// A stream on which refusals have bodies.
#[derive(Debug)]
pub(super) struct Explained<S> {
    stream: S,
    /// What is still to be written instead of an answer that was empty, and the length of that.
    pending: Option<(Vec<u8>, usize)>,
}

impl<S> Explained<S> {
    pub(super) const fn new(stream: S) -> Self {
        Self {
            stream,
            pending: None,
        }
    }
}

/// The answer to write instead of this one, if this one says nothing.
fn explained(answer: &[u8]) -> Option<Vec<u8>> {
    if !answer.starts_with(BEGINNING) || answer.len() > ANSWER_MAX {
        return None;
    }
    let at = answer.windows(EMPTY.len()).position(|part| part == EMPTY)?;
    let body = body(answer.get(9..12)?)?;
    let mut whole = answer[..at].to_vec();
    let head =
        "\r\ncontent-type: application/problem+json\r\ncache-control: no-store\r\ncontent-length: ";
    whole.extend_from_slice(format!("{head}{}\r\n", body.len()).as_bytes());
    whole.extend_from_slice(&answer[at + EMPTY.len()..]);
    whole.extend_from_slice(body.as_bytes());
    Some(whole)
}

fn body(status: &[u8]) -> Option<String> {
    let (status, title, code, detail) = match status {
        b"400" => (
            400,
            "Bad Request",
            r#""code":"unreadable-head""#,
            "the head of the request is no HTTP/1.1; look at its first line, its header lines and its lengths".to_owned(),
        ),
        b"414" => (
            414,
            "URI Too Long",
            r#""code":"target-too-long""#,
            format!("what is asked for is too long; the whole head has {HEAD_MAX} bytes at most"),
        ),
        b"431" => (
            431,
            "Request Header Fields Too Large",
            r#""code":"head-too-large""#,
            format!("the head is too large; it has {HEADERS_MAX} header lines and {HEAD_MAX} bytes at most"),
        ),
        _ => return None,
    };
    let kind = r#"{"type":"about:blank""#;
    Some(format!(
        r#"{kind},"title":"{title}","status":{status},"detail":"{detail}",{code}}}"#
    ))
}

impl<S: AsyncRead + Unpin> AsyncRead for Explained<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> Explained<S> {
    /// Writes what is pending; then the answer it stands for counts as written.
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Explained<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.pending.is_none() {
            match explained(buffer) {
                Some(answer) => self.pending = Some((answer, buffer.len())),
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
