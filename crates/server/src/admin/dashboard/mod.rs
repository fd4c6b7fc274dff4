//! The dashboard: a page that shows the decision counters live.
//!
//! Once a second the counters become a *sample* (`sample`). Samples are kept for some minutes and
//! sent to every open page (`hub`, `stream`), together with the state of the service
//! (`status_event`). The page (`files`) gets everything it shows from this stream and from the
//! admin API. Decisions never wait for the dashboard: they increment the counters in any case, and
//! the dashboard only reads them.

mod files;
mod hub;
mod sample;
mod status_event;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use parking_lot::Mutex;
use tollgate::Micros;

pub(super) use self::files::find as file;
use self::hub::EventHub;
use self::sample::CounterSnapshot;
use self::status_event::WatchedState;
pub(super) use self::stream::AdminBody;
use crate::http::ApiError;
use crate::listen::{ShutdownPhase, ShutdownSignal};
use crate::serve::Service;

/// The time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// The time between two polls while a page is open, so that it shows an outage quickly.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// A poll takes a sample if the last one is at least this old: the poll nearest to one second.
const SAMPLE_AGE_MIN: Micros = Micros::from_millis(900);
/// The number of samples after which the most denied keys are counted in a new span.
const SAMPLES_PER_SPAN: u64 = 60;

/// Tells proxies such as nginx not to buffer the event stream.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The viewers of the dashboard, and what they were last sent.
#[derive(Debug, Default)]
pub(crate) struct Dashboard {
    hub: EventHub,
    last_poll: Mutex<LastPoll>,
}

/// The result of the last poll.
#[derive(Debug, Default)]
struct LastPoll {
    /// Samples taken so far.
    samples: u64,
    sampled_at: Micros,
    state: Option<WatchedState>,
}

/// Polls the service until it shuts down, then disconnects all viewers, because an open event
/// stream would delay the shutdown.
pub(crate) async fn watch(service: Arc<Service>, mut stop: ShutdownSignal) {
    loop {
        service.dashboard.poll(&service);

        let pause = if service.dashboard.hub.has_viewers() {
            POLL_INTERVAL
        } else {
            SAMPLE_INTERVAL
        };
        tokio::select! {
            () = stop.wait_for(ShutdownPhase::Draining) => break,
            () = tokio::time::sleep(pause) => {}
        }
    }

    service.dashboard.hub.close();
    service.gate.metrics().denied_keys().watch(false);
}

/// The event stream: the history, then every event as it happens.
pub(super) fn events(service: &Service) -> Result<Response<AdminBody>, ApiError> {
    let status = status_event::encode(service);
    let stream = service
        .dashboard
        .hub
        .join(status, || service.gate.metrics().denied_keys().watch(true))?;

    let mut response = Response::new(AdminBody::Events(stream));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

impl Dashboard {
    fn poll(&self, service: &Service) {
        let now = service.gate.now();
        let mut last = self.last_poll.lock();

        let state = WatchedState::new(service);
        let has_changed = last.state.as_ref() != Some(&state);
        let is_reloaded = last
            .state
            .as_ref()
            .is_none_or(|before| before.reloads != state.reloads);

        // A clock that was set back must not stop the samples.
        let is_due = now < last.sampled_at || now.since(last.sampled_at) >= SAMPLE_AGE_MIN;
        let starts_span = is_due && last.samples.is_multiple_of(SAMPLES_PER_SPAN);
        if is_due {
            last.samples += 1;
            last.sampled_at = now;
        }
        last.state = Some(state);
        drop(last);

        let denied_keys = service.gate.metrics().denied_keys();
        if is_reloaded {
            // Keys are decoded by the key recipes of the active configuration, so keys counted
            // under the previous one are dropped.
            denied_keys.clear();
        } else if starts_span {
            denied_keys.rotate();
        }

        let snapshot = (is_due || is_reloaded).then(|| CounterSnapshot::new(service));
        // Without viewers, the status is not encoded.
        let status = ((is_due || has_changed) && self.hub.has_viewers())
            .then(|| status_event::encode(service));
        self.hub
            .publish(snapshot.as_ref(), status.as_ref(), |has_viewers| {
                denied_keys.watch(has_viewers);
            });
    }
}
