//! Refunds and settlement after the response.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use tollgate::{Limit, Limiter};
use tollgate_tower::{ActualCost, RateLimitLayer, ResponseHead, by, response};
use tower::{Layer, Service, ServiceExt as _, service_fn};

use crate::support::{TestRequest, get, left, limiter, per_minute, send, status};

/// An application that answers with this status.
fn answering(
    status: &Arc<AtomicU16>,
) -> impl Service<TestRequest, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    let status = status.clone();
    service_fn(move |_: TestRequest| {
        let status = status.load(Relaxed);
        async move {
            Ok(Response::builder()
                .status(status)
                .body(Full::default())
                .expect("a status"))
        }
    })
}

#[test]
fn successful_logins_are_refunded_and_failed_ones_count() {
    let limits = limiter([per_minute("login", 2)]);
    let code = Arc::new(AtomicU16::new(200));
    let layer =
        RateLimitLayer::new(&limits, "login", by::everyone()).refund_when(response::succeeded);
    let service = layer.layer(answering(&code));

    for (answer, left_then) in [(200, 2), (204, 2), (303, 2), (401, 1), (200, 1), (500, 0)] {
        code.store(answer, Relaxed);
        assert_eq!(status(&service, get("/")).as_u16(), answer);
        assert_eq!(left(&limits, "login", ()), left_then, "after {answer}");
    }

    code.store(200, Relaxed);
    assert_eq!(
        status(&service, get("/")),
        429,
        "even with the right password"
    );
}

#[test]
fn server_errors_are_refunded() {
    let limits = limiter([per_minute("api", 2), per_minute("tenant", 9)]);
    let code = Arc::new(AtomicU16::new(503));
    let layer = RateLimitLayer::new(&limits, "tenant", by::everyone())
        .and("api", by::everyone())
        .refund_when(response::failed);
    let service = layer.layer(answering(&code));

    for _ in 0..3 {
        assert_eq!(status(&service, get("/")), 503);
    }
    assert_eq!(
        (left(&limits, "api", ()), left(&limits, "tenant", ())),
        (2, 6),
        "only the limit with `refund_when` is refunded"
    );

    code.store(404, Relaxed);
    status(&service, get("/"));
    assert_eq!(left(&limits, "api", ()), 1);
}

#[test]
fn a_service_error_counts_as_failed() {
    let limits = limiter([per_minute("api", 2)]);
    let failing =
        || service_fn(|_: TestRequest| async { Err::<Response<Full<Bytes>>, _>("it broke") });
    let layer = RateLimitLayer::new(&limits, "api", by::everyone());
    let refunded = layer.clone().refund_when(response::failed).layer(failing());

    assert_eq!(
        pollster::block_on(refunded.oneshot(get("/"))).expect_err("it fails"),
        "it broke"
    );
    assert_eq!(left(&limits, "api", ()), 2);

    let counted = layer.refund_when(response::succeeded).layer(failing());
    assert_eq!(
        pollster::block_on(counted.oneshot(get("/"))).expect_err("it fails"),
        "it broke"
    );
    assert_eq!(left(&limits, "api", ()), 1);
}

#[test]
fn a_shadow_denial_is_not_refunded() {
    let limits = limiter([per_minute("shadow", 1).shadow()]);
    let code = Arc::new(AtomicU16::new(404));
    let layer =
        RateLimitLayer::new(&limits, "shadow", by::everyone()).refund_when(response::succeeded);
    let service = layer.layer(answering(&code));

    assert_eq!(status(&service, get("/")), 404);

    code.store(200, Relaxed);
    assert_eq!(
        status(&service, get("/")),
        200,
        "a shadow limit does not deny"
    );
    assert_eq!(
        left(&limits, "shadow", ()),
        0,
        "the second was not charged, so it is not refunded"
    );
}

/// An application whose response has the header `x-cost`.
fn costing(
    cost: &'static str,
) -> impl Service<TestRequest, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    service_fn(move |_: TestRequest| async move {
        Ok(Response::builder()
            .header("x-cost", cost)
            .body(Full::default())
            .expect("a header"))
    })
}

fn cost_header(response: &ResponseHead<'_>) -> Option<u64> {
    response.header("x-cost")?.parse().ok()
}

#[test]
fn the_response_settles_the_estimate() {
    for (cost, left_then) in [
        ("3", 97),
        ("10", 90),
        ("25", 75),
        ("0", 100),
        ("no number", 90),
        ("1000", 0),
    ] {
        let limits = limiter([per_minute("units", 100)]);
        let layer = RateLimitLayer::new(&limits, "units", by::everyone())
            .cost(|_| 10)
            .settle(cost_header);
        assert_eq!(status(&layer.layer(costing(cost)), get("/")), 200);
        assert_eq!(left(&limits, "units", ()), left_then, "{cost}");
    }
}

