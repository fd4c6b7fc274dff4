//! One HTTP/1.1 connection: one request at a time, and bounded responses.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::plan::Replica;

/// The maximum size of a response body.
const BODY_MAX: usize = 1 << 20;

pub(crate) type HttpRequest = Request<Full<Bytes>>;
pub(crate) type HttpResponse = Response<Bytes>;

/// A connection to a replica.
#[derive(Debug)]
pub(crate) struct HttpConnection(SendRequest<Full<Bytes>>);

impl HttpConnection {
    pub(crate) async fn open(replica: &Replica, to: &[SocketAddr]) -> io::Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        match &replica.tls {
            None => Self::over(stream).await,
            Some(tls) => Self::over(tls.connect(&replica.host, stream).await?).await,
        }
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + 'static) -> io::Result<Self> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(http_error)?;

        // Its errors are also those of the request in flight.
        tokio::task::spawn_local(async { drop(connection.await) });
        Ok(Self(sender))
    }

    /// Waits until the connection can take a request. False if the peer has closed it.
    pub(crate) async fn is_usable(&mut self) -> bool {
        self.0.ready().await.is_ok()
    }

    /// Sends a request and waits for the complete response.
    pub(crate) async fn send(&mut self, request: HttpRequest) -> io::Result<HttpResponse> {
        let response = self.0.send_request(request).await.map_err(http_error)?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, BODY_MAX)
            .collect()
            .await
            .map_err(|error| {
                if error.is::<LengthLimitError>() {
                    io::Error::new(ErrorKind::InvalidData, "the response is larger than 1 MiB")
                } else {
                    error
                        .downcast()
                        .map_or_else(io::Error::other, |error| http_error(*error))
                }
            })?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

fn http_error(error: hyper::Error) -> io::Error {
    if error.is_parse() {
        let reason = "invalid HTTP response; is this the right port?";
        io::Error::new(ErrorKind::InvalidData, reason)
    } else if error.is_incomplete_message() {
        io::Error::new(ErrorKind::UnexpectedEof, error)
    } else {
        io::Error::other(error)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::task::LocalSet;

    use super::*;

    /// The responses that a client receives from a server that sends these pieces for each request,
    /// and whether the connection can be used afterwards.
    async fn responses_of(
        pieces: &'static [&'static [u8]],
        requests: usize,
    ) -> Vec<Result<(HttpResponse, bool), ErrorKind>> {
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
            // Stays open until the client closes it, unless a response was cut off.
            if pieces.last().is_some_and(|piece| piece.ends_with(b"\n")) {
                let _end = stream.read(&mut buffer).await;
            }
        });

        let client = async {
            let mut connection = HttpConnection::open(&address.into(), &[address])
                .await
                .unwrap();
            let mut results = Vec::new();
            for _ in 0..requests {
                let request = Request::get("/").body(Full::default()).unwrap();
                match connection.send(request).await {
                    Ok(response) => results.push(Ok((response, connection.is_usable().await))),
                    Err(error) => results.push(Err(error.kind())),
                }
            }
            results
        };
        LocalSet::new().run_until(client).await
    }

    #[tokio::test]
    async fn responses_are_read_completely_one_after_another() {
        let pieces: &[&[u8]] = &[
            b"HTTP/1.1 429 Too Many\r\nContent-Le",
            b"ngth: 4\r\nretry-after: 7\r\nRateLimit-Policy: \"a\";q=1\r\n\r\nbo",
            b"d\n",
        ];
        for response in responses_of(pieces, 3).await {
            let (response, is_usable) = response.unwrap();
            assert_eq!((response.status().as_u16(), is_usable), (429, true));
            assert_eq!(&response.body()[..], b"bod\n");
            assert_eq!(response.headers()["retry-after"], "7");
            assert_eq!(response.headers()["ratelimit-policy"], "\"a\";q=1");
        }
    }

    #[tokio::test]
    async fn chunked_bodies_are_read() {
        let pieces: &[&[u8]] = &[
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r",
            b"\nhello\r\n0\r\n",
            b"\r\n",
        ];
        for response in responses_of(pieces, 2).await {
            let (response, is_usable) = response.unwrap();
            assert_eq!((&response.body()[..], is_usable), (&b"hello"[..], true));
        }
    }

    #[tokio::test]
    async fn a_response_without_a_length_ends_the_connection() {
        let whole = responses_of(&[b"HTTP/1.0 200 OK\r\n\r\nhello"], 1).await;
        let (response, is_usable) = whole[0].as_ref().unwrap();
        assert_eq!((&response.body()[..], *is_usable), (&b"hello"[..], false));
        let closing: &[&[u8]] =
            &[b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"];
        assert!(!responses_of(closing, 1).await[0].as_ref().unwrap().1);
    }

    #[tokio::test]
    async fn invalid_responses_are_errors() {
        let long = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{}",
            BODY_MAX + 1,
            "x".repeat(BODY_MAX + 1)
        );
        for (piece, kind) in [
            (&b"+PONG\r\n"[..], ErrorKind::InvalidData),
            (
                b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{",
                ErrorKind::Other,
            ),
            (long.leak().as_bytes(), ErrorKind::InvalidData),
            (
                b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
                ErrorKind::InvalidData,
            ),
            (
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
                ErrorKind::Other,
            ),
            (b"", ErrorKind::UnexpectedEof),
        ] {
            let pieces: &'static [&'static [u8]] = Box::leak(Box::new([piece]));
            assert_eq!(
                responses_of(pieces, 1).await.remove(0).unwrap_err(),
                kind,
                "{:?}",
                String::from_utf8_lossy(&piece[..piece.len().min(80)])
            );
        }
    }
}
