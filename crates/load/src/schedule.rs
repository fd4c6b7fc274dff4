//! When requests are due. The schedule does not depend on responses.
//!
//! The expected number of requests up to a time follows a curve: a ramp, then a line. Constant
//! arrivals are due where the curve reaches 0, 1, 2 and so on. Poisson arrivals are due where it
//! reaches numbers with exponentially distributed gaps. For bursts, the times are then moved
//! towards the window edges.

use std::time::Duration;

use fastrand::Rng;

/// How arrivals are spread over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Evenly spaced.
    #[default]
    Constant,
    /// A Poisson process, as with many independent clients.
    Poisson,
}

/// When requests are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadSchedule {
    /// Requests per second; must be above 0.
    pub rate_per_s: f64,
    /// How long to send requests.
    pub duration: Duration,
    /// How long the rate takes to rise linearly from 0 to the full rate.
    pub ramp: Duration,
    /// How arrivals are spread.
    pub arrivals: Arrivals,
    /// If set, all requests arrive in bursts around the edges of windows of this length, at the
    /// same average rate. Windows are aligned to the Unix epoch, as calendar and sliding windows
    /// are.
    pub burst_window: Option<Duration>,
}

/// The maximum distance of a burst from its edge in seconds. A tenth of the window if that is less.
const BURST_REACH_MAX_S: f64 = 0.1;

impl LoadSchedule {
    /// Evenly spaced requests at a constant rate.
    pub const fn constant(rate_per_s: f64, duration: Duration) -> Self {
        Self {
            rate_per_s,
            duration,
            ramp: Duration::ZERO,
            arrivals: Arrivals::Constant,
            burst_window: None,
        }
    }

    /// The times at which requests are due, in order, for a load that starts at `epoch`, the time
    /// since the Unix epoch.
    pub(crate) fn times_us(self, mut random: Rng, epoch: Duration) -> impl Iterator<Item = u64> {
        let end_s = self.duration.as_secs_f64();

        let mut number = 0.0;
        let nominal = std::iter::from_fn(move || {
            let at_s = self.time_s_of(number);
            number += match self.arrivals {
                Arrivals::Constant => 1.0,
                Arrivals::Poisson => -(1.0 - random.f64()).ln(),
            };
            (at_s < end_s).then_some(at_s)
        });

        let moved = nominal.map(move |at_s| {
            self.burst_window
                .map_or(at_s, |window| move_to_edge(at_s, window, epoch))
        });
        moved.take_while(move |at_s| *at_s < end_s).map(micros)
    }

    /// The time at which the curve reaches this number of requests.
    fn time_s_of(&self, number: f64) -> f64 {
        let ramp_s = self.ramp.as_secs_f64();
        let in_ramp = self.rate_per_s * ramp_s / 2.0;
        if number < in_ramp {
            (2.0 * ramp_s * number / self.rate_per_s).sqrt()
        } else {
            ramp_s + (number - in_ramp) / self.rate_per_s
        }
    }
}

