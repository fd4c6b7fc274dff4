//! A minimal HTTP/1.1 client: one request at a time per connection, and bounded responses.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The maximum size of a response head.
const HEAD_MAX: usize = 64 << 10;
/// The maximum size of a response body.
const BODY_MAX: usize = 1 << 20;
const FIELDS_MAX: usize = 100;

/// A connection to a replica.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    stream: TcpStream,
    /// The bytes of the current response.
    bytes: Vec<u8>,
    /// The peer closes the connection after the last response, or the last exchange failed.
    is_finished: bool,
}

/// The head of a response, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HttpResponseHead {
    pub(crate) status: u16,
    pub(crate) retry_after_s: Option<u64>,
    pub(crate) policy: Option<Vec<u8>>,
    pub(crate) is_fallback: bool,
    length: BodyLength,
    closes: bool,
    /// Size of the head, which is where the body starts.
    len: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BodyLength {
    Known(usize),
    Chunked,
    /// The body ends when the connection is closed.
    #[default]
    UntilClose,
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct HttpResponse<'c> {
    pub(crate) head: HttpResponseHead,
    /// Empty unless the length was known. The service always sends a `Content-Length`.
    pub(crate) body: &'c [u8],
}

impl HttpConnection {
    pub(crate) async fn open(to: &[SocketAddr]) -> io::Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            bytes: Vec::with_capacity(4 << 10),
            is_finished: false,
        })
    }

    /// Whether the peer has closed the connection or is about to.
    pub(crate) fn is_closed(&self) -> bool {
        // No request is in flight, so anything readable is either the end of the stream or
        // unexpected data. Both make the connection unusable.
        let is_idle = || {
            let result = self.stream.try_read(&mut [0]);
            matches!(result, Err(error) if error.kind() == ErrorKind::WouldBlock)
        };
        self.is_finished || !is_idle()
    }

    /// Sends a request and waits for the complete response. The connection is unusable after an
    /// error.
    pub(crate) async fn send(&mut self, request: &[u8]) -> io::Result<HttpResponse<'_>> {
        self.bytes.clear();
        self.is_finished = true;
        self.stream.write_all(request).await?;

        let head = loop {
            self.read().await?;
            if let Some(head) = HttpResponseHead::parse(&self.bytes)? {
                break head;
            }
        };
        let body_len = match head.length {
            BodyLength::Known(length) => {
                while self.bytes.len() < head.len + length {
                    self.read().await?;
                }
                length
            }
            BodyLength::Chunked => self.skip_chunks(head.len).await?,
            BodyLength::UntilClose => self.skip_to_end().await?,
        };

        self.is_finished = head.closes || head.length == BodyLength::UntilClose;
        Ok(HttpResponse {
            body: &self.bytes[head.len..head.len + body_len],
            head,
        })
    }

    async fn read(&mut self) -> io::Result<()> {
        if self.stream.read_buf(&mut self.bytes).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Reads and discards the chunks of a body. Returns the length of the body that is kept, 0.
    async fn skip_chunks(&mut self, head_len: usize) -> io::Result<usize> {
        let mut at = head_len;
        loop {
            let size = httparse::parse_chunk_size(self.bytes.get(at..).unwrap_or_default());
            match size.map_err(|_| not_http())? {
                httparse::Status::Complete((line, size)) => {
                    let size = usize::try_from(size).map_err(|_| too_long())?;
                    at = at
                        .saturating_add(line)
                        .saturating_add(size)
                        .saturating_add(2);
                    if at > BODY_MAX {
                        return Err(too_long());
                    }

                    while self.bytes.len() < at {
                        self.read().await?;
                    }
                    if size == 0 {
                        return Ok(0);
                    }
                }
                httparse::Status::Partial => self.read().await?,
            }
        }
    }

    async fn skip_to_end(&mut self) -> io::Result<usize> {
        while self.stream.read_buf(&mut self.bytes).await? > 0 {
            if self.bytes.len() > BODY_MAX {
                return Err(too_long());
            }
        }
        Ok(0)
    }
}

impl HttpResponseHead {
    /// `None` while the head is incomplete.
    fn parse(bytes: &[u8]) -> io::Result<Option<Self>> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        let len = match response.parse(bytes).map_err(|_| not_http())? {
            httparse::Status::Complete(len) => len,
            httparse::Status::Partial if bytes.len() < HEAD_MAX => return Ok(None),
            httparse::Status::Partial => return Err(too_long()),
        };

        let status = response.code.ok_or_else(not_http)?;
        let mut head = Self {
            status,
            len,
            closes: response.version == Some(0),
            ..Self::default()
        };
        if matches!(status, 100..=199) {
            return Err(io::Error::other(format!("unexpected status {status}")));
        }
        if matches!(status, 204 | 304) {
            head.length = BodyLength::Known(0);
        }

