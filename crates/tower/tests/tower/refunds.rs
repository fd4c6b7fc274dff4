//! What a response gives back, and what it makes a request cost in the end.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use tollgate::{Limit, Limiter};
use tollgate_tower::{Bill, RateLimitLayer, Reply, by, reply};
use tower::{Layer, Service, ServiceExt as _, service_fn};

use crate::support::{Asked, ask, get, left, limiter, per_minute, status};

/// An application that answers with whatever status it is told.
fn answering(
    status: &Arc<AtomicU16>,
) -> impl Service<Asked, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    let status = status.clone();
    service_fn(move |_: Asked| {
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
fn right_passwords_are_free_and_wrong_ones_count() {
    let limits = limiter([per_minute("login", 2)]);
    let code = Arc::new(AtomicU16::new(200));
    let layer = RateLimitLayer::new(&limits, "login", by::everyone()).refund_when(reply::succeeded);
    let service = layer.layer(answering(&code));
    for (told, left_then) in [(200, 2), (204, 2), (303, 2), (401, 1), (200, 1), (500, 0)] {
        code.store(told, Relaxed);
        assert_eq!(status(&service, get("/")).as_u16(), told);
        assert_eq!(left(&limits, "login", ()), left_then, "after {told}");
    }
    code.store(200, Relaxed);
    assert_eq!(
        status(&service, get("/")),
        429,
        "even with the right password"
    );
}

#[test]
fn nobody_pays_for_the_servers_faults() {
    let limits = limiter([per_minute("api", 2), per_minute("tenant", 9)]);
    let code = Arc::new(AtomicU16::new(503));
    let layer = RateLimitLayer::new(&limits, "tenant", by::everyone())
        .and("api", by::everyone())
        .refund_when(reply::failed);
    let service = layer.layer(answering(&code));
    for _ in 0..3 {
        assert_eq!(status(&service, get("/")), 503);
    }
    assert_eq!(
        (left(&limits, "api", ()), left(&limits, "tenant", ())),
        (2, 6),
        "only the limit that says so gives back"
    );
    code.store(404, Relaxed);
    status(&service, get("/"));
    assert_eq!(left(&limits, "api", ()), 1);
}

#[test]
fn a_service_that_fails_without_an_answer_is_a_failure() {
    let limits = limiter([per_minute("api", 2)]);
    let failing = || service_fn(|_: Asked| async { Err::<Response<Full<Bytes>>, _>("it broke") });
    let layer = RateLimitLayer::new(&limits, "api", by::everyone());
    let refunded = layer.clone().refund_when(reply::failed).layer(failing());
    assert_eq!(
        pollster::block_on(refunded.oneshot(get("/"))).expect_err("it fails"),
        "it broke"
    );
    assert_eq!(left(&limits, "api", ()), 2);
    let counted = layer.refund_when(reply::succeeded).layer(failing());
    assert_eq!(
        pollster::block_on(counted.oneshot(get("/"))).expect_err("it fails"),
        "it broke"
    );
    assert_eq!(left(&limits, "api", ()), 1);
}

#[test]
fn a_shadow_limit_that_would_have_refused_gives_nothing_back() {
    let limits = limiter([per_minute("shadow", 1).shadow()]);
    let code = Arc::new(AtomicU16::new(404));
    let layer =
        RateLimitLayer::new(&limits, "shadow", by::everyone()).refund_when(reply::succeeded);
    let service = layer.layer(answering(&code));
    assert_eq!(status(&service, get("/")), 404);
    code.store(200, Relaxed);
    assert_eq!(
        status(&service, get("/")),
        200,
        "a shadow limit lets everyone pass"
    );
    assert_eq!(
        left(&limits, "shadow", ()),
        0,
        "the second was not charged, so there is nothing to give back"
    );
}

/// An application whose response tells what it cost.
fn costing(
    cost: &'static str,
) -> impl Service<Asked, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    service_fn(move |_: Asked| async move {
        Ok(Response::builder()
            .header("x-cost", cost)
            .body(Full::default())
            .expect("a header"))
    })
}

fn told(reply: &Reply<'_>) -> Option<u64> {
    reply.header("x-cost")?.parse().ok()
}

#[test]
fn an_estimate_becomes_what_the_response_says() {
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
            .settle(told);
        assert_eq!(status(&layer.layer(costing(cost)), get("/")), 200);
        assert_eq!(left(&limits, "units", ()), left_then, "{cost}");
    }
}

