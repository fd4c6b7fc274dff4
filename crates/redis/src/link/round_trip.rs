//! How long calls to a server take.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// With every reply, the estimate falls by this part of itself.
const DECAY: u64 = 8;

/// An estimate of the time from sending a call to its reply: the longest of the recent round trips.
/// It rises at once and falls slowly, because a caller that expects too little misses its deadline.
pub(crate) struct RoundTrip {
    micros: AtomicU64,
}

impl RoundTrip {
    /// An estimate until the first reply.
    pub(super) fn new(initial: Duration) -> Self {
        Self {
            micros: AtomicU64::new(whole_micros(initial)),
        }
    }

    pub(crate) fn estimate(&self) -> Duration {
        Duration::from_micros(self.micros.load(Relaxed))
    }

    /// Records a round trip. Only the task of the link does.
    pub(super) fn record(&self, elapsed: Duration) {
        let estimate = self.micros.load(Relaxed);
        let decayed = estimate - estimate.div_ceil(DECAY);
        self.micros
            .store(whole_micros(elapsed).max(decayed), Relaxed);
    }
}

fn whole_micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_rises_at_once_and_falls_slowly() {
        let round_trip = RoundTrip::new(Duration::from_millis(5));
        assert_eq!(round_trip.estimate(), Duration::from_millis(5));

        round_trip.record(Duration::from_millis(8));
        assert_eq!(round_trip.estimate(), Duration::from_millis(8));
        round_trip.record(Duration::from_millis(1));
        assert_eq!(round_trip.estimate(), Duration::from_millis(7));

        (0..40).for_each(|_| round_trip.record(Duration::from_millis(1)));
        assert_eq!(round_trip.estimate(), Duration::from_millis(1));
    }
}
