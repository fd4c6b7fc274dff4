//! The section "Custom responses".

use axum::http::{Response, StatusCode};
use bytes::Bytes;
use tollgate_tower::RateLimitLayer;

fn with_html_page(layer: RateLimitLayer) -> RateLimitLayer {
    layer.respond_with(|rejection| match rejection.status() {
        StatusCode::TOO_MANY_REQUESTS => {
            let mut page = Response::new(Bytes::from_static(b"<h1>Slow down</h1>"));
            *page.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            page
        }
        _ => rejection.to_response(),
    })
}

mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use axum::Router;
    use axum::routing::get as on_get;
    use tollgate::{Limit, Limiter, Rate};
    use tollgate_tower::by;

    use super::super::{get, send};
    use super::*;

    #[tokio::test]
    async fn a_rejection_can_be_a_custom_page_and_hooks_are_called() {
        let limiter =
            Limiter::in_memory([Limit::token_bucket("api", 1, Rate::per_day(1))]).unwrap();
        let (allowed, denied) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let layer = with_html_page(RateLimitLayer::new(&limiter, "api", by::everyone()))
            .on_allowed({
                let allowed = allowed.clone();
                move |_, _| {
                    allowed.fetch_add(1, Relaxed);
                }
            })
            .on_denied({
                let denied = denied.clone();
                move |_, decision| {
                    denied.fetch_add(u32::from(!decision.is_allowed()), Relaxed);
                }
            });
        let app = Router::new()
            .route("/", on_get(async || "Hello."))
            .layer(layer);

        assert_eq!(send(&app, get("/", &[])).await.status(), StatusCode::OK);
        let rejected = send(&app, get("/", &[])).await;
        assert_eq!(rejected.status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(rejected.headers().contains_key("retry-after"));
        let body = axum::body::to_bytes(rejected.into_body(), 100)
            .await
            .expect("a short page");
        assert_eq!(body, "<h1>Slow down</h1>");
        assert_eq!((allowed.load(Relaxed), denied.load(Relaxed)), (1, 1));
    }
}
