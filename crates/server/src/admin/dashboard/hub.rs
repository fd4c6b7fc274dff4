//! The event streams of open dashboards, and the history that a new one receives.
//!
//! The hub keeps the samples of the last minutes as encoded events, and a bounded queue for each
//! viewer. A viewer that reads too slowly is disconnected; it reconnects and receives the history
//! again. The hub never waits for a viewer.

use std::collections::VecDeque;

use hyper::body::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::sample::{CounterSnapshot, Sampler};
use super::stream::EventStream;
use crate::http::ApiError;

/// The most viewers connected at the same time.
pub(super) const VIEWERS_MAX: usize = 16;
/// The most events queued for a viewer: several seconds of them.
const QUEUE_MAX: usize = 16;
/// The most samples in the history: fifteen minutes of them.
const SAMPLES_MAX: usize = 900;
/// The most bytes of samples in the history: fifteen minutes of 200 busy limits.
const BYTES_MAX: usize = 8 << 20;

/// Sends events to all viewers.
#[derive(Debug, Default)]
pub(super) struct EventHub(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sampler: Sampler,
    history: SampleHistory,
    viewers: Vec<mpsc::Sender<Bytes>>,
    is_closed: bool,
}

/// The samples of the last minutes, oldest first.
#[derive(Debug, Default)]
struct SampleHistory {
    samples: VecDeque<Bytes>,
    /// The size of all samples together.
    bytes: usize,
}

impl EventHub {
    pub(super) fn has_viewers(&self) -> bool {
        !self.0.lock().viewers.is_empty()
    }

    /// Adds a viewer. Its stream begins with the limits, the history and `status`. `on_join` is
    /// called under the hub's lock, so before any further event.
    pub(super) fn join(
        &self,
        status: Bytes,
        on_join: impl FnOnce(),
    ) -> Result<EventStream, ApiError> {
        let mut state = self.0.lock();

        if state.is_closed {
            return Err(ApiError::unavailable(
                "shutting-down",
                "the service is shutting down",
            ));
        }
        if state.viewers.len() >= VIEWERS_MAX {
            let detail = format!(
                "too many open dashboards: at most {VIEWERS_MAX} are allowed; close one of them"
            );
            return Err(ApiError::unavailable("too-many-viewers", detail));
        }

        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        state.viewers.push(sender);
        on_join();

        let mut backlog = Vec::with_capacity(state.history.samples.len() + 2);
        backlog.push(state.sampler.limits_event());
        backlog.extend(state.history.samples.iter().cloned());
        backlog.push(status);
        Ok(EventStream::new(backlog, receiver))
    }

    /// Turns `snapshot` into a sample, adds it to the history, and sends it to all viewers,
    /// followed by `status`. If the limits have changed, a `limits` event goes first. `on_sent` is
    /// called under the hub's lock, before another viewer can join, with whether any is left.
    pub(super) fn publish(
        &self,
        snapshot: Option<&CounterSnapshot>,
        status: Option<&Bytes>,
        on_sent: impl FnOnce(bool),
    ) {
        let mut state = self.0.lock();
        let State {
            sampler,
            history,
            viewers,
            ..
        } = &mut *state;

        let (limits, sample) = snapshot.map(|snapshot| sampler.sample(snapshot)).unzip();
        for event in limits.flatten().iter().chain(&sample).chain(status) {
            // Sending fails for a viewer that has gone and for one whose queue is full.
            viewers.retain(|viewer| viewer.try_send(event.clone()).is_ok());
        }

        if let Some(sample) = sample {
            history.push(sample);
        }
        on_sent(!viewers.is_empty());
    }

    /// Disconnects all viewers and accepts no more.
    pub(super) fn close(&self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        state.viewers.clear();
    }
}

impl SampleHistory {
    /// Appends a sample, and drops the oldest ones that exceed a bound.
    fn push(&mut self, sample: Bytes) {
        self.bytes += sample.len();
        self.samples.push_back(sample);

        while self.samples.len() > SAMPLES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.samples.pop_front() else {
                return;
            };
            self.bytes -= oldest.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_is_bounded_in_samples_and_in_bytes() {
        let mut history = SampleHistory::default();
        (0..2 * SAMPLES_MAX).for_each(|_| history.push(Bytes::from_static(b"short")));
        assert_eq!(
            (history.samples.len(), history.bytes),
            (SAMPLES_MAX, 5 * SAMPLES_MAX)
        );
        let long = Bytes::from(vec![b' '; BYTES_MAX / 4]);
        (0..20).for_each(|_| history.push(long.clone()));
        assert_eq!((history.samples.len(), history.bytes), (4, BYTES_MAX));
    }

    #[test]
    fn a_slow_viewer_is_disconnected_and_others_stay() {
        let hub = EventHub::default();
        let slow = hub.join(Bytes::new(), || ()).expect("there is room");
        for _ in 0..QUEUE_MAX {
            hub.publish(None, Some(&Bytes::from_static(b"x")), |_| ());
        }
        let _other = hub.join(Bytes::new(), || ()).expect("there is room");
        hub.publish(None, Some(&Bytes::from_static(b"x")), |_| ());
        assert_eq!(hub.0.lock().viewers.len(), 1);
        drop(slow);
    }

    #[test]
    fn viewers_are_bounded_and_rejected_after_close() {
        let hub = EventHub::default();
        let open: Vec<_> = (0..VIEWERS_MAX)
            .map(|_| hub.join(Bytes::new(), || ()).expect("room"))
            .collect();
        let code = |hub: &EventHub| {
            hub.join(Bytes::new(), || ())
                .map_err(|error| error.code)
                .err()
        };
        assert_eq!(code(&hub), Some("too-many-viewers"));

        drop(open);
        hub.publish(None, Some(&Bytes::new()), |has_viewers| {
            assert!(!has_viewers);
        });
        assert!(!hub.has_viewers());

        hub.close();
        assert_eq!(code(&hub), Some("shutting-down"));
    }
}
