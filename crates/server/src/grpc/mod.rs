//! The gRPC port: Envoy's rate limit service, with health and reflection beside it.
//!
//! Each request goes four steps: decode (`descriptor`), select (`plan`, `overrides`), spend
//! (`decide`), encode (`encode`). What cannot be decided is a gRPC status or a refusal, and which
//! of the two is chosen in `fault` alone. Knows nothing of connections, and nothing of HTTP but the
//! header fields that Envoy is asked to pass on.

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
use tollgate_envoy::{Answer, Services};

use self::health::Health;
use self::rate_limit::Decider;
use crate::gate::Gate;
use crate::listen::{self, Front, ListenProtocol, ServerLoad, ShutdownSignal};

/// Serves the gRPC port until the service has left.
pub(crate) async fn run(
    listener: TcpListener,
    gate: Arc<Gate>,
    load: Arc<ServerLoad>,
    stop: ShutdownSignal,
) {
    let health = Health::serving().await;
    let front = Arc::new(GrpcFront::new(gate, &health));
    let serving = listen::run(listener, ListenProtocol::Http2, front, load, stop.clone());
    tokio::join!(serving, health.until_the_end(stop));
}

/// Answers the requests of the gRPC port.
#[derive(Debug)]
struct GrpcFront {
    gate: Arc<Gate>,
    services: Services<Decider>,
}

impl GrpcFront {
    fn new(gate: Arc<Gate>, health: &Health) -> Self {
        let services = Services::new(Decider::new(gate.clone()), health.reporter());
        Self { gate, services }
    }

    /// The answer, if it is there as soon as the server's patience with a slow client ends.
    async fn in_time(&self, answer: Answer) -> Response<Body> {
        let patience = self.gate.active().config.server.header_timeout;
        match Box::pin(tokio::time::timeout(patience, answer)).await {
            Ok(Ok(response)) => response,
            Err(_) => {
                Status::deadline_exceeded(format!("the message did not arrive within {patience:?}"))
                    .into_http()
            }
        }
    }
}

impl Front for GrpcFront {
    type Body = Body;

    fn answer(
        &self,
        request: Request<Incoming>,
        _peer: SocketAddr,
    ) -> impl Future<Output = Response<Body>> + Send {
        // Begun here, so that what is waited for does not hold the request a second time.
        let mut answer = self.services.answer(request);
        async move {
            // Most messages came with their head and are decided at once, so they need no timer.
            match std::future::poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await {
                Poll::Ready(Ok(response)) => response,
                Poll::Pending => self.in_time(answer).await,
            }
        }
    }

    /// `UNAVAILABLE`, because to Envoy that is a server in trouble: it counts in outlier detection
    /// as 503 does, so that other replicas are asked, where `RESOURCE_EXHAUSTED` would count as an
    /// answer. The request itself fares the same by both: `failure_mode_deny` decides.
    fn shed(&self) -> Response<Body> {
        Status::unavailable(
            "as many requests are being answered as may; ask another replica, or again in a second",
        )
        .into_http()
    }
}