/// Sends the frames of a `ChannelBody` body.
type FrameSender = tokio::sync::mpsc::UnboundedSender<Frame<Bytes>>;

struct ChannelBody(tokio::sync::mpsc::UnboundedReceiver<Frame<Bytes>>);

impl http_body::Body for ChannelBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|frame| frame.map(Ok))
    }
}

fn channel_body() -> (FrameSender, ChannelBody) {
    let (parts, frames) = tokio::sync::mpsc::unbounded_channel();
    (parts, ChannelBody(frames))
}

/// The response of an application that reports how many tokens it took.
fn generate(
    limits: &Limiter,
    tokens: Option<u64>,
) -> (
    FrameSender,
    Response<tollgate_tower::ResponseBody<ChannelBody>>,
) {
    let (parts, body) = channel_body();
    let body = Arc::new(std::sync::Mutex::new(Some(body)));
    let service = service_fn(move |request: TestRequest| {
        let actual_cost = request
            .extensions()
            .get::<ActualCost>()
            .cloned()
            .expect("an extension");
        if let Some(tokens) = tokens {
            actual_cost.report("tokens", 1).expect("a known limit");
            actual_cost.report("tokens", tokens).expect("a known limit");
        }
        let body = body.lock().expect("no panic").take().expect("one request");
        async move { Ok::<_, Infallible>(Response::new(body)) }
    });
    let layer = RateLimitLayer::new(limits, "tokens", by::everyone())
        .cost(|_| 100)
        .settle_by_actual_cost();
    let response = pollster::block_on(layer.layer(service).oneshot(get("/"))).expect("a response");
    (parts, response)
}

#[test]
fn the_actual_cost_is_settled_when_the_body_ends() {
    let limits = limiter([per_minute("tokens", 1_000)]);
    let (parts, response) = generate(&limits, Some(40));
    parts
        .send(Frame::data(Bytes::from_static(b"one")))
        .expect("a reader");

    assert_eq!(
        left(&limits, "tokens", ()),
        900,
        "the estimate is charged until the body ends"
    );

    drop(parts);
    let whole = pollster::block_on(response.into_body().collect()).expect("a body");
    assert_eq!(
        (whole.to_bytes().as_ref(), left(&limits, "tokens", ())),
        (&b"one"[..], 960)
    );
}

#[test]
fn the_actual_cost_is_settled_on_disconnect_and_defaults_to_the_estimate() {
    let limits = limiter([per_minute("tokens", 1_000)]);
    let (_parts, response) = generate(&limits, Some(700));
    drop(response);

    assert_eq!(left(&limits, "tokens", ()), 300);

    let (_parts, response) = generate(&limits, None);
    drop(response);
    assert_eq!(left(&limits, "tokens", ()), 200);

    // More than remains is charged in full, too; see reservations.rs.
    let (_parts, response) = generate(&limits, Some(5_000));
    drop(response);
    assert_eq!(left(&limits, "tokens", ()), 0);
}

/// A gRPC service whose calls end with this status in the trailers.
fn ending(
    code: &'static str,
) -> impl Service<
    TestRequest,
    Response = Response<http_body_util::combinators::BoxBody<Bytes, Infallible>>,
    Error = Infallible,
    Future: Send,
> + Clone
+ Send
+ 'static {
    service_fn(move |_: TestRequest| async move {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", code.parse().expect("a value"));
        let frames = [
            Frame::data(Bytes::from_static(b"message")),
            Frame::trailers(trailers),
        ];
        let body = StreamBody::new(Frames(frames.into_iter().collect()));
        Ok(Response::builder()
            .header("content-type", "application/grpc")
            .body(body.boxed())
            .expect("a response"))
    })
}

struct Frames(std::collections::VecDeque<Frame<Bytes>>);

impl futures_core::Stream for Frames {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(self.0.pop_front().map(Ok))
    }
}

#[test]
fn a_grpc_call_is_judged_by_its_final_status() {
    for (code, succeeded, failed) in [("0", 9, 8), ("16", 8, 8), ("13", 8, 9), ("14", 8, 9)] {
        for (is_free, left_then) in [
            (
                response::succeeded as fn(&ResponseHead<'_>) -> bool,
                succeeded,
            ),
            (response::failed, failed),
        ] {
            let limits = limiter([Limit::sliding_log("calls", 9, crate::support::MINUTE)]);
            let layer = RateLimitLayer::new(&limits, "calls", by::everyone()).refund_when(is_free);
            send(&layer.layer(ending(code)), get("/"));
            assert_eq!(left(&limits, "calls", ()), left_then, "status {code}");
        }
    }
}
