//! What gRPC health says: SERVING from the first moment, because decisions are made from then on,
//! by policy while the store is away; `NOT_SERVING` as soon as the service is leaving.

use tollgate_envoy::{HealthReporter, ServingStatus};

use crate::listen::{ShutdownPhase, ShutdownSignal};

/// The names that health is asked about: the whole server, and its one service.
const NAMES: [&str; 2] = ["", "envoy.service.ratelimit.v3.RateLimitService"];

/// Says how the service is.
#[derive(Debug)]
pub(super) struct Health(HealthReporter);

impl Health {
    pub(super) async fn serving() -> Self {
        let health = Self(HealthReporter::new());
        health.say(ServingStatus::Serving).await;
        health
    }

    pub(super) fn reporter(&self) -> HealthReporter {
        self.0.clone()
    }

    /// Says that the service is leaving when it does, and ends the streams of those who watch when
    /// nobody new is let in: they would keep their connections open for nothing.
    pub(super) async fn until_the_end(mut self, mut stop: ShutdownSignal) {
        stop.reached(ShutdownPhase::Draining).await;
        self.say(ServingStatus::NotServing).await;
        stop.reached(ShutdownPhase::Closing).await;
        for name in NAMES {
            self.0.clear_service_status(name).await;
        }
    }

    async fn say(&self, status: ServingStatus) {
        for name in NAMES {
            self.0.set_service_status(name, status).await;
        }
    }
}