/// A response of which the parts are sent when the test says so.
type Parts = tokio::sync::mpsc::UnboundedSender<Frame<Bytes>>;

struct Streamed(tokio::sync::mpsc::UnboundedReceiver<Frame<Bytes>>);

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|frame| frame.map(Ok))
    }
}

fn streamed() -> (Parts, Streamed) {
    let (parts, frames) = tokio::sync::mpsc::unbounded_channel();
    (parts, Streamed(frames))
}

/// An application that says how many tokens an answer took while it sends it.
fn talking(
    limits: &Limiter,
    settle_to: Option<u64>,
) -> (Parts, Response<tollgate_tower::ResponseBody<Streamed>>) {
    let (parts, body) = streamed();
    let body = Arc::new(std::sync::Mutex::new(Some(body)));
    let service = service_fn(move |request: Asked| {
        let bill = request.extensions().get::<Bill>().cloned().expect("a bill");
        if let Some(tokens) = settle_to {
            bill.settle("tokens", 1).expect("a tab");
            bill.settle("tokens", tokens).expect("a tab");
        }
        let body = body.lock().expect("no panic").take().expect("one request");
        async move { Ok::<_, Infallible>(Response::new(body)) }
    });
    let layer = RateLimitLayer::new(limits, "tokens", by::everyone())
        .cost(|_| 100)
        .settle_by_bill();
    let response = pollster::block_on(layer.layer(service).oneshot(get("/"))).expect("a response");
    (parts, response)
}

#[test]
fn a_bill_is_settled_when_the_body_ends() {
    let limits = limiter([per_minute("tokens", 1_000)]);
    let (parts, response) = talking(&limits, Some(40));
    parts
        .send(Frame::data(Bytes::from_static(b"one")))
        .expect("a reader");
    assert_eq!(
        left(&limits, "tokens", ()),
        900,
        "the estimate, for as long as the answer lasts"
    );
    drop(parts);
    let whole = pollster::block_on(response.into_body().collect()).expect("a body");
    assert_eq!(
        (whole.to_bytes().as_ref(), left(&limits, "tokens", ())),
        (&b"one"[..], 960)
    );
}

#[test]
fn a_bill_is_settled_when_the_client_goes_away_and_stays_an_estimate_when_nothing_was_told() {
    let limits = limiter([per_minute("tokens", 1_000)]);
    let (_parts, response) = talking(&limits, Some(700));
    drop(response);
    assert_eq!(left(&limits, "tokens", ()), 300);
    let (_parts, response) = talking(&limits, None);
    drop(response);
    assert_eq!(left(&limits, "tokens", ()), 200);
    // More than there is: what is left is gone, and no more.
    let (_parts, response) = talking(&limits, Some(5_000));
    drop(response);
    assert_eq!(left(&limits, "tokens", ()), 0);
}

/// A call of gRPC that ends with this status in its trailers.
fn ending(
    code: &'static str,
) -> impl Service<
    Asked,
    Response = Response<http_body_util::combinators::BoxBody<Bytes, Infallible>>,
    Error = Infallible,
    Future: Send,
> + Clone
+ Send
+ 'static {
    service_fn(move |_: Asked| async move {
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
fn a_grpc_call_is_judged_by_how_it_ends() {
    for (code, succeeded, failed) in [("0", 9, 8), ("16", 8, 8), ("13", 8, 9), ("14", 8, 9)] {
        for (is_free, left_then) in [
            (reply::succeeded as fn(&Reply<'_>) -> bool, succeeded),
            (reply::failed, failed),
        ] {
            let limits = limiter([Limit::sliding_log("calls", 9, crate::support::MINUTE)]);
            let layer = RateLimitLayer::new(&limits, "calls", by::everyone()).refund_when(is_free);
            ask(&layer.layer(ending(code)), get("/"));
            assert_eq!(left(&limits, "calls", ()), left_then, "status {code}");
        }
    }
}
