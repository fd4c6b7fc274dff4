//! `Server-Timing`: where the time of a request went, if the client asks for it.

use std::fmt::Write as _;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use tollgate::Micros;
use tollgate_gate::Gate;

/// The header with which a client asks, whatever its value.
const REQUESTED: HeaderName = HeaderName::from_static("x-tollgate-timing");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// Measures the steps of a request.
#[derive(Debug)]
pub(super) struct ServerTiming<'g> {
    gate: &'g Gate,
    /// When the current step began, and the steps so far. None if the client did not ask.
    steps: Option<(Micros, String)>,
}

impl<'g> ServerTiming<'g> {
    /// Starts the first step.
    pub(super) fn start(gate: &'g Gate, headers: &HeaderMap) -> Self {
        let is_requested = headers.contains_key(REQUESTED);
        Self {
            gate,
            steps: is_requested.then(|| (gate.now(), String::new())),
        }
    }

    /// Ends a step and starts the next one.
    pub(super) fn end_step(&mut self, name: &str) {
        let Some((began, steps)) = &mut self.steps else {
            return;
        };

        let now = self.gate.now();
        let micros = now.since(*began).get();
        let separator = if steps.is_empty() { "" } else { ", " };
        let (millis, rest) = (micros / 1_000, micros % 1_000);
        write!(steps, "{separator}{name};dur={millis}.{rest:03}")
            .expect("writing to a string never fails");
        *began = now;
    }

    /// Adds the header, if the client asked for it.
    pub(super) fn add_to(self, headers: &mut HeaderMap) {
        let steps = self.steps.map(|(_, steps)| HeaderValue::try_from(steps));
        if let Some(Ok(steps)) = steps {
            headers.insert(SERVER_TIMING, steps);
        }
    }
}
