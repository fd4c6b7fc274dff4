//! Outgoing calls wait in the queue, or fail before they are made.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tollgate::{Limit, Rate};
use tollgate_http::Problem;
use tollgate_tower::{OutgoingError, RateLimitLayer, by};
use tower::{Layer, Service, ServiceExt as _, service_fn};

use crate::support::{left, limiter, per_minute, timed};

/// A remote service that counts its calls.
fn partner(
    calls: &Arc<AtomicUsize>,
) -> impl Service<Request<()>, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    let calls = calls.clone();
    service_fn(move |_| {
        calls.fetch_add(1, Relaxed);
        async {
            Ok(Response::builder()
                .header("x-ratelimit-remaining", "7")
                .body(Full::default())
                .expect("a response"))
        }
    })
}

#[test]
fn a_denied_call_is_not_made() {
    let limits = limiter([per_minute("partner", 1)]);
    let calls = Arc::new(AtomicUsize::new(0));
    let client = RateLimitLayer::new(&limits, "partner", by::everyone())
        .outgoing()
        .layer(partner(&calls));
    let call = || pollster::block_on(client.clone().oneshot(Request::new(())));
    let response = call().expect("the first call");

    assert_eq!(
        response.headers()["x-ratelimit-remaining"],
        "7",
        "the fields of the partner are not changed"
    );

    let error = call().expect_err("the second call");
    assert_eq!(calls.load(Relaxed), 1);
    assert_eq!(
        error.decision().and_then(tollgate::Decision::retry_after),
        Some(Duration::from_secs(60))
    );

    let problem = error.decision().and_then(Problem::denied);
    let detail = problem.expect("a denial").detail;
    assert_eq!(
        error.to_string(),
        format!("call rejected by the rate limiter: {detail}")
    );
}

#[test]
fn calls_wait_in_the_queue_up_to_max_wait() {
    let (limits, clock) = timed([Limit::queue("partner", 10, Rate::per_second(1))]);
    let calls = Arc::new(AtomicUsize::new(0));
    let layer = RateLimitLayer::new(&limits, "partner", by::everyone())
        .wait_up_to(Duration::from_secs(2))
        .outgoing();
    let client = layer.layer(partner(&calls));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut in_flight: Vec<_> = (0..4)
        .map(|_| Box::pin(client.clone().oneshot(Request::new(()))))
        .collect();
    let polled: Vec<_> = in_flight
        .iter_mut()
        .map(|call| call.as_mut().poll(&mut context))
        .collect();

    assert!(matches!(&polled[0], std::task::Poll::Ready(Ok(_))));
    assert!(polled[1].is_pending() && polled[2].is_pending());
    assert!(
        matches!(
            &polled[3],
            std::task::Poll::Ready(Err(OutgoingError::Rejected { .. }))
        ),
        "it would have to wait for 3 s"
    );
    for made in 2..=3 {
        clock.advance(Duration::from_secs(1));
        assert!(in_flight[made - 1].as_mut().poll(&mut context).is_ready());
        assert_eq!(calls.load(Relaxed), made);
    }
}

#[test]
fn errors_of_the_call_are_returned() {
    let limits = limiter([per_minute("partner", 2)]);
    let broken =
        service_fn(|_: Request<()>| async { Err::<Response<Full<Bytes>>, _>("no route to host") });
    let layer = RateLimitLayer::new(&limits, "partner", by::everyone())
        .refund_when(tollgate_tower::response::failed);
    let error = pollster::block_on(layer.outgoing().layer(broken).oneshot(Request::new(())))
        .expect_err("it fails");
    assert!(matches!(error, OutgoingError::Call("no route to host")));
    assert_eq!(left(&limits, "partner", ()), 2, "a failed call is refunded");
}
