//! Latencies of decisions. All samples of a round are kept: a round is short, and a rank among all
//! samples is exact.

use std::time::Duration;

/// The most samples that a round keeps, over all callers: a few megabytes, and more than a round
/// has.
const SAMPLES_MAX: usize = 1 << 20;

/// The latencies that one caller measured, in nanoseconds. The capacity is fixed, because growing
/// would take time.
#[derive(Debug)]
pub(crate) struct Samples(Vec<u32>);

impl Samples {
    /// Samples of all callers together, from the whole microseconds that a load generator records.
    pub(crate) fn from_us(samples_us: impl Iterator<Item = u64>) -> Self {
        let ns = |us: u64| u32::try_from(us.saturating_mul(1_000)).unwrap_or(u32::MAX);
        Self(samples_us.take(SAMPLES_MAX).map(ns).collect())
    }

    /// Samples for one of `callers` callers.
    pub(crate) fn for_one_of(callers: usize) -> Self {
        Self(Vec::with_capacity(SAMPLES_MAX / callers.max(1)))
    }

    /// Adds a sample while there is room.
    #[inline]
    pub(crate) fn push(&mut self, took: Duration) {
        if self.0.len() < self.0.capacity() {
            // Durations over four seconds are recorded as the maximum.
            self.0
                .push(u32::try_from(took.as_nanos()).unwrap_or(u32::MAX));
        }
    }
}

/// Percentiles of a round's samples, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Percentiles {
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

impl Percentiles {
    pub(crate) fn from_samples(samples: &[Samples]) -> Self {
        let mut all: Vec<u32> = samples
            .iter()
            .flat_map(|samples| &samples.0)
            .copied()
            .collect();
        all.sort_unstable();
        let at = |percent: usize| {
            nearest_rank(&all, percent * 10).map_or(f64::NAN, |ns| f64::from(ns) / 1e3)
        };
        Self {
            p50_us: at(50),
            p99_us: at(99),
        }
    }
}

/// The smallest sample that is not exceeded by `per_mille` of a thousand samples.
pub(crate) fn nearest_rank<T: Copy>(sorted: &[T], per_mille: usize) -> Option<T> {
    let rank = (sorted.len() * per_mille).div_ceil(1_000);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_all_callers_together() {
        let mut callers = [Samples::for_one_of(2), Samples::for_one_of(2)];
        for us in 1..=50 {
            callers[0].push(Duration::from_micros(us));
            callers[1].push(Duration::from_micros(101 - us));
        }
        assert_eq!(
            Percentiles::from_samples(&callers),
            Percentiles {
                p50_us: 50.0,
                p99_us: 99.0
            }
        );
    }

    #[test]
    fn few_samples_have_percentiles_too() {
        assert_eq!(nearest_rank::<u32>(&[], 500), None);
        assert_eq!(nearest_rank(&[7], 999), Some(7));
        assert_eq!(nearest_rank(&[1, 2, 3], 500), Some(2));
        assert_eq!(nearest_rank(&[1, 2, 3, 4], 500), Some(2));
    }

    #[test]
    fn memory_is_bounded() {
        let mut samples = Samples::for_one_of(SAMPLES_MAX / 4);
        (0..100).for_each(|_| samples.push(Duration::from_secs(9)));
        assert!(samples.0.len() < 100, "{}", samples.0.len());
        assert_eq!(samples.0.first(), Some(&u32::MAX));
    }
}
