//! The queue of a link: calls that wait to be sent, and whether the link is up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use crate::connector::Connector;
use crate::error::{CallError, ServerError};
use crate::server_check::ServerCheck;
use crate::wire::{ScriptReply, StoreCall};

/// The most calls that wait in the queue of a link. At 100,000 calls per second, a full queue takes
/// about 40 ms, which is a few default timeouts.
const QUEUE_MAX: usize = 4_096;

/// The most demands that are taken from the queue together, unless a single call has more: two full
/// script calls.
const ROUND_DEMANDS_MAX: usize = 512;

/// The state shared by a link and its task.
pub(crate) struct LinkState {
    queue: Mutex<CallQueue>,
    /// Notified when a call is queued.
    pub(super) call_queued: Notify,
    /// Notified when a call is queued whose deadline is earlier than that of a call before it.
    pub(super) earlier_deadline: Notify,
    pub(super) connector: Arc<Connector>,
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
    /// The latest deadline of the calls so far.
    latest_deadline: Option<Instant>,
    /// Why the link is down. `None` while it is up.
    down: Option<ServerError>,
    /// How often connecting has failed since the link was up.
    failed_attempts: u32,
}

/// How long a call may take.
#[derive(Clone, Debug)]
pub(crate) struct CallDeadline {
    /// When the decision must be made. A call that has not been sent by then is dropped.
    pub(crate) decide_by: Instant,
    /// How long the reply is used if it comes too late for the decision. `None` if it is not.
    pub(crate) late_reply: Option<LateReply>,
}

/// A reply that is used even after the decision that asked for it.
#[derive(Clone, Debug)]
pub(crate) struct LateReply {
    pub(crate) use_until: Instant,
    /// Gets the error of the decision when the reply is too late for it.
    pub(crate) overdue: mpsc::Sender<CallError>,
}

/// The deadline of a call whose reply is of no use after it.
impl From<Instant> for CallDeadline {
    fn from(decide_by: Instant) -> Self {
        Self {
            decide_by,
            late_reply: None,
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
            failed_attempts: 0,
        };
        Self {
            queue: Mutex::new(queue),
            call_queued: Notify::new(),
            earlier_deadline: Notify::new(),
            connector,
            counters: LinkCounters::default(),
            server_check: ServerCheck::default(),
        }
    }

    /// Puts a call into the queue. Its result arrives in any case: by the deadline of the decision,
    /// or for as long as a late reply is used.
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
        let decide_by = Some(deadline.decide_by);
        let is_earlier = decide_by < queue.latest_deadline;
        queue.latest_deadline = queue.latest_deadline.max(decide_by);

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
        let mut queue = self.queue.lock();
        queue.down = None;
        queue.failed_attempts = 0;
    }

    /// Why connecting failed, if it has failed this often since the link was up.
    pub(crate) fn failure_after(&self, attempts: u32) -> Option<ServerError> {
        let queue = self.queue.lock();
        let has_failed = queue.failed_attempts >= attempts;
        queue.down.clone().filter(|_| has_failed)
    }

    /// Counts an attempt to connect that failed.
    pub(super) fn count_failed_attempt(&self) {
        let mut queue = self.queue.lock();
        queue.failed_attempts = queue.failed_attempts.saturating_add(1);
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
        let mut demands = 0;

        while calls.len() < count
            && demands < ROUND_DEMANDS_MAX
            && let Some(mut queued) = queue.waiting.pop_front()
        {
            queued.expire_unsent(now);
            if !queued.is_abandoned() {
                demands += queued.call.demands;
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
        unanswered.map(|queued| queued.deadline.decide_by).min()
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

    /// Judges a call in flight whose reply has not arrived by now. The server may reply until
    /// `reply_by`, if the call is written. Returns when to judge it again; `None` if it is answered.
    pub(super) fn expire_sent(
        &mut self,
        reply_by: Option<Instant>,
        now: Instant,
    ) -> Option<Instant> {
        self.reply_sender.as_ref()?;
        let decide_by = self.deadline.decide_by;
        let (wait_until, error) = match reply_by {
            Some(reply_by) if reply_by <= decide_by => (reply_by, CallError::Timeout),
            _ => (decide_by, CallError::Overdue),
        };
        if now < wait_until {
            return Some(wait_until);
        }

        let use_until = self.mark_overdue(&error);
        if use_until.is_none_or(|use_until| use_until <= now) {
            self.finish(Err(error));
            return None;
        }
        use_until
    }

    /// Lets the decision fail if the reply is used later, and returns until when.
    pub(super) fn mark_overdue(&self, error: &CallError) -> Option<Instant> {
        let late_reply = self.deadline.late_reply.as_ref()?;
        // Only the first error counts, and the decision may no longer wait.
        let _known = late_reply.overdue.try_send(error.clone());
        Some(late_reply.use_until)
    }

    /// Fails a call that has not been sent if it is too late to send it.
    pub(super) fn expire_unsent(&mut self, now: Instant) {
        if self.deadline.decide_by <= now {
            // A call that frees units is sent nevertheless.
            let error = if self.call.frees_units() {
                CallError::Overdue
            } else {
                CallError::Expired
            };
            self.finish(Err(error));
        }
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
