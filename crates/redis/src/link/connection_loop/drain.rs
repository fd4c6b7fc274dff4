//! Connections to a server that is silent or slow. They get no further calls, but lease calls in
//! flight still use their replies.

use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::{ConnectionLoop, write_all};
use crate::endpoint::Address;
use crate::error::ServerError;
use crate::link::queue::QueuedCall;

/// The longest time for which a connection is drained. A server that pauses for longer is down.
const DRAIN_MAX: Duration = Duration::from_secs(1);
/// The most connections of a link that are drained.
const CONNECTIONS_MAX: usize = 4;

/// The connections of a link that are drained, all of them to the same server.
#[derive(Default)]
pub(crate) struct DrainedConnections {
    /// A task for each connection.
    tasks: JoinSet<()>,
    server: Option<Address>,
}

impl DrainedConnections {
    /// Closes the connections to other servers: after a failover, units that the former primary
    /// lends are not charged at the new one.
    pub(crate) fn keep_only(&mut self, server: &Address) {
        if self.server.as_ref() != Some(server) {
            self.tasks = JoinSet::new();
            self.server = Some(server.clone());
        }
    }

    /// Drains a connection in a task of its own, unless there are too many.
    pub(crate) fn add(&mut self, connection: ConnectionLoop, error: ServerError) {
        while self.tasks.try_join_next().is_some() {}

        if self.tasks.len() < CONNECTIONS_MAX {
            self.tasks.spawn(connection.drain(error));
        }
    }
}

impl ConnectionLoop {
    /// Passes late replies to the calls in flight. Calls without a reply fail with this error.
    async fn drain(mut self, error: ServerError) {
        let unanswered = self.calls_in_flight().filter(|call| call.is_unanswered());
        let late_replies = unanswered.filter_map(|call| call.deadline.late_reply.as_ref());
        let last = late_replies.map(|reply| reply.use_until).max();
        let end = Instant::now() + DRAIN_MAX;
        let end = last.map_or(end, |last| last.min(end));

        // Why it ended makes no difference to the calls that are left.
        drop(timeout_at(end, self.receive_late_replies()).await);
        self.fail_calls(&error, |_| true);
    }

    async fn receive_late_replies(&mut self) -> Result<(), ServerError> {
        while self.calls_in_flight().any(QueuedCall::is_unanswered) {
            self.needs_flush |= !self.out.is_empty();
            tokio::select! {
                biased;
                read = self.reader.read_buf(&mut self.received) => self.receive_all(read?)?,
                written = write_all(&mut self.writer, &mut self.out), if self.needs_flush => {
                    written?;
                    self.needs_flush = false;
                }
            }
        }
        Ok(())
    }
}
