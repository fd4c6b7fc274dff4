//! A gRPC server that allows each client address 5 calls per minute. The health service stands for
//! your own service.
//!
//! Run `cargo run -p tollgate-tower --example tonic_server` and try the command that it prints.

use std::error;
use std::time::Duration;

use tokio::net::TcpListener;
use tollgate::{Limit, Limiter};
use tollgate_tower::{RateLimitLayer, by, response};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

#[tokio::main]
async fn main() -> Result<(), Box<dyn error::Error>> {
    println!("try, six times:  grpc_health_probe -addr 127.0.0.1:3000");
    Ok(serve(TcpListener::bind("127.0.0.1:3000").await?).await?)
}

pub(crate) async fn serve(listener: TcpListener) -> Result<(), tonic::transport::Error> {
    let limiter = Limiter::in_memory([Limit::sliding_window("calls", 5, Duration::from_secs(60))])
        .expect("valid limits");
    // Calls that fail because of the server are refunded, according to their final status.
    let layer =
        RateLimitLayer::new(&limiter, "calls", by::client_address()).refund_when(response::failed);

    let (_reporter, health) = tonic_health::server::health_reporter();
    Server::builder()
        .layer(layer)
        .add_service(health)
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
        .await
}
