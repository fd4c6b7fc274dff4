//! The queue of a link: calls that wait to be sent, and whether the link is up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::connector::Connector;
use crate::error::{CallError, ServerError};
use crate::wire::{ScriptReply, StoreCall};

/// The most calls that wait in the queue of a link. At 100,000 calls per second, a full queue takes
/// about 40 ms, which is a few default timeouts.
const QUEUE_MAX: usize = 4_096;

/// The state shared by a link and its task.
pub(crate) struct LinkState {
    queue: Mutex<CallQueue>,
    /// Notified when a call is queued.
    pub(super) call_queued: Notify,
    /// Notified when a call is queued whose deadline is earlier than that of a call before it.
    pub(super) earlier_deadline: Notify,
    pub(super) connector: Arc<Connector>,
    pub(crate) counters: LinkCounters,
}

/// Counters of a link since its start.
#[derive(Default)]
pub(crate) struct LinkCounters {
    /// Script calls sent.
    pub(crate) script_calls: AtomicU64,
    /// Store calls sent in them.
    pub(crate) store_calls: AtomicU64,
    /// Store calls to which the server replied without an error.
    pub(crate) store_replies: AtomicU64,
    /// Connections established.
    pub(crate) connections: AtomicU64,
}

struct CallQueue {
    waiting: VecDeque<QueuedCall>,
    /// The latest deadline of all calls so far.
    latest_deadline: Option<Instant>,
    /// Why the link is down. `None` while it is up.
    down: Option<ServerError>,
}

/// A call that waits to be sent, or is in flight.
pub(super) struct QueuedCall {
    pub(super) call: Arc<StoreCall>,
    pub(super) deadline: Instant,
    /// True when the call follows an `ASK` redirection, and must be preceded by `ASKING`.
    pub(super) is_asking: bool,
    /// `None` once the result has been sent.
    reply_sender: Option<oneshot::Sender<CallResult>>,
}

/// The result of one attempt at a call.
pub(crate) type CallResult = Result<ScriptReply, CallError>;

impl LinkState {
    /// The state of a link that is not connected yet.
    pub(super) fn new(connector: Arc<Connector>) -> Self {
        let queue = CallQueue {
            waiting: VecDeque::new(),
            latest_deadline: None,
            down: Some(ServerError::new("not connected yet")),
        };
        Self {
            queue: Mutex::new(queue),
            call_queued: Notify::new(),
            earlier_deadline: Notify::new(),
            connector,
            counters: LinkCounters::default(),
        }
    }

    /// Puts a call into the queue. Its result arrives by the deadline in any case.
    pub(crate) fn submit(
        &self,
        call: Arc<StoreCall>,
        deadline: Instant,
        is_asking: bool,
    ) -> Result<oneshot::Receiver<CallResult>, CallError> {
        let mut queue = self.queue.lock();
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
        let is_earlier = Some(deadline) < queue.latest_deadline;
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

        self.call_queued.notify_one();
        if is_earlier {
            self.earlier_deadline.notify_one();
        }
        Ok(reply)
    }

    /// True while calls can be sent.
    pub(crate) fn is_up(&self) -> bool {
        self.queue.lock().down.is_none()
    }

    pub(super) fn mark_up(&self) {
        self.queue.lock().down = None;
    }

    /// Fails all waiting calls, and all later calls until the link is up again.
    pub(super) fn mark_down(&self, error: &ServerError) {
        let mut queue = self.queue.lock();
        queue.down = Some(error.clone());
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);

        for mut queued in waiting {
            queued.finish(Err(CallError::Unavailable(error.clone())));
        }
    }

    /// Takes up to `count` calls from the queue. Fails those whose deadline has passed, and drops
    /// those whose caller no longer waits.
    pub(super) fn take_waiting(&self, count: usize, now: Instant) -> Vec<QueuedCall> {
        let mut queue = self.queue.lock();
        let mut calls = Vec::with_capacity(queue.waiting.len().min(count));

        while calls.len() < count
            && let Some(mut queued) = queue.waiting.pop_front()
        {
            queued.expire(now);
            if !queued.is_abandoned() {
                calls.push(queued);
            }
        }
        calls
    }

    /// Fails waiting calls whose deadline has passed. Returns the earliest deadline of the others.
    pub(super) fn expire_waiting(&self, now: Instant) -> Option<Instant> {
        let mut queue = self.queue.lock();
        queue.waiting.retain_mut(|queued| {
            queued.expire(now);
            !queued.is_abandoned()
        });
        earliest_deadline(&queue.waiting)
    }
}

impl QueuedCall {
    /// Passes the result to the caller. Only the first result counts.
    pub(super) fn finish(&mut self, result: CallResult) {
        if let Some(sender) = self.reply_sender.take() {
            // A caller that no longer waits does not need the result.
            let _abandoned = sender.send(result);
        }
    }

    /// Fails the call if its deadline has passed.
    pub(super) fn expire(&mut self, now: Instant) {
        if self.deadline <= now {
            self.finish(Err(CallError::Timeout));
        }
    }

    /// True when the caller no longer waits, so that sending the call would charge for nothing.
    /// Calls that free units are never abandoned.
    pub(super) fn is_abandoned(&self) -> bool {
        let sender = self.reply_sender.as_ref();
        sender.is_none_or(oneshot::Sender::is_closed) && !self.call.frees_units()
    }
}

/// The earliest deadline of the calls that have not been answered.
pub(super) fn earliest_deadline<'c>(
    calls: impl IntoIterator<Item = &'c QueuedCall>,
) -> Option<Instant> {
    let unanswered = calls
        .into_iter()
        .filter(|queued| queued.reply_sender.is_some());
    unanswered.map(|queued| queued.deadline).min()
}
