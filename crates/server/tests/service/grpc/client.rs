//! A gRPC client of a few frames: what it sends is what a proxy sends, and it shares no code with
//! the server.

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
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tollgate_envoy::{RateLimitRequest, RateLimitResponse};

use crate::harness::PATIENCE;

pub(crate) const SHOULD_RATE_LIMIT: &str =
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// Whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// A connection that is used by one call after the other.
pub(crate) struct Client {
    runtime: Runtime,
    requests: SendRequest<Sent>,
}

/// What a call came to.
#[derive(Debug)]
pub(crate) struct Reply {
    messages: Vec<Bytes>,
    pub(crate) status: String,
    pub(crate) text: String,
}

/// A response of which only the head has come.
pub(crate) struct Begun(Response<Incoming>);

/// A message, or one that never comes.
pub(crate) enum Sent {
    Message(Option<Bytes>),
    Never,
}

impl Body for Sent {
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
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let requests = runtime.block_on(async {
            let stream = TokioIo::new(TcpStream::connect(addr).await.expect("the server listens"));
            let (requests, connection) = handshake(TokioExecutor::new(), stream)
                .await
                .expect("the server speaks HTTP/2");
            tokio::spawn(connection);
            requests
        });
        Self { runtime, requests }
    }

    /// Asks for a decision, which there must be.
    pub(crate) fn ask(&mut self, request: &RateLimitRequest) -> RateLimitResponse {
        self.call(SHOULD_RATE_LIMIT, request).only()
    }

    /// Asks for a decision, which there must not be, and returns the status' number and text.
    pub(crate) fn fault(&mut self, request: &RateLimitRequest) -> (String, String) {
        let Reply {
            messages,
            status,
            text,
        } = self.call(SHOULD_RATE_LIMIT, request);
        assert!(messages.is_empty() && status != "0", "{messages:?}");
        (status, text)
    }

    /// Begins to ask for a decision and never says about what.
    pub(crate) fn ask_nothing(&mut self) -> Reply {
        let begun = self.send(SHOULD_RATE_LIMIT, Sent::Never);
        self.finish(begun)
    }

    /// The same, without waiting for what becomes of it.
    pub(crate) fn hold(&mut self) {
        let request = post(SHOULD_RATE_LIMIT, Sent::Never);
        drop(self.runtime.spawn(self.requests.send_request(request)));
    }

    pub(crate) fn call(&mut self, path: &str, message: &impl Message) -> Reply {
        let begun = self.begin(path, message);
        self.finish(begun)
    }

    /// A call up to the head of its response.
    pub(crate) fn begin(&mut self, path: &str, message: &impl Message) -> Begun {
        self.send(path, Sent::Message(Some(framed(message))))
    }

    /// Asks for a decision; nothing when the request was not sent, because the server takes no
    /// more.
    pub(crate) fn ask_unless_asked_to_leave(
        &mut self,
        request: &RateLimitRequest,
    ) -> Option<Reply> {
        let request = post(SHOULD_RATE_LIMIT, Sent::Message(Some(framed(request))));
        let sent = self
            .runtime
            .block_on(in_time(self.requests.send_request(request)));
        if let Err(error) = &sent
            && error.is_canceled()
        {
            return None;
        }
        Some(self.finish(Begun(sent.expect("a request that was sent is answered"))))
    }

    fn send(&mut self, path: &str, body: Sent) -> Begun {
        let request = post(path, body);
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
        Begun(response)
    }

    pub(crate) fn finish(&self, Begun(response): Begun) -> Reply {
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
    /// The messages of a call that went well.
    pub(crate) fn all<M: Message + Default>(&self) -> Vec<M> {
        assert_eq!(self.status, "0", "{}", self.text);
        self.messages
            .iter()
            .map(|bytes| M::decode(bytes.clone()).expect("the message"))
            .collect()
    }

    /// What can be read of the messages without knowing what they are.
    pub(crate) fn text_of_messages(&self) -> String {
        assert_eq!(self.status, "0", "{}", self.text);
        self.messages
            .iter()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .collect()
    }

    /// The one message of a call that went well.
    pub(crate) fn only<M: Message + Default>(&self) -> M {
        let mut all = self.all();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }
}

fn post(path: &str, body: Sent) -> Request<Sent> {
    Request::post(format!("http://tollgate{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body)
        .expect("a request")
}

/// A test that hangs says less than one that fails.
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
        assert_eq!(
            body.get_u8(),
            0,
            "a message is compressed that nobody asked to be"
        );
        let length = usize::try_from(body.get_u32()).expect("it fits");
        messages.push(body.split_to(length));
    }
    assert!(body.is_empty());
    messages
}
