//! How long decisions took, as counts of those up to certain lengths.

use prometheus::core::Collector as _;
use prometheus::{Histogram, HistogramOpts};
use tollgate::Micros;

use super::page::{MetricsPage, exact};

/// Upper bounds of the decision times, in seconds: from memory's to a store's that is barely there,
/// then in long strides up to the longest time that an alert can be about.
const SECONDS: [f64; 18] = [
    2e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 0.1, 0.5,
    2.5, 10.0, 60.0,
];

/// Counts decisions by how long they took.
#[derive(Debug)]
pub(super) struct DurationHistogram(Histogram);

/// How many decisions took up to each length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DurationBuckets {
    /// For each length of [`SECONDS`]; those that took less are in each.
    up_to: Vec<u64>,
    total: u64,
}

impl DurationHistogram {
    pub(super) fn new() -> Self {
        let options = HistogramOpts::new(
            "decision_duration_seconds",
            "How long decisions took, in seconds",
        );
        let histogram = Histogram::with_opts(options.buckets(SECONDS.to_vec()));
        Self(histogram.expect("the name is one and the steps are in order"))
    }

    pub(super) fn count(&self, took: Micros) {
        self.0.observe(super::page::seconds(took));
    }

    pub(super) fn write(&self, page: &mut MetricsPage) {
        page.add(self.0.collect());
    }

    /// The counts so far.
    pub(super) fn so_far(&self) -> DurationBuckets {
        let families = self.0.collect();
        let Some(metric) = families
            .first()
            .and_then(|family| family.get_metric().first())
        else {
            return DurationBuckets::default();
        };
        let histogram = metric.get_histogram();
        let buckets = histogram.get_bucket().iter().take(SECONDS.len());
        DurationBuckets {
            up_to: buckets
                .map(prometheus::proto::Bucket::cumulative_count)
                .collect(),
            total: histogram.get_sample_count(),
        }
    }
}

impl DurationBuckets {
    /// Decisions in all.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    /// What came after `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let before = earlier.up_to.iter().copied().chain(std::iter::repeat(0));
        let up_to = self
            .up_to
            .iter()
            .zip(before)
            .map(|(now, before)| now.saturating_sub(before))
            .collect();
        Self {
            up_to,
            total: self.total.saturating_sub(earlier.total),
        }
    }

    /// The time in seconds within which 99 of 100 were made.
    pub(crate) fn p99_seconds(&self) -> f64 {
        self.quantile_seconds(0.99)
    }

    /// The time in seconds within which this part of them was made, estimated inside the step it
    /// falls into. What took longer than the longest step is taken for just that long.
    pub(crate) fn quantile_seconds(&self, part: f64) -> f64 {
        let rank = exact(self.total) * part;
        let (mut lower, mut below) = (0.0, 0.0);
        for (upper, up_to) in SECONDS.iter().zip(&self.up_to) {
            let up_to = exact(*up_to);
            if up_to >= rank && up_to > below {
                return lower + (upper - lower) * (rank - below) / (up_to - below);
            }
            (lower, below) = (*upper, up_to);
        }
        lower
    }

    /// So many decisions, each of this length, for tests.
    #[cfg(test)]
    pub(crate) fn from_durations(lengths: &[(u64, std::time::Duration)]) -> Self {
        let meter = DurationHistogram::new();
        for (count, length) in lengths {
            let length = Micros::from_duration_ceil(*length).expect("a length that fits");
            (0..*count).for_each(|_| meter.count(length));
        }
        meter.so_far()
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
    fn one_in_a_hundred_does_not_move_the_99th() {
        let mostly_fast = DurationBuckets::from_durations(&[(99, millis(1)), (1, millis(80))]);
        assert!(
            mostly_fast.p99_seconds() <= 0.001,
            "{}",
            mostly_fast.p99_seconds()
        );
        let two_slow = DurationBuckets::from_durations(&[(98, millis(1)), (2, millis(80))]);
        assert!(
            (0.025..=0.1).contains(&two_slow.p99_seconds()),
            "{}",
            two_slow.p99_seconds()
        );
    }

    #[test]
    fn what_is_beyond_the_last_step_and_what_is_nothing_have_an_answer() {
        assert!(
            (DurationBuckets::from_durations(&[(5, Duration::from_secs(600))]).p99_seconds()
                - 60.0)
                .abs()
                < 1e-9
        );
        assert!(DurationBuckets::default().p99_seconds().abs() < 1e-9);
    }

    #[test]
    fn only_what_came_since_counts() {
        let before = DurationBuckets::from_durations(&[(100, millis(80))]);
        let after = DurationBuckets::from_durations(&[(100, millis(80)), (50, millis(1))]);
        assert_eq!(
            after.since(&before),
            DurationBuckets::from_durations(&[(50, millis(1))])
        );
        assert_eq!(after.since(&DurationBuckets::default()), after);
    }
}
