//! Whether the process is alive, and whether it should get requests.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use hyper::header::{CACHE_CONTROL, HeaderValue};
use hyper::{Response, StatusCode};

use super::respond::{Body, json};
use crate::gate::Gate;

/// Whether requests are welcome. Decisions are made from the first moment, by policy while the
/// store is away; so what makes a server unready is that it is leaving.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    leaving: AtomicBool,
}

impl Readiness {
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Relaxed);
    }

    pub(crate) fn is_ready(&self) -> bool {
        !self.leaving.load(Relaxed)
    }

    pub(crate) fn answer(&self, gate: &Gate) -> Response<Body> {
        let degraded = gate.active().limiter.health().degraded;
        let ready = self.is_ready();
        let status = if ready {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        fresh(json(
            status,
            format!(r#"{{"ready":{ready},"degraded":{degraded}}}"#),
        ))
    }
}

pub(crate) fn alive() -> Response<Body> {
    fresh(json(StatusCode::OK, r#"{"alive":true}"#))
}

/// What was true a moment ago is of no use to whoever asks.
fn fresh(mut response: Response<Body>) -> Response<Body> {
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
