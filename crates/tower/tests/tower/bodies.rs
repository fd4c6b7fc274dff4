//! Request and response bodies are streamed, and read only by a `ReadBodyLayer`.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full};
use tollgate_tower::{RateLimitLayer, ReadBodyLayer, by, response};
use tower::{Layer, ServiceExt as _, service_fn};

use crate::support::{limiter, per_minute, send, status};

/// An endless body that counts how often it is polled.
#[derive(Clone, Default)]
struct Endless {
    polled: Arc<AtomicUsize>,
}

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.polled.fetch_add(1, Relaxed);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0; 1_024])))))
    }
}

#[test]
fn no_body_is_read_by_default() {
    let limits = limiter([per_minute("api", 2)]);
    let (incoming, outgoing) = (Endless::default(), Endless::default());
    let answer = outgoing.clone();
    let service = service_fn(move |_: Request<Endless>| {
        let answer = answer.clone();
        async move { Ok::<_, Infallible>(Response::new(answer)) }
    });
    // None of these reads the body. One layer decides synchronously, the other one waits.
    let layer = RateLimitLayer::new(&limits, "api", by::everyone())
        .cost(|_| 1)
        .refund_when(response::failed)
        .settle_by_actual_cost();
    let waiting = layer.clone().wait_up_to(std::time::Duration::ZERO);

    for layer in [layer, waiting] {
        let request = Request::new(incoming.clone());
        let response =
            pollster::block_on(layer.layer(service.clone()).oneshot(request)).expect("a response");
        assert_eq!(response.status(), 200);
    }
    assert_eq!(
        (incoming.polled.load(Relaxed), outgoing.polled.load(Relaxed)),
        (0, 0)
    );
}

#[test]
fn reading_a_body_is_bounded() {
    let limits = limiter([per_minute("api", 2)]);
    let endless = Endless::default();
    let layer = (
        ReadBodyLayer::up_to(10 * 1_024),
        RateLimitLayer::new(&limits, "api", by::everyone()),
    );
    let service = layer.layer(service_fn(crate::support::hello::<Full<Bytes>>));
    let rejected = send(&service, Request::new(endless.clone()));

    assert_eq!(rejected.status(), 413);

    let body = std::str::from_utf8(rejected.body()).unwrap();
    assert!(body.contains("longer than 10240 bytes"), "{body}");
    assert_eq!(
        endless.polled.load(Relaxed),
        11,
        "reading stops after the first chunk beyond the maximum"
    );
    assert_eq!(crate::support::left(&limits, "api", ()), 2);
}

#[test]
fn an_unreadable_body_is_rejected_with_400() {
    let limits = limiter([per_minute("api", 2)]);
    let layer = (
        ReadBodyLayer::up_to(1_024),
        RateLimitLayer::new(&limits, "api", by::everyone()),
    );
    let service = layer.layer(service_fn(crate::support::hello::<Full<Bytes>>));
    let broken = http_body_util::StreamBody::new(Broken);
    assert_eq!(status(&service, Request::new(broken)), 400);
}

struct Broken;

impl futures_core::Stream for Broken {
    type Item = Result<Frame<Bytes>, std::io::Error>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(Some(Err(std::io::ErrorKind::ConnectionReset.into())))
    }
}

#[test]
fn size_hint_and_end_of_stream_are_those_of_the_body() {
    let limits = limiter([per_minute("api", 1)]);
    let service = RateLimitLayer::new(&limits, "api", by::everyone()).layer(service_fn(
        |_: Request<()>| async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("hello"))) },
    ));
    let passed = pollster::block_on(service.clone().oneshot(Request::new(())))
        .expect("a response")
        .into_body();

    assert_eq!(
        (passed.size_hint().exact(), passed.is_end_stream()),
        (Some(5), false)
    );

    let mut rejected = pollster::block_on(service.oneshot(Request::new(())))
        .expect("a response")
        .into_body();
    let length = rejected.size_hint().exact().expect("a known length");
    let frame = pollster::block_on(rejected.frame())
        .expect("a frame")
        .expect("no error");
    assert_eq!(
        frame.data_ref().map(Bytes::len),
        usize::try_from(length).ok()
    );
    assert!(rejected.is_end_stream());
    assert_eq!(rejected.size_hint().exact(), Some(0));
}
