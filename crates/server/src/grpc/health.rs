//! The gRPC health service: SERVING from the start, because the service can decide by failure
//! policy while the store is unavailable; `NOT_SERVING` once it shuts down.

use tollgate_envoy::{HealthReporter, ServingStatus};

use crate::listen::{ShutdownPhase, ShutdownSignal};

/// The names that clients check: the whole server, and its services.
const NAMES: [&str; 3] = [
    "",
    "envoy.service.ratelimit.v3.RateLimitService",
    "kuadrant.service.ratelimit.v1.RateLimitService",
];

/// Reports the status of the gRPC service.
#[derive(Debug)]
pub(super) struct GrpcHealth(HealthReporter);

impl GrpcHealth {
    pub(super) async fn serving() -> Self {
        let health = Self(HealthReporter::new());
        health.report(ServingStatus::Serving).await;
        health
    }

    pub(super) fn reporter(&self) -> HealthReporter {
        self.0.clone()
    }

    /// Reports `NOT_SERVING` when the service starts to drain. Ends the streams of `Watch` calls
    /// when it stops accepting connections: they would keep their connections open.
    pub(super) async fn follow(mut self, mut shutdown: ShutdownSignal) {
        shutdown.wait_for(ShutdownPhase::Draining).await;
        self.report(ServingStatus::NotServing).await;

        shutdown.wait_for(ShutdownPhase::Closing).await;
        for name in NAMES {
            self.0.clear_service_status(name).await;
        }
    }

    async fn report(&self, status: ServingStatus) {
        for name in NAMES {
            self.0.set_service_status(name, status).await;
        }
    }
}
