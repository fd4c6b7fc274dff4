//! `reqwest_client`.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use testkit::reverse_proxy::Upstream;
use testkit::wait;
use tokio::runtime::Runtime;
use tollgate::Rate;
use tower::ServiceExt as _;

use crate::reqwest_client::{PartnerClient, partner_client};

fn request(upstream: &Upstream) -> Request<Bytes> {
    Request::get(format!("http://{}/", upstream.addr()))
        .body(Bytes::new())
        .expect("a request")
}

async fn status(client: &PartnerClient, upstream: &Upstream) -> Option<StatusCode> {
    client
        .clone()
        .oneshot(request(upstream))
        .await
        .ok()
        .map(|response| response.status())
}

#[test]
fn calls_are_made_at_the_configured_rate() {
    let (runtime, upstream) = (Runtime::new().expect("a runtime"), Upstream::start());
    let client = partner_client(Rate::per_second(20), Duration::from_secs(60));
    let start = wait::now();

    runtime.block_on(async {
        let calls = std::array::from_fn::<_, 5, _>(|_| {
            tokio::spawn(client.clone().oneshot(request(&upstream)))
        });
        for call in calls {
            let response = call
                .await
                .expect("no panic")
                .expect("a call admitted from the queue");
            assert_eq!(response.status(), StatusCode::OK);
        }
    });

    // The first call does not wait, and the fifth waits for 4/20 of a second.
    assert!(
        start.elapsed() >= Duration::from_millis(200),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(upstream.answered(), 5);
}

#[test]
fn a_call_that_may_not_wait_is_not_made() {
    let (runtime, upstream) = (Runtime::new().expect("a runtime"), Upstream::start());
    let client = partner_client(Rate::per_hour(1), Duration::ZERO);
    runtime.block_on(async {
        assert_eq!(status(&client, &upstream).await, Some(StatusCode::OK));
        let rejected = client
            .clone()
            .oneshot(request(&upstream))
            .await
            .expect_err("the next call may be made in an hour");
        let decision = rejected.decision().expect("a limit denied it");
        assert!(!decision.is_allowed());
        assert!(
            rejected
                .to_string()
                .starts_with("call rejected by the rate limiter: "),
            "{rejected}"
        );
    });
    assert_eq!(upstream.answered(), 1);
}

#[test]
fn a_failed_call_returns_its_own_error() {
    let runtime = Runtime::new().expect("a runtime");
    let upstream = Upstream::start();
    let nobody = request(&upstream);
    drop(upstream);
    let rejected =
        runtime.block_on(partner_client(Rate::per_second(1), Duration::ZERO).oneshot(nobody));
    let error = rejected.expect_err("no listener");
    assert!(error.decision().is_none(), "{error}");
}