/// Moves a time towards the nearest window edge. The order of times is preserved.
fn move_to_edge(at_s: f64, window: Duration, epoch: Duration) -> f64 {
    let window_s = window.as_secs_f64();
    let into_s = Duration::from_nanos(nanos(epoch) % nanos(window).max(1)).as_secs_f64();
    let edge_s = ((at_s + into_s) / window_s).round() * window_s - into_s;
    let reach_s = BURST_REACH_MAX_S.min(window_s / 10.0);
    (edge_s + (at_s - edge_s) / window_s * 2.0 * reach_s).max(0.0)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn micros(at_s: f64) -> u64 {
    Duration::try_from_secs_f64(at_s).map_or(u64::MAX, crate::clock::micros)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pace(rate_per_s: f64, seconds: u64) -> LoadSchedule {
        LoadSchedule::constant(rate_per_s, Duration::from_secs(seconds))
    }

    fn times(pace: LoadSchedule) -> Vec<u64> {
        times_since(pace, Duration::ZERO)
    }

    /// How many requests are due in all.
    fn expected(pace: LoadSchedule) -> f64 {
        let (ramp_s, end_s) = (pace.ramp.as_secs_f64(), pace.duration.as_secs_f64());
        let ramped_s = ramp_s.min(end_s);
        let slope = if ramp_s > 0.0 { ramped_s / ramp_s } else { 0.0 };
        pace.rate_per_s * (slope * ramped_s / 2.0 + (end_s - ramped_s))
    }

    fn times_since(pace: LoadSchedule, epoch: Duration) -> Vec<u64> {
        pace.times_us(fastrand::Rng::with_seed(11), epoch).collect()
    }

    #[test]
    fn a_constant_rate_has_equal_distances() {
        assert_eq!(times(pace(4.0, 1)), [0, 250_000, 500_000, 750_000]);
        assert_eq!(times(pace(0.5, 5)), [0, 2_000_000, 4_000_000]);
        assert_eq!(times(pace(50_000.0, 2)).len(), 100_000);
    }

    #[test]
    fn a_ramp_reaches_the_rate_at_its_end() {
        let ramped = LoadSchedule {
            ramp: Duration::from_secs(2),
            ..pace(1_000.0, 4)
        };
        let times = times(ramped);
        let between =
            |from: u64, to: u64| times.iter().filter(|at| (from..to).contains(*at)).count();
        assert_eq!(times.len(), 3_000);
        assert!((expected(ramped) - 3_000.0).abs() < 1e-6);
        assert_eq!(
            [
                between(0, 1_000_000),
                between(1_000_000, 2_000_000),
                between(2_000_000, 3_000_000)
            ],
            [250, 750, 1_000]
        );
    }

    /// The mean distance, and as many short distances as an exponential distribution has.
    #[test]
    fn poisson_is_memoryless() {
        let times = times(LoadSchedule {
            arrivals: Arrivals::Poisson,
            ..pace(10_000.0, 20)
        });
        let count = f64::from(u32::try_from(times.len()).unwrap());
        assert!(
            (count - 200_000.0).abs() < 5.0 * 200_000_f64.sqrt(),
            "{count}"
        );
        let below = |us: u64| {
            times
                .windows(2)
                .filter(|pair| pair[1] - pair[0] < us)
                .count()
        };
        let share = |us| f64::from(u32::try_from(below(us)).unwrap()) / count;
        assert!(
            (share(100) - 0.632).abs() < 0.01 && (share(50) - 0.393).abs() < 0.01,
            "{} {}",
            share(100),
            share(50)
        );
    }

    #[test]
    fn bursts_come_around_edges_and_nowhere_else() {
        // 0.7 s before an edge.
        let epoch = Duration::from_millis(1_794_766_681_300);
        let bursts = times_since(
            LoadSchedule {
                burst_window: Some(Duration::from_secs(2)),
                ..pace(100.0, 10)
            },
            epoch,
        );
        let distance = |at: &u64| {
            let into = (at + 2_000_000 - 700_000) % 2_000_000;
            into.min(2_000_000 - into)
        };
        assert!(
            bursts.iter().all(|at| distance(at) <= 100_001),
            "{bursts:?}"
        );
        let around_first = bursts
            .iter()
            .filter(|at| (590_000..810_000).contains(*at))
            .count();
        assert!(
            (165..=172).contains(&around_first),
            "the load began 0.7 s before it: {around_first}"
        );
        let around_second = bursts
            .iter()
            .filter(|at| (2_500_000..2_900_000).contains(*at))
            .count();
        assert!((199..=201).contains(&around_second), "{around_second}");
    }

    proptest! {
        #[test]
        fn times_are_in_order_and_inside(
            rate in 0.1..20_000.0_f64, millis in 1..2_000u64, ramp in 0..3_000u64, poisson: bool,
            window in 1..3_000u64, epoch in 0..1_000_000u64, burst: bool,
        ) {
            let window = Duration::from_millis(window);
            let burst_window = burst.then_some(window);
            let arrivals = if poisson { Arrivals::Poisson } else { Arrivals::Constant };
            let duration = Duration::from_millis(millis);
            let pace = LoadSchedule { rate_per_s: rate, duration, ramp: Duration::from_millis(ramp), arrivals, burst_window };
            let times = times_since(pace, Duration::from_micros(epoch));
            prop_assert!(times.is_sorted());
            prop_assert!(times.iter().all(|at| *at <= millis * 1_000));
            if !poisson && !burst {
                let count = f64::from(u32::try_from(times.len()).unwrap());
                prop_assert!((count - expected(pace)).abs() <= 1.0, "{} {}", count, expected(pace));
            }
        }
    }
}
