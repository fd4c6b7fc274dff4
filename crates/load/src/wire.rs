//! A client's half of HTTP/1.1: one connection, one request at a time, answers within bounds.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The longest head and the longest body that are read.
const HEAD_MAX: usize = 64 << 10;
const BODY_MAX: usize = 1 << 20;
const FIELDS_MAX: usize = 100;

/// A connection to a replica.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    bytes: Vec<u8>,
    /// The other side closes it after the last answer.
    is_over: bool,
}

/// What an answer's head says, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) retry_after_s: Option<u64>,
    pub(crate) policy: Option<Vec<u8>>,
    pub(crate) is_fallback: bool,
    length: Length,
    closes: bool,
    /// Where the body begins.
    len: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Length {
    Known(usize),
    Chunked,
    /// Until the connection ends.
    #[default]
    Open,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer<'c> {
    pub(crate) head: Head,
    /// Empty when it came in chunks, which only applications other than the service send.
    pub(crate) body: &'c [u8],
}

impl Connection {
    pub(crate) async fn open(to: &[SocketAddr]) -> io::Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            bytes: Vec::with_capacity(4 << 10),
            is_over: false,
        })
    }

    /// Whether the other side has closed it, or is about to.
    pub(crate) fn has_ended(&self) -> bool {
        // Nothing is under way, so whatever can be read is the end of it, or is nothing that was
        // asked for.
        self.is_over
            || !matches!(self.stream.try_read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Sends a request and waits for the whole answer. After an error nothing more can be asked
    /// here.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> io::Result<Answer<'_>> {
        self.bytes.clear();
        self.is_over = true;
        self.stream.write_all(request).await?;
        let head = loop {
            self.read().await?;
            if let Some(head) = Head::parse(&self.bytes)? {
                break head;
            }
        };
        let body_len = match head.length {
            Length::Known(length) => {
                while self.bytes.len() < head.len + length {
                    self.read().await?;
                }
                length
            }
            Length::Chunked => self.skip_chunks(head.len).await?,
            Length::Open => self.skip_to_end().await?,
        };
        self.is_over = head.closes || head.length == Length::Open;
        Ok(Answer {
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

    /// Reads chunks until the last, keeping none.
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

impl Head {
    /// Nothing as long as it is not whole.
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
            return Err(io::Error::other(format!(
                "status {status}, which was not asked for"
            )));
        }
        if matches!(status, 204 | 304) {
            head.length = Length::Known(0);
        }
        for field in response.headers.iter() {
            head.take(field.name, field.value)?;
        }
        Ok(Some(head))
    }

    fn take(&mut self, name: &str, value: &[u8]) -> io::Result<()> {
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted);
        if is("content-length") {
            let length: usize = number(value).ok_or_else(not_http)?;
            if length > BODY_MAX {
                return Err(too_long());
            }
            self.length = Length::Known(length);
        } else if is("transfer-encoding") {
            self.length = Length::Chunked;
        } else if is("connection") {
            self.closes |= value.eq_ignore_ascii_case(b"close");
        } else if is("retry-after") {
            self.retry_after_s = number(value);
        } else if is("ratelimit-policy") {
            self.policy = Some(value.to_vec());
        } else if is("x-ratelimit-fallback") {
            self.is_fallback = value.eq_ignore_ascii_case(b"true");
        }
        Ok(())
    }
}

fn number<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

fn not_http() -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        "what came is no HTTP; is this the right port?",
    )
}

fn too_long() -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        "the answer is longer than a megabyte",
    )
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// What a client sees of a server that answers every request with these bytes, piece by piece.
    async fn seen(
        pieces: &'static [&'static [u8]],
        asked: usize,
    ) -> Vec<Result<(Head, Vec<u8>, bool), ErrorKind>> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 512];
            for _ in 0..asked {
                let _request = stream.read(&mut buffer).await;
                for piece in pieces {
                    let _sent = stream.write_all(piece).await;
                    tokio::task::yield_now().await;
                }
            }
        });
        let mut connection = Connection::open(&[address]).await.unwrap();
        let mut seen = Vec::new();
        for _ in 0..asked {
            let answer = connection.ask(b"GET / HTTP/1.1\r\n\r\n").await;
            let answer = answer
                .map(|answer| (answer.head, answer.body.to_vec()))
                .map_err(|error| error.kind());
            seen.push(answer.map(|(head, body)| (head, body, connection.is_over)));
        }
        seen
    }

    #[tokio::test]
    async fn answers_are_read_whole_one_after_another() {
        let pieces: &[&[u8]] = &[
            b"HTTP/1.1 429 Too Many\r\nContent-Le",
            b"ngth: 4\r\nretry-after: 7\r\nRateLimit-Policy: \"a\";q=1\r\n\r\nbo",
            b"dy",
        ];
        for answer in seen(pieces, 3).await {
            let (head, body, is_over) = answer.unwrap();
            assert_eq!(
                (head.status, head.retry_after_s, body.as_slice(), is_over),
                (429, Some(7), &b"body"[..], false)
            );
            assert_eq!(head.policy.as_deref(), Some(&b"\"a\";q=1"[..]));
        }
    }

    #[tokio::test]
    async fn chunks_are_passed_over() {
        let pieces: &[&[u8]] = &[
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r",
            b"\nhello\r\n0\r\n",
            b"\r\n",
        ];
        for answer in seen(pieces, 2).await {
            let (head, body, is_over) = answer.unwrap();
            assert_eq!((head.status, body.len(), is_over), (200, 0, false));
        }
    }

    #[tokio::test]
    async fn an_answer_without_a_length_ends_the_connection() {
        let (head, _, is_over) = seen(&[b"HTTP/1.0 200 OK\r\n\r\nhello"], 1)
            .await
            .remove(0)
            .unwrap();
        assert_eq!((head.status, is_over), (200, true));
        let closing = seen(
            &[b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"],
            1,
        )
        .await;
        assert!(closing[0].as_ref().unwrap().2);
    }

    #[tokio::test]
    async fn whatever_is_no_answer_is_an_error() {
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
                seen(pieces, 1).await.remove(0).unwrap_err(),
                kind,
                "{:?}",
                String::from_utf8_lossy(piece)
            );
        }
    }
}
