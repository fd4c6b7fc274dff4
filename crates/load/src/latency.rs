//! Latencies in constant memory.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longer latencies are recorded as one hour.
const LATENCY_MAX_US: u64 = 3_600_000_000;

/// A histogram of latencies in microseconds, with this number of significant digits. Its size is
/// fixed.
///
/// # Panics
///
/// Panics if `digits` is greater than 5.
pub fn latency_histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_US, digits).expect("the bounds are valid")
}

/// Latency percentiles in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LatencySummary {
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Maximum.
    pub max: u64,
    /// Mean.
    pub mean: f64,
}

impl LatencySummary {
    /// The percentiles of a histogram. `None` if it is empty.
    pub fn from_histogram(latencies: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| latencies.value_at_quantile(quantile);
        (!latencies.is_empty()).then(|| Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: latencies.max(),
            mean: latencies.mean(),
        })
    }
}
