//! The life of a lane's task: reach the server, serve, and again.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Shared;
use super::serve::serve;
use crate::failure::Cause;
use crate::topology::Route;

/// The first pause after a failed attempt; each is twice the one before.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// The longest pause: with the time to connect, a server that is back is asked again well within a
/// second.
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// A connection that lasted this long was a good one, and is replaced without a pause.
const GOOD: Duration = Duration::from_millis(100);

/// Keeps the lane connected until the task is ended.
pub(super) async fn run(shared: Arc<Shared>, route: Route) {
    let _ends = Ends(&shared);
    let mut pause = Duration::ZERO;
    let mut was_up = true;
    loop {
        let cause = match route.reach(&shared.access).await {
            Ok((address, connection)) => {
                tracing::info!(server = %address, "the store is connected");
                shared.counts.connections.fetch_add(1, Relaxed);
                shared.go_up();
                was_up = true;
                let since = Instant::now();
                let cause = serve(&shared, connection).await;
                if since.elapsed() >= GOOD {
                    pause = Duration::ZERO;
                }
                cause
            }
            Err(cause) => cause,
        };
        shared.go_down(&cause);
        tell(&route, &cause, was_up);
        was_up = false;
        sleep(pause).await;
        pause = (pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
    }
}

/// Turns requests away when the task ends, whyever it does: nobody would answer them.
struct Ends<'s>(&'s Shared);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.go_down(&Cause::new(
            "the store's runtime, or its part in the store, has ended",
        ));
    }
}

/// Says once that the server is gone; further attempts only to those who want to know everything.
fn tell(route: &Route, cause: &Cause, was_up: bool) {
    if was_up {
        tracing::warn!(server = %route, %cause, "the store is away; connecting in the background");
    } else {
        tracing::debug!(server = %route, %cause, "the store is still away");
    }
}
