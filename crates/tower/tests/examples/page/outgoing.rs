//! The section "Outgoing calls".

use std::time::Duration;

use tollgate::{Limit, Limiter, Rate};
use tollgate_tower::{OutgoingService, RateLimitLayer, by};
use tower::Layer as _;

fn limited_client<C>(client: C) -> Result<OutgoingService<C>, tollgate::Error> {
    // The partner allows 10 calls per second; ours wait for up to 30 seconds.
    let limiter = Limiter::in_memory([Limit::queue("partner", 300, Rate::per_second(10))])?;
    let layer = RateLimitLayer::new(&limiter, "partner", by::everyone())
        .wait_up_to(Duration::from_secs(30))
        .outgoing();
    Ok(layer.layer(client))
}

mod tests {
    use axum::http::{Request, Response, StatusCode};
    use tower::{ServiceExt as _, service_fn};

    use super::*;

    #[tokio::test]
    async fn outgoing_calls_wait_in_the_queue() {
        let client = limited_client(service_fn(async |_: Request<()>| {
            Ok::<_, std::io::Error>(Response::new(String::new()))
        }))
        .unwrap();
        for _ in 0..2 {
            let response = client.clone().oneshot(Request::new(())).await;
            let status = response.expect("an admitted call").status();
            assert_eq!(status, StatusCode::OK);
        }
    }
}
