//! One replica: the queue of requests to it, and the connections that send them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use tokio::sync::Notify;
use tokio::time::timeout;
use tollgate::Micros;
use tollgate_audit::TimeSpan;

use crate::clock::{LoadClock, PreciseTimer, micros};
use crate::error::RequestError;
use crate::generator::{RequestParams, ScheduledRequest};
use crate::http::{HttpConnection, HttpRequest, HttpResponse};
use crate::plan::{LoadPlan, Replica};
use crate::record::LoadRecord;
use crate::request::{self, CHECK};
use crate::response::ResponseDecision;

/// The maximum number of requests that wait for a connection, over all replicas.
const QUEUED_MAX: usize = 1 << 16;

/// The requests that wait for a connection to one replica.
#[derive(Debug)]
pub(crate) struct ReplicaQueue {
    pub(crate) replica: Replica,
    pub(crate) addresses: Vec<SocketAddr>,
    /// The requests, and when each started to wait.
    requests: RefCell<VecDeque<(ScheduledRequest, u64)>>,
    requests_max: usize,
    changed: Notify,
    is_closed: Cell<bool>,
}

/// The state that all connections share.
#[derive(Debug)]
pub(crate) struct LoadContext {
    pub(crate) plan: Rc<LoadPlan>,
    pub(crate) clock: LoadClock,
    pub(crate) timer: PreciseTimer,
    pub(crate) record: RefCell<LoadRecord>,
}

impl ReplicaQueue {
    /// An empty queue. The number of replicas determines its share of the capacity.
    pub(crate) fn new(replica: Replica, addresses: Vec<SocketAddr>, replicas: usize) -> Self {
        Self {
            replica,
            addresses,
            requests: RefCell::default(),
            requests_max: (QUEUED_MAX / replicas.max(1)).max(1),
            changed: Notify::new(),
            is_closed: Cell::new(false),
        }
    }

    /// Adds a request. Returns false if the queue is full.
    pub(crate) fn push(&self, request: ScheduledRequest, now_us: u64) -> bool {
        let mut requests = self.requests.borrow_mut();
        let has_room = requests.len() < self.requests_max;
        if has_room {
            requests.push_back((request, now_us));
            self.changed.notify_one();
        }
        has_room
    }

    /// Ends the queue: workers stop once it is empty.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
        self.changed.notify_waiters();
    }

    /// Takes the next request, if there is one.
    pub(crate) fn pop(&self) -> Option<(ScheduledRequest, u64)> {
        self.requests.borrow_mut().pop_front()
    }

    /// Waits for the next request. `None` when the queue is closed and empty.
    async fn next(&self) -> Option<(ScheduledRequest, u64)> {
        loop {
            let request = self.pop();
            if request.is_some() || self.is_closed.get() {
                return request;
            }
            self.changed.notified().await;
        }
    }
}

/// One client of a replica, which has at most one connection.
#[derive(Debug)]
pub(crate) struct ReplicaClient {
    pub(crate) queue: Rc<ReplicaQueue>,
    pub(crate) connection: Option<HttpConnection>,
}

impl ReplicaClient {
    /// Sends a request and waits for the response, on a new connection if the old one was closed.
    /// Also returns the time during which the request was in flight.
    pub(crate) async fn send(
        &mut self,
        plan: &LoadPlan,
        clock: &LoadClock,
        request: io::Result<HttpRequest>,
    ) -> Result<(TimeSpan, HttpResponse), RequestError> {
        // Without a response the connection is not used again.
        let mut connection = self.connection.take();
        let exchange = async {
            let request = request?;
            let is_usable = match &mut connection {
                Some(open) => open.is_usable().await,
                None => false,
            };
            let mut open = match connection.filter(|_| is_usable) {
                Some(open) => open,
                None => HttpConnection::open(&self.queue.replica, &self.queue.addresses).await?,
            };

            let from = Micros::new(clock.now_us());
            let response = open.send(request).await?;
            let to = Micros::new(clock.now_us_ceil());
            io::Result::Ok((open, TimeSpan { from, to }, response))
        };

        let result = timeout(plan.timeout, exchange).await;
        let (open, span, response) = result
            .map_err(|_| RequestError::Timeout(plan.timeout))?
            .map_err(RequestError::Connection)?;
        self.connection = Some(open);
        Ok((span, response))
    }

    /// Sends queued requests until the queue ends.
    pub(crate) async fn run(mut self, context: Rc<LoadContext>) {
        let LoadContext {
            plan,
            clock,
            record,
            ..
        } = &*context;

        while let Some((request, queued_us)) = self.queue.next().await {
            let now_us = clock.now_us();
            if now_us.saturating_sub(request.due_us) > micros(plan.timeout) {
                record.borrow_mut().record_unsent(request, now_us);
                continue;
            }

            let waited_us = now_us.saturating_sub(queued_us);
            record.borrow_mut().record_sent(waited_us);
            let result = self.decide(plan, clock, CHECK, request.params).await;
            record
                .borrow_mut()
                .record_result(request, clock.now_us(), &result);

            // Virtual clients do no work, so they release a permit right away.
            if let Ok((_, decision)) = result
                && let Some(permit) = decision.permit
            {
                let release = request::encode_release(&self.queue.replica, &permit);
                let _best_effort = self.send(plan, clock, release).await;
            }
        }
    }

    /// Sends a request of the plan to this path, and returns the decision about it.
    pub(crate) async fn decide(
        &mut self,
        plan: &LoadPlan,
        clock: &LoadClock,
        path: &str,
        params: RequestParams,
    ) -> Result<(TimeSpan, ResponseDecision), RequestError> {
        let encoded = request::encode(plan, &self.queue.replica, path, params);
        let (span, response) = self.send(plan, clock, encoded).await?;
        let decision = ResponseDecision::parse(&plan.request, &response)
            .ok_or_else(|| RequestError::Response(Box::new(response)))?;
        Ok((span, decision))
    }
}
