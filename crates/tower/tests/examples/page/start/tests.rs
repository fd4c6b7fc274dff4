//! The section "Test it".

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, StatusCode};
use tollgate::{Limit, Limiter, ManualClock, MemoryStore};
use tower::ServiceExt as _;

use super::app;

#[tokio::test]
async fn the_third_request_of_a_minute_is_rejected() {
    let clock = ManualClock::default();
    let limiter = Limiter::builder()
        .store(MemoryStore::builder().clock(clock.clone()).build())
        .clock(clock.clone())
        .limit(Limit::fixed_window("api", 2, Duration::from_secs(60)))
        .build()
        .unwrap();
    let app = app(&limiter);
    let (client, other_client) = ([203, 0, 113, 7], [203, 0, 113, 8]);

    assert_eq!(status(&app, client).await, StatusCode::OK);
    assert_eq!(status(&app, client).await, StatusCode::OK);
    assert_eq!(status(&app, client).await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(status(&app, other_client).await, StatusCode::OK);

    clock.advance(Duration::from_secs(60));
    assert_eq!(status(&app, client).await, StatusCode::OK);
}

async fn status(app: &Router, address: [u8; 4]) -> StatusCode {
    let peer = SocketAddr::from((address, 4711));
    let mut request = Request::new(Body::empty()); // GET /
    request.extensions_mut().insert(ConnectInfo(peer));
    app.clone().oneshot(request).await.unwrap().status()
}
