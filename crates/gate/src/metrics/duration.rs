//! The durations of decisions, as a histogram.

use prometheus::core::Collector as _;
use prometheus::proto::Bucket;
use prometheus::{Histogram, HistogramOpts};

use super::page::to_f64;

/// Upper bounds of the histogram's buckets, in seconds: fine steps from a decision in memory to one
/// by a slow store, then coarse ones up to the longest duration that an alert can be set to.
const BUCKETS_SECS: [f64; 18] = [
    2e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 0.1, 0.5,
    2.5, 10.0, 60.0,
];

/// The number of decisions in each bucket at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DurationBuckets {
    /// For each bound of [`BUCKETS_SECS`], the number of decisions up to it.
    cumulative: Vec<u64>,
    total: u64,
}

/// A histogram without decisions.
pub(super) fn new_histogram() -> Histogram {
    let options = HistogramOpts::new(
        "decision_duration_seconds",
        "Time to make a decision, in seconds",
    );
    let histogram = Histogram::with_opts(options.buckets(BUCKETS_SECS.to_vec()));
    histogram.expect("the name is valid and the bounds ascend")
}

/// The counts so far.
impl From<&Histogram> for DurationBuckets {
    fn from(histogram: &Histogram) -> Self {
        let families = histogram.collect();
        let histogram = families[0].get_metric()[0].get_histogram();
        let buckets = histogram.get_bucket().iter().take(BUCKETS_SECS.len());
        Self {
            cumulative: buckets.map(Bucket::cumulative_count).collect(),
            total: histogram.get_sample_count(),
        }
    }
}

impl DurationBuckets {
    /// The number of decisions.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The decisions made since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.cumulative.iter().chain(std::iter::repeat(&0));
        let buckets = self.cumulative.iter().zip(before);
        let cumulative = buckets.map(|(now, before)| now.saturating_sub(*before));

        Self {
            cumulative: cumulative.collect(),
            total: self.total.saturating_sub(earlier.total),
        }
    }

    /// A quantile between 0 and 1, in seconds, interpolated inside its bucket. Durations beyond the
    /// last bound count as that bound.
    pub fn quantile_seconds(&self, quantile: f64) -> f64 {
        let rank = to_f64(self.total) * quantile;

        let (mut lower, mut below) = (0.0, 0.0);
        for (upper, cumulative) in BUCKETS_SECS.iter().zip(&self.cumulative) {
            let cumulative = to_f64(*cumulative);
            if cumulative >= rank && cumulative > below {
                return lower + (upper - lower) * (rank - below) / (cumulative - below);
            }
            (lower, below) = (*upper, cumulative);
        }
        lower
    }

    /// Buckets with the given number of decisions of each duration.
    pub fn from_durations(durations: &[(u64, std::time::Duration)]) -> Self {
        let histogram = new_histogram();
        for (count, duration) in durations {
            (0..*count).for_each(|_| histogram.observe(duration.as_secs_f64()));
        }
        Self::from(&histogram)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn one_slow_decision_in_a_hundred_does_not_move_the_99th_percentile() {
        let mostly_fast = DurationBuckets::from_durations(&[(99, millis(1)), (1, millis(80))]);
        assert!(
            mostly_fast.quantile_seconds(0.99) <= 0.001,
            "{}",
            mostly_fast.quantile_seconds(0.99)
        );
        let two_slow = DurationBuckets::from_durations(&[(98, millis(1)), (2, millis(80))]);
        assert!(
            (0.025..=0.1).contains(&two_slow.quantile_seconds(0.99)),
            "{}",
            two_slow.quantile_seconds(0.99)
        );
    }

    #[test]
    fn no_decisions_and_those_beyond_the_last_bucket_have_a_percentile() {
        assert!(
            (DurationBuckets::from_durations(&[(5, Duration::from_secs(600))])
                .quantile_seconds(0.99)
                - 60.0)
                .abs()
                < 1e-9
        );
        assert!(DurationBuckets::default().quantile_seconds(0.99).abs() < 1e-9);
    }

    #[test]
    fn since_leaves_out_earlier_decisions() {
        let before = DurationBuckets::from_durations(&[(100, millis(80))]);
        let after = DurationBuckets::from_durations(&[(100, millis(80)), (50, millis(1))]);
        assert_eq!(
            after.since(&before),
            DurationBuckets::from_durations(&[(50, millis(1))])
        );
        assert_eq!(after.since(&DurationBuckets::default()), after);
    }
}
