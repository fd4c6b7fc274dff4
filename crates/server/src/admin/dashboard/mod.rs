//! The dashboard: a page that shows what the counters say, as it happens.
//!
//! Once a second the counters become a *sample* (`sample`), which is kept for a while and sent to
//! whoever has the page open (`hub`, `stream`), together with how the service is at that moment
//! (`now`). The page itself (`files`) knows nothing of the service; it gets everything from here
//! and from the rest of the admin port. Decisions never wait for any of this: they count as they
//! always do, and only here the counts are looked at.

mod files;
mod hub;
mod now;
mod sample;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use parking_lot::Mutex;
use tollgate::Micros;

pub(super) use self::files::find as file;
use self::hub::Hub;
use self::now::State;
pub(super) use self::stream::AdminBody;
use crate::http::ApiError;
use crate::listen::{ShutdownPhase, ShutdownSignal};
use crate::serve::Service;

/// How often the counters are looked at.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// How often the state of the service is looked at while the page is open, so that whoever has it
/// open hears of an outage at once.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The look that comes nearest to a second after the last sample makes the next.
const DUE_AFTER: Micros = Micros::from_millis(900);
/// After so many samples, those who are refused most are counted anew.
const SAMPLES_PER_SPAN: u64 = 60;

/// Proxies such as nginx would keep events until they have a buffer full of them.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// What the page is told, and who has it open.
#[derive(Debug, Default)]
pub(crate) struct Dashboard {
    hub: Hub,
    seen: Mutex<Seen>,
}

/// What the last look saw.
#[derive(Debug, Default)]
struct Seen {
    samples: u64,
    sampled_at: Micros,
    state: Option<State>,
}

/// Looks at the service until it stops, then sends everyone away, so that nobody keeps it from
/// ending.
pub(crate) async fn watch(service: Arc<Service>, mut stop: ShutdownSignal) {
    loop {
        service.dashboard.look(&service);
        let pause = if service.dashboard.hub.has_viewers() {
            LOOK_EVERY
        } else {
            SAMPLE_EVERY
        };
        tokio::select! {
            () = stop.wait_for(ShutdownPhase::Draining) => break,
            () = tokio::time::sleep(pause) => {}
        }
    }
    service.dashboard.hub.close();
    service.gate.metrics().denied_keys().watch(false);
}

/// Everything that happened of late, and then everything as it happens.
pub(super) fn events(service: &Service) -> Result<Response<AdminBody>, ApiError> {
    let now = now::event(service);
    let joined = service
        .dashboard
        .hub
        .join(now, || service.gate.metrics().denied_keys().watch(true));
    let mut response = Response::new(AdminBody::Events(joined?));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

impl Dashboard {
    fn look(&self, service: &Service) {
        let now = service.gate.now();
        let mut seen = self.seen.lock();
        let state = State::of(service);
        let has_changed = seen.state.as_ref() != Some(&state);
        let is_reloaded = seen
            .state
            .as_ref()
            .is_none_or(|before| before.reloads != state.reloads);
        // A clock that was set back does not stop the samples.
        let is_due = now < seen.sampled_at || now.since(seen.sampled_at) >= DUE_AFTER;
        let begins_span = is_due && seen.samples.is_multiple_of(SAMPLES_PER_SPAN);
        if is_due {
            seen.samples += 1;
            seen.sampled_at = now;
        }
        seen.state = Some(state);
        drop(seen);

        let refused = service.gate.metrics().denied_keys();
        if is_reloaded {
            // Keys are shown by the recipes in force, so those of others are not kept.
            refused.clear();
        } else if begins_span {
            refused.rotate();
        }
        let reading = (is_due || is_reloaded).then(|| sample::Reading::of(service));
        // Nobody pays for words that nobody reads.
        let now = ((is_due || has_changed) && self.hub.has_viewers()).then(|| now::event(service));
        self.hub
            .tell(reading.as_ref(), now.as_ref(), |has_viewers| {
                refused.watch(has_viewers)
            });
    }
}
