//! Measures how much the machine itself delays what is measured on it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

const INTERVAL: Duration = Duration::from_millis(1);
/// A timer may be up to two milliseconds late without any noise.
const TOLERANCE: Duration = Duration::from_millis(2);

/// Repeatedly sleeps for a millisecond, and records by how much the timer was late. It runs on the
/// same thread as the load, so a delay of the machine affects both.
#[derive(Clone, Debug)]
pub(crate) struct NoiseMeter {
    start: Instant,
    delays: Arc<Mutex<Vec<TimerDelay>>>,
}

/// A time in which the thread did not run. Times are since the start of the load.
#[derive(Clone, Copy, Debug)]
struct TimerDelay {
    from: Duration,
    to: Duration,
}

/// All delays of a load.
#[derive(Clone, Debug)]
pub(crate) struct Noise(Vec<TimerDelay>);

impl NoiseMeter {
    pub(crate) fn new(start: Instant) -> Self {
        Self {
            start,
            delays: Arc::default(),
        }
    }

    /// Measures until the task is aborted.
    pub(crate) async fn run(self) {
        loop {
            let from = self.start.elapsed() + INTERVAL;
            sleep(INTERVAL).await;
            let to = self.start.elapsed();
            if from + TOLERANCE < to {
                self.delays.lock().push(TimerDelay { from, to });
            }
        }
    }

    pub(crate) fn noise(&self) -> Noise {
        Noise(self.delays.lock().clone())
    }
}

impl Noise {
    /// The longest delay.
    pub(crate) fn worst(&self) -> Duration {
        self.0
            .iter()
            .map(|delay| delay.to.saturating_sub(delay.from))
            .max()
            .unwrap_or_default()
    }

    /// The sum of all delays in an interval.
    pub(crate) fn during(&self, from: Duration, to: Duration) -> Duration {
        let first = self.0.partition_point(|delay| delay.to <= from);
        let overlapping = self.0[first..].iter().take_while(|delay| delay.from < to);
        overlapping
            .map(|delay| delay.to.min(to).saturating_sub(delay.from.max(from)))
            .sum()
    }
}

#[test]
fn only_delays_inside_an_interval_count() {
    let ms = Duration::from_millis;
    let noise = Noise(vec![
        TimerDelay {
            from: ms(10),
            to: ms(20),
        },
        TimerDelay {
            from: ms(30),
            to: ms(34),
        },
    ]);

    assert_eq!(noise.worst(), ms(10));
    assert_eq!(noise.during(ms(0), ms(10)), ms(0));
    assert_eq!(noise.during(ms(15), ms(32)), ms(5) + ms(2));
    assert_eq!(noise.during(ms(0), ms(100)), ms(14));
}
