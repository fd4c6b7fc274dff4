//! How much this machine disturbs what is measured on it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

const NAP: Duration = Duration::from_millis(1);
/// A timer may be up to two of its milliseconds late without any noise.
const TIMER: Duration = Duration::from_millis(2);

/// Sleeps a millisecond, again and again, and notes by how much it overslept. It runs on the thread that runs everything
/// else, so that what delays a decision from outside delays it too.
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
        Self { start, heard: Arc::default() }
    }

    /// Measures until the task is ended.
    pub(crate) async fn run(self) {
        loop {
            let from = self.start.elapsed() + NAP + TIMER;
            sleep(NAP).await;
            let to = self.start.elapsed();
            if from < to {
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
        self.0.iter().map(|overslept| overslept.to.saturating_sub(overslept.from)).max().unwrap_or_default()
    }

    /// How much was overslept in a time, all in all.
    pub(crate) fn during(&self, from: Duration, to: Duration) -> Duration {
        let first = self.0.partition_point(|overslept| overslept.to <= from);
        let overlapping = self.0[first..].iter().take_while(|overslept| overslept.from < to);
        overlapping.map(|overslept| overslept.to.min(to).saturating_sub(overslept.from.max(from))).sum()
    }
}
