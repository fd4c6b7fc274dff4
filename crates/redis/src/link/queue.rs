//! The queue of a link: calls that wait to be sent, and whether the link is up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::round_trip::RoundTrip;
use crate::connector::Connector;
use crate::error::{CallError, ServerError};
use crate::server_check::ServerCheck;
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
    /// How long a call takes that is sent now.
    pub(crate) round_trip: RoundTrip,
    pub(crate) counters: LinkCounters,
    pub(crate) server_check: ServerCheck,
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
    /// The latest moment at which one of the calls so far may be sent.
    latest_deadline: Option<Instant>,
    /// Why the link is down. `None` while it is up.
    down: Option<ServerError>,
}

/// How long a call may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallDeadline {
    /// A call that has not been sent by then is dropped.
    pub(crate) send_by: Instant,
    /// The reply is used if it arrives by then.
    pub(crate) reply_by: Instant,
}

/// The deadline of a call whose reply is of no use after it.
impl From<Instant> for CallDeadline {
    fn from(deadline: Instant) -> Self {
        Self {
            send_by: deadline,
            reply_by: deadline,
        }
    }
}

/// A call that waits to be sent, or is in flight.
pub(super) struct QueuedCall {
    pub(super) call: Arc<StoreCall>,
    pub(super) deadline: CallDeadline,
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
            round_trip: RoundTrip::new(connector.timeout / 2),
            connector,
            counters: LinkCounters::default(),
            server_check: ServerCheck::default(),
        }
    }

    /// Puts a call into the queue. Its result arrives by the deadline in any case: if the call is
    /// never sent, by `send_by`, else by `reply_by`.
    pub(crate) fn submit(
        &self,
        call: Arc<StoreCall>,
        deadline: CallDeadline,
        is_asking: bool,
    ) -> Result<oneshot::Receiver<CallResult>, CallError> {
        let mut queue = self.queue.lock();
        if let Some(error) = &queue.down {
            return Err(CallError::NotSent(error.clone()));
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
        let is_earlier = Some(deadline.send_by) < queue.latest_deadline;
        queue.latest_deadline = queue.latest_deadline.max(Some(deadline.send_by));

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
            queued.finish(Err(CallError::NotSent(error.clone())));
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
            queued.expire_unsent(now);
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
            queued.expire_unsent(now);
            !queued.is_abandoned()
        });
        let unanswered = queue.waiting.iter().filter(|queued| queued.is_unanswered());
        unanswered.map(|queued| queued.deadline.send_by).min()
    }

    /// True when calls wait to be sent.
    pub(super) fn has_waiting(&self) -> bool {
        !self.queue.lock().waiting.is_empty()
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

    /// Fails a call that has been sent if its reply would come too late.
    pub(super) fn expire_sent(&mut self, now: Instant) {
        if self.deadline.reply_by <= now {
            self.finish(Err(CallError::Timeout));
        }
    }

    /// Fails a call that has not been sent if it is too late to send it.
    pub(super) fn expire_unsent(&mut self, now: Instant) {
        if self.deadline.send_by <= now {
            // A call that frees units is sent nevertheless.
            let error = if self.call.frees_units() {
                CallError::Timeout
            } else {
                CallError::Expired
            };
            self.finish(Err(error));
        }
    }

    /// True when the reply is used even if it comes after the deadline of a decision.
    pub(super) fn uses_late_reply(&self) -> bool {
        self.deadline.reply_by > self.deadline.send_by
    }

    /// True while the caller has no result.
    pub(super) fn is_unanswered(&self) -> bool {
        self.reply_sender.is_some()
    }

    /// True when the caller no longer waits, so that sending the call would charge for nothing.
    /// Calls that free units are never abandoned.
    pub(super) fn is_abandoned(&self) -> bool {
        let sender = self.reply_sender.as_ref();
        sender.is_none_or(oneshot::Sender::is_closed) && !self.call.frees_units()
    }
}
