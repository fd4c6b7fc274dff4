//! Requests wait in queue limits, and with `wait_up_to` for every limit.

use std::time::Duration;

use http::StatusCode;
use tollgate::{Limit, Rate};
use tollgate_tower::{RateLimitLayer, by};
use tower::{Layer, ServiceExt as _, service_fn};

use crate::support::{get, hello, left, per_minute, status, timed};

fn poll<T>(future: &mut std::pin::Pin<Box<impl Future<Output = T>>>) -> std::task::Poll<T> {
    future
        .as_mut()
        .poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}

#[test]
fn a_queue_admits_requests_at_its_rate() {
    let (limits, clock) = timed([Limit::queue("queue", 3, Rate::per_second(1))]);
    let service = RateLimitLayer::new(&limits, "queue", by::everyone()).layer(service_fn(hello));
    let mut asked: Vec<_> = (0..4)
        .map(|_| Box::pin(service.clone().oneshot(get("/"))))
        .collect();
    let mut done = || -> Vec<Option<StatusCode>> {
        let status = |answer: Result<http::Response<_>, _>| {
            answer
                .map(|response: http::Response<tollgate_tower::ResponseBody<_>>| response.status())
        };
        asked
            .iter_mut()
            .map(|asked| match poll(asked) {
                std::task::Poll::Ready(answer) => status(answer).ok(),
                std::task::Poll::Pending => None,
            })
            .collect()
    };
    let first = done();

    assert_eq!(first[0], Some(StatusCode::OK));
    assert_eq!(
        first[3],
        Some(StatusCode::TOO_MANY_REQUESTS),
        "the queue is full, so the request is rejected without waiting"
    );
    assert_eq!(first[1..3], [None, None]);

    asked.remove(3);
    asked.remove(0);
    clock.advance(Duration::from_secs(1));
    assert!(poll(&mut asked[0]).is_ready());
    assert!(poll(&mut asked[1]).is_pending());

    clock.advance(Duration::from_secs(1));
    assert!(poll(&mut asked[1]).is_ready());
}

#[test]
fn a_cancelled_request_frees_its_queue_position() {
    let (limits, _) = timed([Limit::queue("queue", 2, Rate::per_second(1))]);
    let service = RateLimitLayer::new(&limits, "queue", by::everyone()).layer(service_fn(hello));
    assert_eq!(status(&service, get("/")), 200);
    let mut waiting = Box::pin(service.clone().oneshot(get("/")));
    assert!(poll(&mut waiting).is_pending());
    assert_eq!(left(&limits, "queue", ()), 0);
    drop(waiting);
    assert_eq!(left(&limits, "queue", ()), 1);
}

#[test]
fn requests_wait_for_any_limit_with_wait_up_to() {
    let (limits, clock) = timed([per_minute("calls", 1)]);
    let layer = RateLimitLayer::new(&limits, "calls", by::everyone());
    let patient = layer
        .clone()
        .wait_up_to(Duration::from_secs(90))
        .layer(service_fn(hello));

    assert_eq!(status(&patient, get("/")), 200);

    let mut second = Box::pin(patient.clone().oneshot(get("/")));
    assert!(poll(&mut second).is_pending());

    let hasty = layer
        .wait_up_to(Duration::from_secs(30))
        .layer(service_fn(hello));
    assert_eq!(
        status(&hasty, get("/")),
        429,
        "it would have to wait too long, so it is rejected without waiting"
    );

    clock.advance(Duration::from_secs(60));
    assert!(poll(&mut second).is_ready());
}
