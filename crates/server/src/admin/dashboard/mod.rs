//! The dashboard: a page that shows the decision counters live.
//!
//! Once a second the counters become a *sample* (`sample`). Samples are kept for some minutes and
//! sent to every open page (`hub`), together with the state of the service (`status_event`). The
//! page (`files`) gets everything it shows from this stream and from the admin API. Decisions never
//! wait for the dashboard: they increment the counters in any case, and the dashboard only reads
//! them.

mod files;
mod hub;
mod sample;
mod status_event;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use tollgate::Micros;
use tollgate_gate::api::ApiError;

pub(super) use self::files::find as file;
use self::hub::EventHub;
use self::sample::CounterSnapshot;
use self::status_event::WatchedState;
use crate::listen::{ClientConnection, InFlightRequest, ShutdownSignal};
use crate::service::Service;

/// The time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// The time between two polls while a page is open, so that it shows an outage quickly.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// A poll takes a sample if the last one is at least this old: the poll nearest to one second.
const SAMPLE_AGE_MIN: Micros = Micros::from_millis(900);

/// Tells proxies such as nginx not to buffer the event stream.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The events of a viewer.
pub(super) type EventStream = UnsyncBoxBody<Bytes, Infallible>;

/// The dashboard of a service, and its viewers.
#[derive(Debug)]
pub(super) struct Dashboard {
    service: Arc<Service>,
    hub: EventHub,
}

/// The result of the last poll.
#[derive(Debug, Default)]
struct LastPoll {
    sampled_at: Micros,
    state: Option<WatchedState>,
}

impl Dashboard {
    pub(super) fn new(service: Arc<Service>) -> Self {
        Self {
            service,
            hub: EventHub::default(),
        }
    }

    /// Polls the service until it shuts down, then disconnects all viewers, because an open event
    /// stream would delay the shutdown.
    pub(super) async fn watch(&self, mut shutdown: ShutdownSignal) {
        let mut last = LastPoll::default();
        loop {
            self.poll(&mut last);

            let interval = if self.hub.has_viewers() {
                POLL_INTERVAL
            } else {
                SAMPLE_INTERVAL
            };
            if !shutdown.pause(interval).await {
                return self.hub.close();
            }
        }
    }

    /// The event stream: the history, then every event as it happens.
    pub(super) fn events(
        &self,
        viewer: &Arc<ClientConnection>,
    ) -> Result<Response<EventStream>, ApiError> {
        let events = self.hub.join(status_event::encode(&self.service))?;
        // The connection counts as in use until the stream ends.
        let in_flight = InFlightRequest::new(viewer.clone());
        let events = events.map_frame(move |frame| {
            let _in_use = &in_flight;
            frame
        });
        let mut response = Response::new(events.boxed_unsync());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
        Ok(response)
    }

    fn poll(&self, last: &mut LastPoll) {
        let service = &*self.service;
        let now = service.gate.now();
        let state = WatchedState::new(service);
        let before = last.state.replace(state);
        let has_changed = before != Some(state);
        let is_reloaded = before.is_none_or(|before| before.reloads != state.reloads);

        // A clock that was set back must not stop the samples.
        let is_due = now < last.sampled_at || now.since(last.sampled_at) >= SAMPLE_AGE_MIN;
        if is_due {
            last.sampled_at = now;
        }

        let snapshot = (is_due || is_reloaded).then(|| CounterSnapshot::new(&service.gate));
        // Without viewers, the status is not encoded.
        let is_news = (is_due || has_changed) && self.hub.has_viewers();
        let status = is_news.then(|| status_event::encode(service));
        self.hub.publish(snapshot.as_ref(), status.as_ref());
    }
}
