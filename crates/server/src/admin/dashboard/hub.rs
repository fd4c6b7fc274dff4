//! The event streams of open dashboards, and the history that a new one receives.
//!
//! The hub keeps the samples of the last minutes as encoded events, and a bounded queue for each
//! viewer. A viewer that reads too slowly is disconnected; it reconnects and receives the history
//! again. The hub never waits for a viewer.

use std::collections::VecDeque;
use std::iter::once;

use http_body_util::channel::{Channel, Sender};
use hyper::body::{Bytes, Frame};
use parking_lot::Mutex;

use tollgate_gate::api::ApiError;

use super::sample::{CounterSnapshot, Sampler};

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
pub(super) struct EventHub {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sampler: Sampler,
    history: SampleHistory,
    viewers: Vec<Sender<Bytes>>,
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
        !self.state.lock().viewers.is_empty()
    }

    /// Adds a viewer. Its stream begins with the limits, the history and `status`.
    pub(super) fn join(&self, status: Bytes) -> Result<Channel<Bytes>, ApiError> {
        let mut state = self.state.lock();

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

        let samples = state.history.samples.iter().cloned();
        let (mut viewer, stream) = Channel::new(samples.len() + 2 + QUEUE_MAX);
        for event in once(state.sampler.limits_event())
            .chain(samples)
            .chain(once(status))
        {
            // There is room for all of them.
            drop(viewer.try_send(Frame::data(event)));
        }
        state.viewers.push(viewer);
        Ok(stream)
    }

    /// Turns `snapshot` into a sample, adds it to the history, and sends it to all viewers,
    /// followed by `status`. If the limits have changed, a `limits` event goes first.
    pub(super) fn publish(&self, snapshot: Option<&CounterSnapshot>, status: Option<&Bytes>) {
        let mut state = self.state.lock();
        let State {
            sampler,
            history,
            viewers,
            ..
        } = &mut *state;

        let (limits, sample) = snapshot.map(|snapshot| sampler.sample(snapshot)).unzip();
        for event in limits.flatten().iter().chain(&sample).chain(status) {
            // Sending fails for a viewer that has gone and for one whose queue is full.
            viewers.retain_mut(|viewer| viewer.try_send(Frame::data(event.clone())).is_ok());
        }

        if let Some(sample) = sample {
            history.push(sample);
        }
    }

    /// Disconnects all viewers and accepts no more.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
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
            self.bytes -= self.samples.pop_front().map_or(0, |oldest| oldest.len());
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
        let event = Bytes::from_static(b"x");
        let slow = hub.join(Bytes::new()).expect("there is room");
        for _ in 0..QUEUE_MAX {
            hub.publish(None, Some(&event));
        }
        let _other = hub.join(Bytes::new()).expect("there is room");
        hub.publish(None, Some(&event));
        assert_eq!(hub.state.lock().viewers.len(), 1);
        drop(slow);
    }

    #[test]
    fn viewers_are_bounded_and_rejected_after_close() {
        let hub = EventHub::default();
        let open: Vec<_> = (0..VIEWERS_MAX)
            .map(|_| hub.join(Bytes::new()).expect("room"))
            .collect();
        let code = |hub: &EventHub| hub.join(Bytes::new()).map_err(|error| error.code).err();
        assert_eq!(code(&hub), Some("too-many-viewers"));

        drop(open);
        hub.publish(None, Some(&Bytes::new()));
        assert!(!hub.has_viewers());

        hub.close();
        assert_eq!(code(&hub), Some("shutting-down"));
    }
}
