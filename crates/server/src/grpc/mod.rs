//! The gRPC port: Envoy's rate limit service, with health and reflection.
//!
//! Each request takes four steps: decode (`descriptor`), select (`plan`, `overrides`), spend
//! (`rate_limit`), encode (`encode`). Whether a request that cannot be decided gets a gRPC error or
//! a denial is settled in `error` alone. Knows nothing of connections, and nothing of HTTP except
//! the header fields that Envoy is asked to add.

mod descriptor;
mod encode;
mod error;
mod health;
mod overrides;
mod plan;
mod rate_limit;

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;

use hyper::body::Incoming;
use hyper::{Request, Response};
use tokio::net::TcpListener;
use tollgate_envoy::tonic::{Status, body::Body};
use tollgate_envoy::{ResponseFuture, Services};

use self::health::GrpcHealth;
use self::rate_limit::EnvoyRateLimiter;
use crate::gate::Gate;
use crate::listen::{self, Front, ListenProtocol, ServerLoad, ShutdownSignal};

/// Envoy's rate limit service without its port, for the fuzz targets.
///
/// # Panics
///
/// If the store cannot be opened.
#[cfg(feature = "fuzzing")]
pub fn rate_limit_service(config: tollgate_rules::Config) -> impl tollgate_envoy::RateLimitService {
    let metrics = Arc::new(crate::metrics::Metrics::new());
    let gate = Gate::open(config, metrics).expect("a store that can be opened");
    EnvoyRateLimiter::new(Arc::new(gate))
}

/// Serves the gRPC port until the shutdown is complete.
pub(crate) async fn run(
    listener: TcpListener,
    gate: Arc<Gate>,
    load: Arc<ServerLoad>,
    shutdown: ShutdownSignal,
) {
    let health = GrpcHealth::serving().await;
    let front = Arc::new(GrpcFront::new(gate, &health));

    let serving = listen::run(
        listener,
        ListenProtocol::Http2,
        front,
        load,
        shutdown.clone(),
    );

    tokio::join!(serving, health.follow(shutdown));
}

/// Handles the requests of the gRPC port.
#[derive(Debug)]
struct GrpcFront {
    gate: Arc<Gate>,
    services: Services<EnvoyRateLimiter>,
}

impl GrpcFront {
    fn new(gate: Arc<Gate>, health: &GrpcHealth) -> Self {
        let services = Services::new(EnvoyRateLimiter::new(gate.clone()), health.reporter());
        Self { gate, services }
    }

    /// Waits for the response, which takes as long as the request's message takes to arrive.
    async fn wait_for_response(&self, response: ResponseFuture) -> Response<Body> {
        let timeout = self.gate.active().config.server.header_timeout;
        match Box::pin(tokio::time::timeout(timeout, response)).await {
            Ok(Ok(response)) => response,
            Err(_) => {
                Status::deadline_exceeded(format!("the message did not arrive within {timeout:?}"))
                    .into_http()
            }
        }
    }
}

impl Front for GrpcFront {
    type Body = Body;

    fn handle(
        &self,
        request: Request<Incoming>,
        _peer: SocketAddr,
    ) -> impl Future<Output = Response<Body>> + Send {
        // Called outside the async block, so that its future does not hold the request as well.
        let mut response = self.services.handle(request);
        async move {
            // Most messages arrive with their head and are decided at the first poll, so they need
            // no timer.
            match std::future::poll_fn(|context| Poll::Ready(response.as_mut().poll(context))).await
            {
                Poll::Ready(Ok(response)) => response,
                Poll::Pending => self.wait_for_response(response).await,
            }
        }
    }

    /// The status `UNAVAILABLE`, which Envoy's outlier detection counts like a 503, so that it turns
    /// to other replicas. `RESOURCE_EXHAUSTED` would count as a success there. For the request
    /// itself both have the same effect: `failure_mode_deny` decides.
    fn overloaded_response(&self) -> Response<Body> {
        Status::unavailable(
            "too many requests in flight; try another replica, or retry in a second",
        )
        .into_http()
    }
}
