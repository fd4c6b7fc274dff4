//! Calls to others wait for their turn, or fail before they are made.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tollgate::{Limit, Rate};
use tollgate_tower::{OutgoingError, RateLimitLayer, by};
use tower::{Layer, Service, ServiceExt as _, service_fn};

use crate::support::{left, limiter, per_minute, timed};

/// Somebody else's service, which counts the calls it gets.
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
fn a_call_that_may_not_wait_fails_without_being_made() {
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
        "the partner's own fields are left alone"
    );
    let error = call().expect_err("the second call");
    assert_eq!(calls.load(Relaxed), 1);
    assert_eq!(
        error.decision().and_then(tollgate::Decision::retry_after),
        Some(Duration::from_secs(60))
    );
    let text = "the call was not made: The limit \"partner\" has no room for this request now; try again in 60 seconds.";
    assert_eq!(error.to_string(), text);
}

#[test]
fn calls_wait_for_their_turn_up_to_a_time() {
    let (limits, clock) = timed([Limit::queue("partner", 10, Rate::per_second(1))]);
    let calls = Arc::new(AtomicUsize::new(0));
    let layer = RateLimitLayer::new(&limits, "partner", by::everyone())
        .wait_up_to(Duration::from_secs(2))
        .outgoing();
    let client = layer.layer(partner(&calls));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut under_way: Vec<_> = (0..4)
        .map(|_| Box::pin(client.clone().oneshot(Request::new(()))))
        .collect();
    let polled: Vec<_> = under_way
        .iter_mut()
        .map(|call| call.as_mut().poll(&mut context))
        .collect();
    assert!(matches!(&polled[0], std::task::Poll::Ready(Ok(_))));
    assert!(polled[1].is_pending() && polled[2].is_pending());
    assert!(
        matches!(
            &polled[3],
            std::task::Poll::Ready(Err(OutgoingError::Limited { .. }))
        ),
        "its turn is 3 s away"
    );
    for made in 2..=3 {
        clock.advance(Duration::from_secs(1));
        assert!(under_way[made - 1].as_mut().poll(&mut context).is_ready());
        assert_eq!(calls.load(Relaxed), made);
    }
}

#[test]
fn an_error_of_the_call_itself_is_passed_on() {
    let limits = limiter([per_minute("partner", 2)]);
    let broken =
        service_fn(|_: Request<()>| async { Err::<Response<Full<Bytes>>, _>("no route to host") });
    let layer = RateLimitLayer::new(&limits, "partner", by::everyone())
        .refund_when(tollgate_tower::reply::failed);
    let error = pollster::block_on(layer.outgoing().layer(broken).oneshot(Request::new(())))
        .expect_err("it fails");
    assert!(matches!(error, OutgoingError::Call("no route to host")));
    assert_eq!(
        left(&limits, "partner", ()),
        2,
        "a call that never arrived is given back"
    );
}
