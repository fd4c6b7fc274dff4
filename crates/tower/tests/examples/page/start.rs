//! The sections "An axum application" and "Test it".

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tollgate::{Limit, Limiter};
use tollgate_tower::{RateLimitLayer, by};

fn app(limiter: &Limiter) -> Router {
    let layer = RateLimitLayer::new(limiter, "api", by::client_address());
    Router::new()
        .route("/", get(async || "Hello."))
        .layer(layer)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Limiter::in_memory([Limit::sliding_window("api", 100, Duration::from_secs(60))])?;
    let listener = TcpListener::bind("127.0.0.1:3000").await?;

    // `by::client_address()` needs the peer address of each connection.
    let service = app(&limiter).into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await?;
    Ok(())
}

mod tests;

mod server_tests {
    use testkit::reverse_proxy;

    use super::*;
    use crate::TestServer;

    #[test]
    fn the_first_example_limits_an_application() {
        let limit = Limit::sliding_window("api", 100, Duration::from_secs(60));
        let app = app(&Limiter::in_memory([limit]).unwrap());
        let server = TestServer::start(async move |listener| {
            let service = app.into_make_service_with_connect_info::<SocketAddr>();
            axum::serve(listener, service).await
        });
        let is_allowed = |_: &i32| reverse_proxy::get(server.addr, "/", &[]).status == 200;
        let allowed = (0..1_000).take_while(is_allowed).count();
        // More than 100 only if a new minute begins meanwhile.
        assert!((100..200).contains(&allowed), "{allowed}");
        assert_eq!(reverse_proxy::get(server.addr, "/", &[]).status, 429);
    }
}
