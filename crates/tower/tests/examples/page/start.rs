//! The first lines, and whose address counts.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use testkit::reverse_proxy;
use tokio::net::TcpListener;
use tollgate::{Limit, Limiter};
use tollgate_tower::{ClientResolver, ForwardedBy, RateLimitLayer, by};

use crate::Running;

async fn hello() -> &'static str {
    "Hello."
}

async fn serve(listener: TcpListener) -> std::io::Result<()> {
    let limiter = Limiter::in_memory([Limit::sliding_window("api", 100, Duration::from_secs(60))]);
    let app = Router::new()
        .route("/", get(hello))
        .layer(RateLimitLayer::new(&limiter, "api", by::client_address()));
    axum::serve(
        listener,
        app.into_make_service_with_connect_info::<SocketAddr>(),
    )
    .await?;
    Ok(())
}

#[test]
fn the_first_example_limits_an_application() {
    let server = Running::start(serve);
    let is_allowed = |_: &i32| reverse_proxy::get(server.addr, "/", &[]).status == 200;
    let passed = (0..1_000).take_while(is_allowed).count();
    // More than that only where one minute ends and the next begins meanwhile.
    assert!((100..200).contains(&passed), "{passed}");
    assert_eq!(reverse_proxy::get(server.addr, "/", &[]).status, 429);
}

fn behind_proxies() -> Result<by::ClientAddress, Box<dyn Error>> {
    let clients = ClientResolver::new(vec!["10.0.0.0/8".parse()?], 56, ForwardedBy::XForwardedFor)?;
    let client = by::client_address().behind(clients);
    Ok(client)
}

#[test]
fn trusted_proxies_are_configured() {
    assert!(behind_proxies().is_ok());
}
