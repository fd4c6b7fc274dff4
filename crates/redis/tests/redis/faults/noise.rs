//! How much this machine disturbs what is measured on it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

const NAP: Duration = Duration::from_millis(1);
/// A timer may be up to two of its milliseconds late without any noise.
const TIMER: Duration = Duration::from_millis(2);

/// Sleeps a millisecond, again and again, and notes by how much it overslept. It runs on the thread
/// that runs everything else, so that what delays a decision from outside delays it too.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    start: Instant,
    heard: Arc<Mutex<Vec<Overslept>>>,
}

/// Times are since the start of the load.
#[derive(Clone, Copy, Debug)]
struct Overslept {
    from: Duration,
    to: Duration,
}

/// Everything that was overslept.
#[derive(Clone, Debug)]
pub(crate) struct Noise(Vec<Overslept>);

impl Meter {
    pub(crate) fn new(start: Instant) -> Self {
        Self {
            start,
            heard: Arc::default(),
        }
    }

    /// Measures until the task is ended.
    pub(crate) async fn run(self) {
        loop {
            let from = self.start.elapsed() + NAP;
            sleep(NAP).await;
            let to = self.start.elapsed();
            if from + TIMER < to {
                self.heard.lock().push(Overslept { from, to });
            }
        }
    }

    pub(crate) fn heard(&self) -> Noise {
        Noise(self.heard.lock().clone())
    }
}

impl Noise {
    /// The longest that was overslept at once.
    pub(crate) fn worst(&self) -> Duration {
        self.0
            .iter()
            .map(|overslept| overslept.to.saturating_sub(overslept.from))
            .max()
            .unwrap_or_default()
    }

    /// How much was overslept in a time, all in all.
    pub(crate) fn during(&self, from: Duration, to: Duration) -> Duration {
        let first = self.0.partition_point(|overslept| overslept.to <= from);
        let overlapping = self.0[first..]
            .iter()
            .take_while(|overslept| overslept.from < to);
        overlapping
            .map(|overslept| {
                overslept
                    .to
                    .min(to)
                    .saturating_sub(overslept.from.max(from))
            })
            .sum()
    }
}

#[test]
fn only_what_was_overslept_inside_a_time_counts() {
    let ms = Duration::from_millis;
    let noise = Noise(vec![
        Overslept {
            from: ms(10),
            to: ms(20),
        },
        Overslept {
            from: ms(30),
            to: ms(34),
        },
    ]);
    assert_eq!(noise.worst(), ms(10));
    assert_eq!(noise.during(ms(0), ms(10)), ms(0));
    assert_eq!(noise.during(ms(15), ms(32)), ms(5) + ms(2));
    assert_eq!(noise.during(ms(0), ms(100)), ms(14));
}
