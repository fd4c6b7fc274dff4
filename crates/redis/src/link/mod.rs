//! A link to one server: a queue of calls, one connection, and the task that owns the connection.
//!
//! Callers put calls into the queue and never touch the connection. The task takes the waiting
//! calls from the queue, sends them, and passes the replies to their callers. It also connects,
//! detects that the server is unavailable or too slow, and reconnects. While the link is down,
//! calls fail without waiting: the link is also the circuit breaker of its server.

mod command;
mod connection_loop;
mod queue;
mod rounds;

pub(crate) use queue::{CallDeadline, CallResult, LateReply, LinkState};

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use self::connection_loop::{ConnectionLoop, DrainedConnections};
use crate::connector::Connector;
use crate::error::ServerError;
use crate::locator::ServerLocator;
use crate::log;

/// Pause after the first failed attempt. It doubles with every further one.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// Longest pause. Together with the time to connect, a server that has recovered is used again well
/// within a second.
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// A connection that lasted this long is replaced without a pause.
const STABLE_AFTER: Duration = Duration::from_millis(100);

/// A link to one server. Dropping it closes the connection.
pub(crate) struct ServerLink {
    state: Arc<LinkState>,
    /// The only task of the set, which aborts it when it is dropped.
    _task: JoinSet<()>,
}

impl ServerLink {
    /// Starts a link to the server that the locator finds. It is down until its task has
    /// connected.
    pub(crate) fn start(locator: ServerLocator, connector: &Arc<Connector>) -> Arc<Self> {
        let state = Arc::new(LinkState::new(connector.clone()));
        let mut task = JoinSet::new();
        task.spawn_on(keep_connected(state.clone(), locator), &connector.runtime);

        Arc::new(Self { state, _task: task })
    }
}

impl Deref for ServerLink {
    type Target = LinkState;

    fn deref(&self) -> &LinkState {
        &self.state
    }
}

/// The task of a link: connects, serves the connection until it fails, and reconnects. Ends when it
/// is aborted.
async fn keep_connected(state: Arc<LinkState>, mut locator: ServerLocator) {
    let _guard = MarkDownOnDrop(&state);
    let mut pause = Duration::ZERO;
    let mut drained = DrainedConnections::default();

    loop {
        let error = match locator.connect(&state.connector).await {
            Ok((address, connection, report)) => {
                log::connected(&address);
                state.counters.connections.fetch_add(1, Relaxed);
                drained.keep_only(&address);
                state.server_check.record(&address, report);
                state.mark_up();

                let since = Instant::now();
                let connection = ConnectionLoop::new(state.clone(), connection);
                let (error, open) = tokio::select! {
                    // First, so that nothing more is sent to a former primary.
                    biased;
                    () = locator.server_changed(&address) => {
                        (ServerError::new("the primary has changed"), None)
                    }
                    end = connection.serve(&address) => end,
                    never = state.server_check.watch(&state.connector, &address) => match never {},
                };
                if let Some(connection) = open {
                    drained.add(connection, error.clone());
                }
                if since.elapsed() >= STABLE_AFTER {
                    pause = Duration::ZERO;
                }
                error
            }
            Err(error) => {
                state.count_failed_attempt();
                error
            }
        };
        state.mark_down(&error);
        log::unavailable(&locator, &error);

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

#[cfg(test)]
mod tests;
