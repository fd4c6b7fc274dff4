//! Bodies of requests and responses go through unread.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full};
use tollgate_tower::{RateLimitLayer, ReadBodyLayer, by, reply};
use tower::{Layer, ServiceExt as _, service_fn};

use crate::support::{ask, limiter, per_minute, status};

/// A body without end that counts how often it is asked for more.
#[derive(Clone, Default)]
struct Endless {
    asked: Arc<AtomicUsize>,
}

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.asked.fetch_add(1, Relaxed);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0; 1_024])))))
    }
}

#[test]
fn no_body_is_read_unless_somebody_says_so() {
    let limits = limiter([per_minute("api", 2)]);
    let (incoming, outgoing) = (Endless::default(), Endless::default());
    let answer = outgoing.clone();
    let service = service_fn(move |_: Request<Endless>| {
        let answer = answer.clone();
        async move { Ok::<_, Infallible>(Response::new(answer)) }
    });
    // Costs, refunds and costs by bill look at heads only; one way decides on the spot and the
    // other waits.
    let layer = RateLimitLayer::new(&limits, "api", by::everyone())
        .cost(|_| 1)
        .refund_when(reply::failed)
        .settle_by_bill();
    let waiting = layer.clone().wait_up_to(std::time::Duration::ZERO);
    for layer in [layer, waiting] {
        let request = Request::new(incoming.clone());
        let response =
            pollster::block_on(layer.layer(service.clone()).oneshot(request)).expect("a response");
        assert_eq!(response.status(), 200);
    }
    assert_eq!(
        (incoming.asked.load(Relaxed), outgoing.asked.load(Relaxed)),
        (0, 0)
    );
}

#[test]
fn what_is_read_is_bounded() {
    let limits = limiter([per_minute("api", 2)]);
    let endless = Endless::default();
    let layer = (
        ReadBodyLayer::up_to(10 * 1_024),
        RateLimitLayer::new(&limits, "api", by::everyone()),
    );
    let service = layer.layer(service_fn(crate::support::hello::<Full<Bytes>>));
    let refused = ask(&service, Request::new(endless.clone()));
    assert_eq!(refused.status(), 413);
    let body = std::str::from_utf8(refused.body()).unwrap();
    assert!(body.contains("longer than 10240 bytes"), "{body}");
    assert_eq!(
        endless.asked.load(Relaxed),
        11,
        "one piece too many is enough to know"
    );
    assert_eq!(crate::support::left(&limits, "api", ()), 2);
}

#[test]
fn a_body_that_breaks_off_is_the_clients_fault() {
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
fn sizes_and_ends_are_told_as_the_application_tells_them() {
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
    let mut refused = pollster::block_on(service.oneshot(Request::new(())))
        .expect("a response")
        .into_body();
    let length = refused.size_hint().exact().expect("a known length");
    let frame = pollster::block_on(refused.frame())
        .expect("a frame")
        .expect("no error");
    assert_eq!(
        frame.data_ref().map(Bytes::len),
        usize::try_from(length).ok()
    );
    assert!(refused.is_end_stream());
    assert_eq!(refused.size_hint().exact(), Some(0));
}
