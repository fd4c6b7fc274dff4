//! A link to one server: a queue of calls, one connection, and the task that owns the connection.
//!
//! Callers put calls into the queue and never touch the connection. The task takes the waiting
//! calls from the queue, sends them, and passes the replies to their callers. It also connects,
//! detects that the server is unavailable or too slow, and reconnects. While the link is down,
//! calls fail without waiting: the link is also the circuit breaker of its server.

mod command;
mod connection_loop;
mod reconnect;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::clock::CallClock;
use crate::connector::Connector;
use crate::error::{CallError, ServerError};
use crate::topology::ServerLocator;
use crate::wire::{ScriptReply, StoreCall};

/// The most calls that wait in the queue of a link. At 100,000 calls per second, a full queue takes
/// about 40 ms, which is a few default timeouts.
const QUEUE_MAX: usize = 4_096;

/// A link to one server. Dropping it closes the connection.
#[derive(Debug)]
pub(crate) struct ServerLink {
    state: Arc<LinkState>,
    task: AbortHandle,
}

/// The state shared by a link and its task.
pub(crate) struct LinkState {
    queue: Mutex<CallQueue>,
    /// Notified when a call is queued.
    call_queued: Notify,
    /// Notified when a call is queued whose deadline is earlier than that of a call before it.
    earlier_deadline: Notify,
    /// Notified when the task must look up the server again.
    reconnect_requested: Notify,
    /// Notified when the link goes up or down.
    status_changed: Notify,
    connector: Arc<Connector>,
    clock: CallClock,
    /// True when only calls of the same slot may share a script call.
    is_cluster: bool,
    pub(crate) counters: LinkCounters,
}

/// Counters of a link since its start.
#[derive(Debug, Default)]
pub(crate) struct LinkCounters {
    /// Script calls sent.
    pub(crate) script_calls: AtomicU64,
    /// Store calls sent in them.
    pub(crate) store_calls: AtomicU64,
    /// Connections established.
    pub(crate) connections: AtomicU64,
}

#[derive(Debug)]
struct CallQueue {
    waiting: VecDeque<QueuedCall>,
    /// The latest deadline of all calls so far.
    latest_deadline: Option<Instant>,
    /// Why the link is down. `None` while it is up.
    down: Option<ServerError>,
}

/// A call that waits to be sent, or is in flight.
#[derive(Debug)]
struct QueuedCall {
    call: Arc<StoreCall>,
    deadline: Instant,
    /// True when the call follows an `ASK` redirection, and must be preceded by `ASKING`.
    is_asking: bool,
    /// `None` once the result has been sent.
    reply_sender: Option<oneshot::Sender<CallResult>>,
}

/// The result of one attempt at a call.
pub(crate) type CallResult = Result<ScriptReply, CallError>;

impl ServerLink {
    /// Starts a link to the server that the locator finds. It is down until its task has
    /// connected.
    pub(crate) fn start(
        locator: ServerLocator,
        connector: Arc<Connector>,
        clock: CallClock,
        is_cluster: bool,
    ) -> Self {
        let queue = CallQueue {
            waiting: VecDeque::new(),
            latest_deadline: None,
            down: Some(ServerError::new("not connected yet")),
        };
        let state = Arc::new(LinkState {
            queue: Mutex::new(queue),
            call_queued: Notify::new(),
            earlier_deadline: Notify::new(),
            reconnect_requested: Notify::new(),
            status_changed: Notify::new(),
            connector,
            clock,
            is_cluster,
            counters: LinkCounters::default(),
        });

        let task = tokio::spawn(reconnect::run(state.clone(), locator)).abort_handle();
        Self { state, task }
    }

    /// Puts a call into the queue. Its result arrives by the deadline in any case.
    pub(crate) fn submit(
        &self,
        call: Arc<StoreCall>,
        deadline: Instant,
        is_asking: bool,
    ) -> Result<oneshot::Receiver<CallResult>, CallError> {
        let mut queue = self.state.queue.lock();
        if let Some(error) = &queue.down {
            return Err(CallError::Unavailable(error.clone()));
        }

        // Calls that free units make room for other requests, so they are accepted for longer.
        let capacity = if call.frees_units() {
            2 * QUEUE_MAX
        } else {
            QUEUE_MAX
        };
        if queue.waiting.len() >= capacity {
            return Err(CallError::Overloaded);
        }

        // Deadlines almost always come in order, and the task's timer is set to the first one. The
        // task must be notified of one that is out of order.
        let is_earlier = queue
            .latest_deadline
            .is_some_and(|latest| deadline < latest);
        queue.latest_deadline = queue.latest_deadline.max(Some(deadline));

        let (reply_sender, reply) = oneshot::channel();
        let queued = QueuedCall {
            call,
            deadline,
            is_asking,
            reply_sender: Some(reply_sender),
        };
        // A redirected call has the least time left.
        if is_asking {
            queue.waiting.push_front(queued);
        } else {
            queue.waiting.push_back(queued);
        }
        drop(queue);

        self.state.call_queued.notify_one();
        if is_earlier {
            self.state.earlier_deadline.notify_one();
        }
        Ok(reply)
    }

    /// True while calls can be sent.
    pub(crate) fn is_up(&self) -> bool {
        self.state.queue.lock().down.is_none()
    }

    /// Makes the task look up the server again, because it is no longer the right one.
    pub(crate) fn reconnect(&self) {
        self.state.reconnect_requested.notify_one();
    }

    pub(crate) fn state(&self) -> &Arc<LinkState> {
        &self.state
    }
}

impl Drop for ServerLink {
    fn drop(&mut self) {
        self.task.abort();
        let error = "the server is no longer part of the store";
        self.state.mark_down(&ServerError::new(error));
    }
}

impl LinkState {
    fn mark_up(&self) {
        self.queue.lock().down = None;
        self.status_changed.notify_waiters();
    }

    /// Fails all waiting calls, and all later calls until the link is up again.
    fn mark_down(&self, error: &ServerError) {
        let mut queue = self.queue.lock();
        queue.down = Some(error.clone());
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);

        for mut queued in waiting {
            queued.finish(Err(CallError::Unavailable(error.clone())));
        }
        self.status_changed.notify_waiters();
    }

    /// Completes when the link is up.
    pub(crate) async fn wait_until_up(&self) {
        loop {
            let changed = self.status_changed.notified();
            if self.queue.lock().down.is_none() {
                return;
            }
            changed.await;
        }
    }

    fn count_script_call(&self, store_calls: usize) {
        self.counters.script_calls.fetch_add(1, Relaxed);
        self.counters
            .store_calls
            .fetch_add(store_calls as u64, Relaxed);
    }
}

impl QueuedCall {
    /// Passes the result to the caller. Only the first result counts.
    fn finish(&mut self, result: CallResult) {
        if let Some(sender) = self.reply_sender.take() {
            // A caller that no longer waits does not need the result.
            let _abandoned = sender.send(result);
        }
    }

    /// True while the caller has not got a result.
    fn is_unanswered(&self) -> bool {
        self.reply_sender.is_some()
    }

    /// True when the caller no longer waits, so that sending the call would charge for nothing.
    /// Calls that free units are never abandoned.
    fn is_abandoned(&self) -> bool {
        let has_caller = self
            .reply_sender
            .as_ref()
            .is_some_and(|sender| !sender.is_closed());
        !has_caller && !self.call.frees_units()
    }
}

impl fmt::Debug for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkState")
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
