//! An axum application that allows each client address 5 requests per minute, counted in memory.
//!
//! Run `cargo run -p tollgate-tower --example axum_memory` and try the command that it prints.

use std::{io, net::SocketAddr, time::Duration};

use axum::{Router, routing::get};
use tokio::net::TcpListener;
use tollgate::{Limit, Limiter};
use tollgate_tower::{RateLimitLayer, by};

#[tokio::main]
async fn main() -> io::Result<()> {
    println!("try, six times:  curl -i http://127.0.0.1:3000/");
    serve(TcpListener::bind("127.0.0.1:3000").await?).await
}

pub(crate) async fn serve(listener: TcpListener) -> io::Result<()> {
    let limiter = Limiter::in_memory([Limit::sliding_window("api", 5, Duration::from_secs(60))])
        .expect("valid limits");
    let app = Router::new()
        .route("/", get(async || "Hello.\n"))
        .layer(RateLimitLayer::new(&limiter, "api", by::client_address()));

    // The layer needs the peer address of each connection.
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await
}
