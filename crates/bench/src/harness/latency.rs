//! Latencies of decisions, as percentiles.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::row::{Figures, float};

/// Longer latencies are recorded as ten seconds.
const LATENCY_MAX_NS: u64 = 10_000_000_000;

pub(crate) const P50: &str = "p50_us";
pub(crate) const P99: &str = "p99_us";

/// The latencies that one caller measured.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(Histogram<u32>);

impl Latencies {
    pub(crate) fn new() -> Self {
        // From 0.1 us, to three significant digits.
        Self(Histogram::new_with_bounds(100, LATENCY_MAX_NS, 3).expect("the bounds are valid"))
    }

    #[inline]
    pub(crate) fn record(&mut self, took: Duration) {
        self.0
            .saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds the latencies of another caller.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("the bounds are the same");
    }

    /// How many latencies were recorded.
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The median and the 99th percentile, in microseconds.
    pub(crate) fn percentiles(&self) -> Figures {
        let at = |quantile| float(self.0.value_at_quantile(quantile)) / 1e3;
        Figures::from([(P50, at(0.5)), (P99, at(0.99))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_all_callers_together() {
        let mut callers = [Latencies::new(), Latencies::new()];
        for us in 1..=50 {
            callers[0].record(Duration::from_micros(us));
            callers[1].record(Duration::from_micros(101 - us));
        }
        let [mut all, other] = callers;
        all.add(&other);
        let found = all.percentiles();
        assert!((found[P50] - 50.0).abs() < 0.1, "{found:?}");
        assert!((found[P99] - 99.0).abs() < 0.1, "{found:?}");
    }

    #[test]
    fn a_very_long_latency_is_the_longest() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::from_secs(90));
        assert!((latencies.percentiles()[P50] / 1e7 - 1.0).abs() < 0.1);
    }
}
