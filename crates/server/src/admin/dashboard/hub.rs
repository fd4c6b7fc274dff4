//! Those who have the page open, and what they missed.
//!
//! Owns the last minutes as texts that are ready to be sent, and a bounded queue for each viewer.
//! Whoever does not read fast enough is sent away and comes back to the whole story; nobody is
//! waited for.

use std::collections::VecDeque;

use hyper::body::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::sample::{Reading, Sampler};
use super::stream::Events;
use crate::http::ApiError;

/// The most viewers at once.
pub(super) const VIEWERS_MAX: usize = 16;
/// The most events that a viewer may be behind: several seconds.
const BEHIND_MAX: usize = 16;
/// How many samples are kept: fifteen minutes of them.
const SAMPLES_MAX: usize = 900;
/// The most bytes of samples that are kept: fifteen minutes of 200 busy limits.
const BYTES_MAX: usize = 8 << 20;

/// Sends what happens to whoever wants to see it.
#[derive(Debug, Default)]
pub(super) struct Hub(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sampler: Sampler,
    past: Past,
    viewers: Vec<mpsc::Sender<Bytes>>,
    is_closed: bool,
}

/// The samples of the last minutes.
#[derive(Debug, Default)]
struct Past {
    samples: VecDeque<Bytes>,
    bytes: usize,
}

impl Hub {
    pub(super) fn has_viewers(&self) -> bool {
        !self.0.lock().viewers.is_empty()
    }

    /// A viewer more, who is told the past, `now`, and then whatever happens. `joined` is called
    /// before anything can happen.
    pub(super) fn join(&self, now: Bytes, joined: impl FnOnce()) -> Result<Events, ApiError> {
        let mut state = self.0.lock();
        if state.is_closed {
            return Err(ApiError::unavailable(
                "leaving",
                "the service is leaving; its successor has a page of its own",
            ));
        }
        if state.viewers.len() >= VIEWERS_MAX {
            let detail = format!(
                "the dashboard is open {VIEWERS_MAX} times, and that is as often as it can be; close one of them"
            );
            return Err(ApiError::unavailable("too-many-viewers", detail));
        }
        let (sender, receiver) = mpsc::channel(BEHIND_MAX);
        state.viewers.push(sender);
        joined();
        let mut first = Vec::with_capacity(state.past.samples.len() + 2);
        first.push(state.sampler.limits());
        first.extend(state.past.samples.iter().cloned());
        first.push(now);
        Ok(Events::new(first, receiver))
    }

    /// Keeps what the counters say, and tells everyone; of the limits too, if they are others than
    /// before. `told` hears whether anyone is left, before another can come.
    pub(super) fn tell(
        &self,
        reading: Option<&Reading>,
        now: Option<&Bytes>,
        told: impl FnOnce(bool),
    ) {
        let mut state = self.0.lock();
        let State {
            sampler,
            past,
            viewers,
            ..
        } = &mut *state;
        let (limits, sample) = reading.map(|reading| sampler.sample(reading)).unzip();
        // First the limits, with what they had said, and then what they say since.
        for text in limits.flatten().iter().chain(&sample).chain(now) {
            // One who has gone, and one whose queue is full, are let go alike.
            viewers.retain(|viewer| viewer.try_send(text.clone()).is_ok());
        }
        if let Some(sample) = sample {
            past.keep(sample);
        }
        told(!viewers.is_empty());
    }

    /// Sends everyone away and lets nobody in any more.
    pub(super) fn close(&self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        state.viewers.clear();
    }
}

impl Past {
    fn keep(&mut self, sample: Bytes) {
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
    fn the_past_has_a_bound_in_samples_and_in_bytes() {
        let mut past = Past::default();
        (0..2 * SAMPLES_MAX).for_each(|_| past.keep(Bytes::from_static(b"short")));
        assert_eq!(
            (past.samples.len(), past.bytes),
            (SAMPLES_MAX, 5 * SAMPLES_MAX)
        );
        let long = Bytes::from(vec![b' '; BYTES_MAX / 4]);
        (0..20).for_each(|_| past.keep(long.clone()));
        assert_eq!((past.samples.len(), past.bytes), (4, BYTES_MAX));
    }

    #[test]
    fn whoever_does_not_read_is_sent_away_and_others_stay() {
        let hub = Hub::default();
        let slow = hub.join(Bytes::new(), || ()).expect("there is room");
        for _ in 0..BEHIND_MAX {
            hub.tell(None, Some(&Bytes::from_static(b"x")), |_| ());
        }
        let _other = hub.join(Bytes::new(), || ()).expect("there is room");
        hub.tell(None, Some(&Bytes::from_static(b"x")), |_| ());
        assert_eq!(hub.0.lock().viewers.len(), 1);
        drop(slow);
    }

    #[test]
    fn there_is_room_for_so_many_and_for_nobody_at_the_end() {
        let hub = Hub::default();
        let open: Vec<_> = (0..VIEWERS_MAX)
            .map(|_| hub.join(Bytes::new(), || ()).expect("room"))
            .collect();
        let code = |hub: &Hub| {
            hub.join(Bytes::new(), || ())
                .map_err(|fault| fault.code)
                .err()
        };
        assert_eq!(code(&hub), Some("too-many-viewers"));
        drop(open);
        hub.tell(None, Some(&Bytes::new()), |has_viewers| {
            assert!(!has_viewers)
        });
        assert!(!hub.has_viewers());
        hub.close();
        assert_eq!(code(&hub), Some("leaving"));
    }
}
