//! Concurrency limits: a permit is held until the response has been sent or the client disconnects.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt as _, Full};
use testkit::servers::{Flavor, Server};
use testkit::wait;
use tollgate::{Limit, Limiter, Rate};
use tollgate_redis::RedisBuilder;
use tollgate_tower::{RateLimitLayer, by};
use tower::{Layer, Service, ServiceExt as _, service_fn};

use crate::support::{
    TestRequest, get, header, hello, left, limiter, per_minute, send, status, timed,
};

const PERMIT_TIMEOUT: Duration = Duration::from_secs(30);
const CANCELLED: usize = 10_000;

/// An application that never answers.
fn silent()
-> impl Service<TestRequest, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    service_fn(|_: TestRequest| std::future::pending())
}

/// Polls a future once, as a server does before its client disconnects.
fn begin<T>(future: impl Future<Output = T>) -> std::pin::Pin<Box<impl Future<Output = T>>> {
    let mut future = Box::pin(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    future
}

#[test]
fn a_permit_is_held_until_the_body_ends() {
    let limits = limiter([Limit::concurrency("in-flight", 1, PERMIT_TIMEOUT)]);
    let service =
        RateLimitLayer::new(&limits, "in-flight", by::everyone()).layer(service_fn(hello));
    let first = pollster::block_on(service.clone().oneshot(get("/"))).expect("a response");
    let rejected = send(&service, get("/"));

    assert_eq!(
        (rejected.status().as_u16(), header(&rejected, "retry-after")),
        (429, Some("30")),
        "by then the permit has expired"
    );

    let body = pollster::block_on(first.into_body().collect())
        .expect("a body")
        .to_bytes();
    assert_eq!(body, "hello");

    let third = pollster::block_on(service.clone().oneshot(get("/"))).expect("a response");
    assert_eq!(third.status(), 200);

    drop(third);
    assert_eq!(
        status(&service, get("/")),
        200,
        "a dropped response releases its permit"
    );
}

#[test]
fn a_long_request_renews_its_permit() {
    let (limits, clock) = timed([Limit::concurrency("in-flight", 1, PERMIT_TIMEOUT)]);
    let service = RateLimitLayer::new(&limits, "in-flight", by::everyone()).layer(silent());
    let mut working = begin(service.oneshot(get("/")));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());

    for _ in 0..12 {
        clock.advance(PERMIT_TIMEOUT / 3);
        assert!(working.as_mut().poll(&mut context).is_pending());
        assert_eq!(
            left(&limits, "in-flight", ()),
            0,
            "the request is still in flight"
        );
    }

    drop(working);
    assert_eq!(left(&limits, "in-flight", ()), 1);
}

#[test]
fn ten_thousand_cancelled_requests_release_their_permits() {
    let limits = limiter([
        Limit::concurrency("in-flight", 5, PERMIT_TIMEOUT),
        Limit::queue("queue", 3, Rate::per_second(1)),
    ]);
    let in_flight_only = RateLimitLayer::new(&limits, "in-flight", by::everyone()).layer(silent());
    let queued = RateLimitLayer::new(&limits, "queue", by::everyone())
        .and("in-flight", by::everyone())
        .layer(silent());

    for round in 0..CANCELLED {
        drop(begin(in_flight_only.clone().oneshot(get("/"))));
        // The first request does not wait and is charged. Each later one waits, and frees its queue
        // position when it is dropped.
        let before = left(&limits, "queue", ());
        let waiting = begin(queued.clone().oneshot(get("/")));
        drop(waiting);
        assert!(
            round == 0 || left(&limits, "queue", ()) == before,
            "round {round}"
        );
    }
    assert_eq!(left(&limits, "in-flight", ()), 5);
    assert_eq!(
        left(&limits, "queue", ()),
        2,
        "only the first request was charged"
    );
}

#[test]
fn cancelled_requests_release_their_permits_on_redis() {
    let server = Server::start(Flavor::Redis);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let store = {
        let _inside = runtime.enter();
        RedisBuilder::standalone(server.url())
            .timeout(Duration::from_secs(5))
            .build()
            .expect("right settings")
    };

    assert!(runtime.block_on(store.ready(Duration::from_secs(10))));

    let limits = Limiter::new(
        store,
        [
            Limit::concurrency("in-flight", 65_536, PERMIT_TIMEOUT),
            per_minute("calls", 1_000_000),
        ],
    )
    .unwrap();
    let layer =
        RateLimitLayer::new(&limits, "in-flight", by::everyone()).and("calls", by::everyone());
    let service = layer.layer(silent());
    runtime.block_on(async {
        let mut in_flight = tokio::task::JoinSet::new();
        for index in 0..CANCELLED {
            let mut call = Box::pin(service.clone().oneshot(get("/")));
            let steps = index % 4;
            in_flight.spawn(async move {
                // Some are cancelled before the store answers, some while the application works.
                for _ in 0..steps {
                    tokio::select! {
                        biased;
                        _ = &mut call => {}
                        () = tokio::task::yield_now() => {}
                    }
                }
            });
            if index % 64 == 0 {
                while in_flight.try_join_next().is_some() {}
            }
        }
        in_flight.join_all().await;
    });
    wait::until_true(
        Duration::from_secs(20),
        "all permits to be released",
        || {
            let decision = runtime.block_on(async { limits.peek("in-flight", ()).cost(0).await });
            decision.is_ok_and(|decision| decision.remaining() == 65_536)
        },
    );
}