        for field in response.headers.iter() {
            head.apply_field(field.name, field.value)?;
        }
        Ok(Some(head))
    }

    fn apply_field(&mut self, name: &str, value: &[u8]) -> io::Result<()> {
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted);

        if is("content-length") {
            let length: usize = parse_number(value).ok_or_else(not_http)?;
            if length > BODY_MAX {
                return Err(too_long());
            }
            self.length = BodyLength::Known(length);
        } else if is("transfer-encoding") {
            self.length = BodyLength::Chunked;
        } else if is("connection") {
            self.closes |= value.eq_ignore_ascii_case(b"close");
        } else if is("retry-after") {
            self.retry_after_s = parse_number(value);
        } else if is("ratelimit-policy") {
            self.policy = Some(value.to_vec());
        } else if is("x-ratelimit-fallback") {
            self.is_fallback = value.eq_ignore_ascii_case(b"true");
        }
        Ok(())
    }
}

fn parse_number<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

fn not_http() -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        "invalid HTTP response; is this the right port?",
    )
}

fn too_long() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the response is larger than 1 MiB")
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// The responses a client receives from a server that sends these pieces for each request.
    async fn responses_of(
        pieces: &'static [&'static [u8]],
        requests: usize,
    ) -> Vec<Result<(HttpResponseHead, Vec<u8>, bool), ErrorKind>> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 512];
            for _ in 0..requests {
                let _request = stream.read(&mut buffer).await;
                for piece in pieces {
                    let _sent = stream.write_all(piece).await;
                    tokio::task::yield_now().await;
                }
            }
        });
        let mut connection = HttpConnection::open(&[address]).await.unwrap();
        let mut results = Vec::new();
        for _ in 0..requests {
            let response = connection.send(b"GET / HTTP/1.1\r\n\r\n").await;
            let response = response
                .map(|response| (response.head, response.body.to_vec()))
                .map_err(|error| error.kind());
            results.push(response.map(|(head, body)| (head, body, connection.is_finished)));
        }
        results
    }

    #[tokio::test]
    async fn responses_are_read_completely_one_after_another() {
        let pieces: &[&[u8]] = &[
            b"HTTP/1.1 429 Too Many\r\nContent-Le",
            b"ngth: 4\r\nretry-after: 7\r\nRateLimit-Policy: \"a\";q=1\r\n\r\nbo",
            b"dy",
        ];
        for response in responses_of(pieces, 3).await {
            let (head, body, is_finished) = response.unwrap();
            assert_eq!(
                (
                    head.status,
                    head.retry_after_s,
                    body.as_slice(),
                    is_finished
                ),
                (429, Some(7), &b"body"[..], false)
            );
            assert_eq!(head.policy.as_deref(), Some(&b"\"a\";q=1"[..]));
        }
    }

    #[tokio::test]
    async fn chunked_bodies_are_skipped() {
        let pieces: &[&[u8]] = &[
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r",
            b"\nhello\r\n0\r\n",
            b"\r\n",
        ];
        for response in responses_of(pieces, 2).await {
            let (head, body, is_finished) = response.unwrap();
            assert_eq!((head.status, body.len(), is_finished), (200, 0, false));
        }
    }

    #[tokio::test]
    async fn a_response_without_a_length_ends_the_connection() {
        let (head, _, is_finished) = responses_of(&[b"HTTP/1.0 200 OK\r\n\r\nhello"], 1)
            .await
            .remove(0)
            .unwrap();
        assert_eq!((head.status, is_finished), (200, true));
        let closing = responses_of(
            &[b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-BodyLength: 0\r\n\r\n"],
            1,
        )
        .await;
        assert!(closing[0].as_ref().unwrap().2);
    }

    #[tokio::test]
    async fn invalid_responses_are_errors() {
        for (piece, kind) in [
            (&b"+PONG\r\n"[..], ErrorKind::InvalidData),
            (
                b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{",
                ErrorKind::UnexpectedEof,
            ),
            (
                b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n",
                ErrorKind::InvalidData,
            ),
            (
                b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
                ErrorKind::InvalidData,
            ),
            (
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
                ErrorKind::InvalidData,
            ),
            (b"", ErrorKind::UnexpectedEof),
        ] {
            let pieces: &'static [&'static [u8]] = Box::leak(Box::new([piece]));
            assert_eq!(
                responses_of(pieces, 1).await.remove(0).unwrap_err(),
                kind,
                "{:?}",
                String::from_utf8_lossy(piece)
            );
        }
    }
}
