//! The gRPC port: Envoy's rate limit service and Kuadrant's reservations, with health and
//! reflection.
//!
//! Each request takes four steps: decode (`descriptor`), select (`plan`, `overrides`), spend
//! (`rate_limit`, `reservation`), encode (`encode`). Whether a request that cannot be decided gets a gRPC error or
//! a denial is settled in `error` alone. Knows nothing of connections, and nothing of HTTP except
//! the header fields that Envoy is asked to add.

mod descriptor;
mod encode;
mod error;
mod health;
mod overrides;
mod plan;
mod rate_limit;
mod received_body;
mod reservation;

use std::future::{poll_fn, ready};
use std::sync::Arc;
use std::task::Poll;

use hyper::body::Incoming;
use hyper::{Request, Response};
use tokio::net::TcpListener;
use tollgate_envoy::tonic::{Code, Status, body::Body};
use tollgate_envoy::{ResponseFuture, Services};
use tollgate_gate::{AccessError, Gate};
use tollgate_rules::Permission;

use self::error::GrpcError;
use self::health::GrpcHealth;
use self::rate_limit::GrpcRateLimiter;
use self::received_body::ReceivedBody;
use crate::guard::presented_token;
use crate::listen::{
    self, ClientConnection, Front, ListenProtocol, PortLoad, PortTls, ShutdownSignal,
};

/// What the paths of health checks and reflection start with.
const PUBLIC: &str = "/grpc.";

/// The path of the health check, which is answered also while the port has too many connections.
const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";

/// Envoy's rate limit service without its port, for the fuzz targets.
///
/// # Panics
///
/// If the store cannot be opened.
#[cfg(feature = "fuzzing")]
pub fn rate_limit_service(config: tollgate_rules::Config) -> impl tollgate_envoy::RateLimitService {
    let metrics = Arc::new(tollgate_gate::metrics::Metrics::default());
    let limits = listen::ListenLimits {
        connections_max: config.server.connections_max,
        in_flight_max: config.server.in_flight_max,
        header_timeout: config.server.header_timeout,
        idle_timeout: config.server.idle_timeout,
    };
    let gate = Gate::open(config, metrics).expect("a store that can be opened");
    GrpcRateLimiter::new(Arc::new(gate), PortLoad::new("grpc", limits))
}

/// Serves the gRPC port until the shutdown is complete.
pub(crate) async fn run(
    listener: TcpListener,
    tls: Arc<PortTls>,
    gate: Arc<Gate>,
    load: Arc<PortLoad>,
    shutdown: ShutdownSignal,
) {
    let health = GrpcHealth::serving().await;
    let front = Arc::new(GrpcFront::new(gate, load.clone(), &health));

    let serving = listen::run(
        listener,
        ListenProtocol::Http2,
        tls,
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
    services: Services<GrpcRateLimiter>,
}

impl GrpcFront {
    fn new(gate: Arc<Gate>, load: Arc<PortLoad>, health: &GrpcHealth) -> Self {
        let rate_limiter = GrpcRateLimiter::new(gate.clone(), load);
        let services = Services::new(rate_limiter.clone(), health.reporter());
        let services = services.with_reservations(rate_limiter);
        Self { gate, services }
    }

    /// Requires a token for everything but health checks and reflection. Browsers cannot speak this
    /// protocol, so their pages are no danger.
    fn authorize<B>(&self, request: &Request<B>) -> Result<(), AccessError> {
        if !self.gate.requires_token() || request.uri().path().starts_with(PUBLIC) {
            return Ok(());
        }
        let token = presented_token(request.headers());
        self.gate.active().authorize(token, Permission::Check)
    }

    /// The response to a call that is not handled.
    fn refuse(&self, error: GrpcError) -> Response<Body> {
        error.count(self.gate.metrics());
        error.into_status().into_http()
    }

    /// Counts a call that did not reach a service: its method is unknown, or its message cannot be
    /// decoded. Only the response tells.
    fn count_unreadable(&self, response: &Response<Body>) {
        let Some(status) = response.headers().get(Status::GRPC_STATUS) else {
            return;
        };
        match Code::from_bytes(status.as_bytes()) {
            Code::Unimplemented => self.gate.metrics().count_error("not-found"),
            Code::Internal => self.gate.metrics().count_error("bad-message"),
            _ => {}
        }
    }

    /// Waits for the response, which takes as long as the request's message takes to arrive.
    async fn wait_for_response(&self, response: ResponseFuture) -> Response<Body> {
        let timeout = self.gate.active().config.server.header_timeout;
        match Box::pin(tokio::time::timeout(timeout, response)).await {
            Ok(Ok(response)) => response,
            Err(_) => {
                let message = format!("the message did not arrive within {timeout:?}");
                self.refuse(GrpcError::too_slow(message))
            }
        }
    }
}

impl Front for GrpcFront {
    type Body = Body;

    fn handle(
        &self,
        request: Request<Incoming>,
        connection: &Arc<ClientConnection>,
    ) -> impl Future<Output = Response<Body>> + Send {
        // Called outside the async block, so that its future does not hold the request as well.
        let is_admitted = request.uri().path() == HEALTH_CHECK || connection.admits_request();
        let refusal = if is_admitted {
            self.authorize(&request).err().map(GrpcError::from)
        } else {
            Some(GrpcError::overloaded())
        };
        let mut response = match refusal {
            None => self
                .services
                .handle(ReceivedBody::wrap(request, connection)),
            Some(error) => Box::pin(ready(Ok(self.refuse(error)))),
        };

        async move {
            // Most messages arrive with their head and are decided at the first poll, so they need
            // no timer.
            let response =
                match poll_fn(|context| Poll::Ready(response.as_mut().poll(context))).await {
                    Poll::Ready(Ok(response)) => response,
                    Poll::Pending => self.wait_for_response(response).await,
                };
            self.count_unreadable(&response);
            response
        }
    }
}
