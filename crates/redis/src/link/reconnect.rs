//! The task of a link: connects, serves the connection until it fails, and reconnects.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::LinkState;
use super::connection_loop::serve;
use crate::error::ServerError;
use crate::topology::ServerLocator;

/// Pause after the first failed attempt. It doubles with every further one.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// Longest pause. Together with the time to connect, a server that has recovered is used again well
/// within a second.
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// A connection that lasted this long is replaced without a pause.
const STABLE_AFTER: Duration = Duration::from_millis(100);

/// Keeps the link connected until the task is aborted.
pub(super) async fn run(state: Arc<LinkState>, locator: ServerLocator) {
    let _guard = MarkDownOnDrop(&state);
    let mut pause = Duration::ZERO;
    let mut was_up = true;

    loop {
        let error = match locator.connect(&state.connector).await {
            Ok((address, connection)) => {
                tracing::info!(server = %address, "connected to the store");
                state.counters.connections.fetch_add(1, Relaxed);
                state.mark_up();
                was_up = true;

                let since = Instant::now();
                let error = serve(&state, connection).await;
                if since.elapsed() >= STABLE_AFTER {
                    pause = Duration::ZERO;
                }
                error
            }
            Err(error) => error,
        };
        state.mark_down(&error);
        log_failure(&locator, &error, was_up);
        was_up = false;

        sleep(pause).await;
        pause = (pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
    }
}

/// Marks the link as down when the task ends for any reason: nothing would answer its calls.
struct MarkDownOnDrop<'s>(&'s LinkState);

impl Drop for MarkDownOnDrop<'_> {
    fn drop(&mut self) {
        let error = "the store or its Tokio runtime has been shut down";
        self.0.mark_down(&ServerError::new(error));
    }
}

/// Logs a warning when the link goes down. Failed attempts after that are logged at debug level.
fn log_failure(locator: &ServerLocator, error: &ServerError, was_up: bool) {
    if was_up {
        tracing::warn!(
            server = %locator, %error,
            "store unavailable; reconnecting in the background"
        );
    } else {
        tracing::debug!(server = %locator, %error, "store still unavailable");
    }
}
