//! Health checks: whether the process is alive, and whether it should get requests.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use hyper::header::CACHE_CONTROL;
use hyper::{Response, StatusCode};

use tollgate_gate::Gate;

use super::respond::{Body, NO_STORE, json};

/// Whether the service should get requests. It is ready from the start, because it can decide by
/// failure policy while the store is unavailable; it stops being ready when it shuts down.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    is_draining: AtomicBool,
}

impl Readiness {
    pub(crate) fn start_draining(&self) {
        self.is_draining.store(true, Relaxed);
    }

    pub(crate) fn is_ready(&self) -> bool {
        !self.is_draining.load(Relaxed)
    }

    /// The response to `/readyz`.
    pub(crate) fn response(&self, gate: &Gate) -> Response<Body> {
        let degraded = gate.health().degraded;
        let ready = self.is_ready();
        let status = if ready {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };

        uncached(json(
            status,
            format!(r#"{{"ready":{ready},"degraded":{degraded}}}"#),
        ))
    }
}

/// The response to `/healthz`.
pub(crate) fn alive() -> Response<Body> {
    uncached(json(StatusCode::OK, r#"{"alive":true}"#))
}

fn uncached(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response
}
