//! `reqwest_client`.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use testkit::reverse_proxy::Upstream;
use testkit::wait;
use tokio::runtime::Runtime;
use tollgate::Rate;
use tower::ServiceExt as _;

use crate::reqwest_client::{Partner, partner};

fn request(upstream: &Upstream) -> Request<Bytes> {
    Request::get(format!("http://{}/", upstream.addr()))
        .body(Bytes::new())
        .expect("a request")
}

async fn status(partner: &Partner, upstream: &Upstream) -> Option<StatusCode> {
    partner
        .clone()
        .oneshot(request(upstream))
        .await
        .ok()
        .map(|response| response.status())
}

#[test]
fn calls_leave_no_faster_than_they_may() {
    let (runtime, upstream) = (Runtime::new().expect("a runtime"), Upstream::start());
    let partner = partner(Rate::per_second(20), Duration::from_secs(60));
    let start = wait::now();
    runtime.block_on(async {
        let calls = std::array::from_fn::<_, 5, _>(|_| {
            tokio::spawn(partner.clone().oneshot(request(&upstream)))
        });
        for call in calls {
            let response = call
                .await
                .expect("no panic")
                .expect("everybody's turn comes");
            assert_eq!(response.status(), StatusCode::OK);
        }
    });
    // The first leaves at once, and the fifth four twentieths of a second later.
    assert!(
        start.elapsed() >= Duration::from_millis(200),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(upstream.answered(), 5);
}

#[test]
fn a_call_that_may_not_wait_fails_before_it_is_made() {
    let (runtime, upstream) = (Runtime::new().expect("a runtime"), Upstream::start());
    let partner = partner(Rate::per_hour(1), Duration::ZERO);
    runtime.block_on(async {
        assert_eq!(status(&partner, &upstream).await, Some(StatusCode::OK));
        let refused = partner
            .clone()
            .oneshot(request(&upstream))
            .await
            .expect_err("its turn is in an hour");
        let decision = refused.decision().expect("a limit refused it");
        assert!(!decision.is_allowed());
        assert!(
            refused.to_string().starts_with("the call was not made: "),
            "{refused}"
        );
    });
    assert_eq!(upstream.answered(), 1);
}

#[test]
fn a_call_that_fails_by_itself_says_so() {
    let runtime = Runtime::new().expect("a runtime");
    let upstream = Upstream::start();
    let nobody = request(&upstream);
    drop(upstream);
    let refused = runtime.block_on(partner(Rate::per_second(1), Duration::ZERO).oneshot(nobody));
    let error = refused.expect_err("nobody listens");
    assert!(error.decision().is_none(), "{error}");
}
