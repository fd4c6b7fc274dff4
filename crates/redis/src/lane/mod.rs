//! A lane: one server, one connection, and the task that owns both.
//!
//! Requests are put into the lane's queue and never touch the connection. The task takes what is
//! waiting, sends it, and hands out the answers; it alone connects, notices that the server is gone
//! or slow, and comes back. While the lane is down, requests are turned away at once: that is the
//! breaker.

mod serve;
mod supervise;
mod trip;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::access::SharedAccess;
use crate::failure::{Cause, Failure};
use crate::time::CallTime;
use crate::topology::Route;
use crate::wire::{Answered, Request};

/// The most requests that wait in one lane. At a hundred thousand a second this is the work of a
/// deadline or two.
const WAITING_MAX: usize = 4_096;

/// One server. Dropping it ends its connection.
#[derive(Debug)]
pub(crate) struct Lane {
    shared: Arc<Shared>,
    task: AbortHandle,
}

/// What the lane and its task share.
pub(crate) struct Shared {
    queue: Mutex<Queue>,
    /// Something is waiting.
    arrived: Notify,
    /// Something is waiting that has less time left than what came before it.
    hurried: Notify,
    /// The server is to be looked for anew.
    kicked: Notify,
    /// The lane has gone up or down.
    changed: Notify,
    access: SharedAccess,
    call_time: CallTime,
    /// Whether requests that share a call must share a slot.
    is_cluster: bool,
    pub(crate) counts: Counts,
}

/// How much a lane has done.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Script calls.
    pub(crate) calls: AtomicU64,
    /// Requests in them.
    pub(crate) requests: AtomicU64,
    /// Connections made.
    pub(crate) connections: AtomicU64,
}

#[derive(Debug)]
struct Queue {
    waiting: VecDeque<Job>,
    /// The latest deadline of all that came.
    latest: Option<Instant>,
    /// `None` while the server can be asked.
    down: Option<Cause>,
}

/// A request on its way.
#[derive(Debug)]
struct Job {
    request: Arc<Request>,
    deadline: Instant,
    /// It was sent here because its slot is on its way here.
    is_asking: bool,
    /// `None` once it has been answered.
    answer: Option<oneshot::Sender<Answer>>,
}

/// The answer to one attempt.
pub(crate) type Answer = Result<Answered, Failure>;

impl Lane {
    /// A lane to where the route leads. It is down until its task has reached the server.
    pub(crate) fn start(
        route: Route,
        access: SharedAccess,
        call_time: CallTime,
        is_cluster: bool,
    ) -> Self {
        let down = Some(Cause::new("not connected yet"));
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                latest: None,
                down,
            }),
            arrived: Notify::new(),
            hurried: Notify::new(),
            kicked: Notify::new(),
            changed: Notify::new(),
            access,
            call_time,
            is_cluster,
            counts: Counts::default(),
        });
        let task = tokio::spawn(supervise::run(shared.clone(), route)).abort_handle();
        Self { shared, task }
    }

    /// Puts a request into the queue. The answer comes by the deadline, whatever happens.
    pub(crate) fn submit(
        &self,
        request: Arc<Request>,
        deadline: Instant,
        is_asking: bool,
    ) -> Result<oneshot::Receiver<Answer>, Failure> {
        let mut queue = self.shared.queue.lock();
        if let Some(cause) = &queue.down {
            return Err(Failure::Unavailable(cause.clone()));
        }
        // What gives back makes room elsewhere, and is let in longer.
        let room = if request.gives_back() {
            2 * WAITING_MAX
        } else {
            WAITING_MAX
        };
        if queue.waiting.len() >= room {
            return Err(Failure::Overloaded);
        }
        // Almost always deadlines come in order, and the task has its timer set to the first of
        // them.
        let is_hurried = queue.latest.is_some_and(|latest| deadline < latest);
        queue.latest = queue.latest.max(Some(deadline));
        let (answer, answered) = oneshot::channel();
        let job = Job {
            request,
            deadline,
            is_asking,
            answer: Some(answer),
        };
        // One that has been sent on has the least time left.
        if is_asking {
            queue.waiting.push_front(job);
        } else {
            queue.waiting.push_back(job);
        }
        drop(queue);
        self.shared.arrived.notify_one();
        if is_hurried {
            self.shared.hurried.notify_one();
        }
        Ok(answered)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.shared.queue.lock().down.is_none()
    }

    /// Looks for the server anew: the one connected to is no longer the one to ask.
    pub(crate) fn kick(&self) {
        self.shared.kicked.notify_one();
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.task.abort();
        self.shared
            .go_down(&Cause::new("the server is no longer part of the store"));
    }
}

impl Shared {
    fn go_up(&self) {
        self.queue.lock().down = None;
        self.changed.notify_waiters();
    }

    /// Turns away everything that waits, and everything that comes until the lane is up.
    fn go_down(&self, cause: &Cause) {
        let mut queue = self.queue.lock();
        queue.down = Some(cause.clone());
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        for mut job in waiting {
            job.reply(Err(Failure::Unavailable(cause.clone())));
        }
        self.changed.notify_waiters();
    }

    /// Completes when the lane is up.
    pub(crate) async fn up(&self) {
        loop {
            let changed = self.changed.notified();
            if self.queue.lock().down.is_none() {
                return;
            }
            changed.await;
        }
    }

    fn count_call(&self, requests: usize) {
        self.counts.calls.fetch_add(1, Relaxed);
        self.counts.requests.fetch_add(requests as u64, Relaxed);
    }
}

impl Job {
    fn reply(&mut self, answer: Answer) {
        // One whose asker has gone needs no answer.
        if let Some(sender) = self.answer.take() {
            let _gone = sender.send(answer);
        }
    }

    /// True when sending it would charge someone who no longer waits. What gives back is sent all
    /// the same.
    fn is_pointless(&self) -> bool {
        !self.request.gives_back() && self.answer.as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}
