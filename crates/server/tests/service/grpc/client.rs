//! A minimal gRPC client that sends what a proxy sends and shares no code with the server.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use testkit::wait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tollgate_envoy::{RateLimitRequest, RateLimitResponse};

use crate::harness::PATIENCE;

pub(crate) const SHOULD_RATE_LIMIT: &str =
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// The length of a message's prefix: a compression flag and the message's length.
const PREFIX_BYTES: usize = 5;

/// A connection that makes one call after the other.
pub(crate) struct Client {
    runtime: Runtime,
    requests: SendRequest<CallBody>,
    metadata: Vec<(&'static str, String)>,
}

/// The result of a call.
#[derive(Debug)]
pub(crate) struct Reply {
    messages: Vec<Bytes>,
    pub(crate) status: String,
    pub(crate) text: String,
}

/// A response whose head has arrived.
pub(crate) struct PendingReply(Response<Incoming>);

/// The body of a call: a message, or one that is never sent.
pub(crate) enum CallBody {
    Message(Option<Bytes>),
    Never,
}

impl Body for CallBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Message(message) => {
                Poll::Ready(message.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            Self::Never => Poll::Pending,
        }
    }
}

impl Client {
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        Self::over(async move { TcpStream::connect(addr).await })
    }

    /// Connects with TLS.
    pub(crate) fn connect_tls(addr: SocketAddr, connector: TlsConnector) -> Self {
        Self::over(async move {
            let name = ServerName::from(addr.ip());
            connector
                .connect(name, TcpStream::connect(addr).await?)
                .await
        })
    }

    fn over<S>(connected: impl Future<Output = io::Result<S>>) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let requests = runtime.block_on(async {
            let stream = TokioIo::new(connected.await.expect("the server listens"));
            let (requests, connection) = handshake(TokioExecutor::new(), stream)
                .await
                .expect("the server speaks HTTP/2");
            tokio::spawn(connection);
            requests
        });
        Self {
            runtime,
            requests,
            metadata: Vec::new(),
        }
    }

    /// Sends this metadata with every call.
    pub(crate) fn with_metadata(mut self, name: &'static str, value: &str) -> Self {
        self.metadata.push((name, value.to_owned()));
        self
    }

    /// Calls the rate limit service, which must succeed.
    pub(crate) fn ask(&mut self, request: &RateLimitRequest) -> RateLimitResponse {
        self.call(SHOULD_RATE_LIMIT, request).only()
    }

    /// Calls the rate limit service, which must fail. Returns the status code and message.
    pub(crate) fn fault(&mut self, request: &RateLimitRequest) -> (String, String) {
        let Reply {
            messages,
            status,
            text,
        } = self.call(SHOULD_RATE_LIMIT, request);
        assert!(messages.is_empty() && status != "0", "{messages:?}");
        (status, text)
    }

    /// Starts a call to the rate limit service without sending its message.
    pub(crate) fn ask_nothing(&mut self) -> Reply {
        let begun = self.send(SHOULD_RATE_LIMIT, CallBody::Never);
        self.finish(begun)
    }

    /// The same without waiting for the result.
    pub(crate) fn hold(&mut self) {
        let request = self.post(SHOULD_RATE_LIMIT, CallBody::Never);
        drop(self.runtime.spawn(self.requests.send_request(request)));
    }

    /// Waits until the server has closed the connection.
    pub(crate) fn wait_until_closed(&self) {
        wait::until_true(PATIENCE, "the connection to be closed", || {
            self.requests.is_closed()
        });
    }

    pub(crate) fn call(&mut self, path: &str, message: &impl Message) -> Reply {
        let begun = self.begin(path, message);
        self.finish(begun)
    }

    /// Starts a call and waits for the head of its response.
    pub(crate) fn begin(&mut self, path: &str, message: &impl Message) -> PendingReply {
        self.send(path, CallBody::Message(Some(framed(message))))
    }

    /// Calls the rate limit service. None if the server is draining and the request was not sent.
    pub(crate) fn ask_unless_draining(&mut self, request: &RateLimitRequest) -> Option<Reply> {
        let request = self.post(SHOULD_RATE_LIMIT, CallBody::Message(Some(framed(request))));
        let sent = self
            .runtime
            .block_on(in_time(self.requests.send_request(request)));
        if let Err(error) = &sent
            && error.is_canceled()
        {
            return None;
        }
        Some(self.finish(PendingReply(
            sent.expect("a request that was sent is answered"),
        )))
    }

    fn send(&mut self, path: &str, body: CallBody) -> PendingReply {
        let request = self.post(path, body);
        let response = self
            .runtime
            .block_on(in_time(self.requests.send_request(request)))
            .expect("a response");
        assert_eq!(
            (
                response.status().as_u16(),
                &response.headers()["content-type"]
            ),
            (200, &"application/grpc".parse().expect("a value"))
        );
        PendingReply(response)
    }

    fn post(&self, path: &str, body: CallBody) -> Request<CallBody> {
        let mut request = Request::post(format!("http://tollgate{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in &self.metadata {
            request = request.header(*name, value);
        }
        request.body(body).expect("a request")
    }

    pub(crate) fn finish(&self, PendingReply(response): PendingReply) -> Reply {
        let (head, body) = response.into_parts();
        let body = self
            .runtime
            .block_on(in_time(body.collect()))
            .expect("a whole body");
        let trailers = body.trailers().unwrap_or(&head.headers).clone();
        let field = |headers: &HeaderMap, name: &str| {
            headers
                .get(name)
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        Reply {
            messages: messages(body.to_bytes()),
            status: field(&trailers, "grpc-status").expect("a status"),
            text: field(&trailers, "grpc-message").unwrap_or_default(),
        }
    }
}

impl Reply {
    /// The messages of a successful call.
    pub(crate) fn all<M: Message + Default>(&self) -> Vec<M> {
        assert_eq!(self.status, "0", "{}", self.text);
        self.messages
            .iter()
            .map(|bytes| M::decode(bytes.clone()).expect("the message"))
            .collect()
    }

    /// The text in the messages, without decoding them.
    pub(crate) fn text_of_messages(&self) -> String {
        assert_eq!(self.status, "0", "{}", self.text);
        self.messages
            .iter()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .collect()
    }

    /// The single message of a successful call.
    pub(crate) fn only<M: Message + Default>(&self) -> M {
        let mut all = self.all();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }
}

/// Fails a test that would hang otherwise.
async fn in_time<F: Future>(coming: F) -> F::Output {
    tokio::time::timeout(PATIENCE, coming)
        .await
        .expect("an answer in time")
}

fn framed(message: &impl Message) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.encoded_len()).expect("tests send little"));
    message.encode(&mut frame).expect("the buffer grows");
    frame.freeze()
}

fn messages(mut body: Bytes) -> Vec<Bytes> {
    let mut messages = Vec::new();
    while body.len() >= PREFIX_BYTES {
        assert_eq!(body.get_u8(), 0, "unexpected compressed message");
        let length = usize::try_from(body.get_u32()).expect("it fits");
        messages.push(body.split_to(length));
    }
    assert!(body.is_empty());
    messages
}
