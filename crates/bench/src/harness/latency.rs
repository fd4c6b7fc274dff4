//! Latencies of decisions in nanoseconds, as percentiles.

use std::time::Duration;

use hdrhistogram::Histogram;
use tollgate_load::LatencySummary;

use super::row::{Figures, float};

pub(crate) const P50: &str = "p50_us";
pub(crate) const P99: &str = "p99_us";

#[inline]
pub(super) fn record(latencies: &mut Histogram<u64>, took: Duration) {
    latencies.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
}

/// The median and the 99th percentile, in microseconds.
pub(super) fn percentiles(latencies: &Histogram<u64>) -> Figures {
    let summary = LatencySummary::from_histogram(latencies);
    let figures = summary.map(|LatencySummary { p50, p99, .. }| [(P50, p50), (P99, p99)]);
    let figures = figures.into_iter().flatten();
    figures.map(|(name, ns)| (name, float(ns) / 1e3)).collect()
}

#[cfg(test)]
mod tests {
    use tollgate_load::latency_histogram;

    use super::*;

    #[test]
    fn percentiles_are_in_microseconds() {
        let mut latencies = latency_histogram(3);
        assert!(percentiles(&latencies).is_empty());
        (1..=100).for_each(|us| record(&mut latencies, Duration::from_micros(us)));
        let found = percentiles(&latencies);
        assert!((found[P50] - 50.0).abs() < 0.1, "{found:?}");
        assert!((found[P99] - 99.0).abs() < 0.1, "{found:?}");
    }
}
