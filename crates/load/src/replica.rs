//! One replica: the queue of requests to it, and the connections that send them.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::clock::{LoadClock, micros};
use crate::http::{HttpConnection, HttpResponse};
use crate::plan::{LoadPlan, Replica, RequestKind};
use crate::record::{LoadRecord, RequestFailure, ScheduledRequest, span};
use crate::request::{CHECK, RequestWriter};
use crate::response::{ResponseDecision, parse_application_response, parse_check_response};
use crate::timer::PreciseTimer;

/// The maximum number of requests that wait for a connection, over all replicas.
const QUEUED_MAX: usize = 1 << 16;

/// The requests that wait for a connection to one replica.
#[derive(Debug)]
pub(crate) struct ReplicaQueue {
    pub(crate) replica: Replica,
    pub(crate) addresses: Vec<SocketAddr>,
    requests: RefCell<VecDeque<ScheduledRequest>>,
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

impl LoadContext {
    /// Starts the clock of a load.
    pub(crate) fn start(plan: Rc<LoadPlan>) -> Self {
        let record = RefCell::new(LoadRecord::new(&plan));
        Self {
            plan,
            timer: PreciseTimer::new(),
            clock: LoadClock::start(),
            record,
        }
    }
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

    /// A writer of requests to this replica.
    pub(crate) const fn writer<'q>(&'q self, plan: &'q LoadPlan) -> RequestWriter<'q> {
        RequestWriter {
            plan,
            replica: &self.replica,
        }
    }

    /// Adds a request. Returns false if the queue is full.
    pub(crate) fn push(&self, request: ScheduledRequest) -> bool {
        let mut requests = self.requests.borrow_mut();
        if requests.len() >= self.requests_max {
            return false;
        }

        requests.push_back(request);
        self.changed.notify_one();
        true
    }

    /// Ends the queue: workers stop once it is empty. With `discard`, queued requests are dropped
    /// and counted as unsent.
    pub(crate) fn close(&self, discard: bool, context: &LoadContext) {
        self.is_closed.set(true);
        self.changed.notify_waiters();
        if discard {
            let count = self.requests.borrow_mut().drain(..).count();
            context.record.borrow_mut().record_abandoned(count);
        }
    }

    /// Waits for the next request. `None` when the queue is closed and empty.
    async fn next(&self) -> Option<ScheduledRequest> {
        loop {
            if let Some(request) = self.requests.borrow_mut().pop_front() {
                return Some(request);
            }
            if self.is_closed.get() {
                return None;
            }
            self.changed.notified().await;
        }
    }
}

/// One connection to a replica, which sends queued requests until the queue ends.
#[derive(Debug)]
pub(crate) struct ConnectionWorker {
    pub(crate) context: Rc<LoadContext>,
    pub(crate) queue: Rc<ReplicaQueue>,
    pub(crate) connection: Option<HttpConnection>,
}

impl ConnectionWorker {
    pub(crate) async fn run(mut self) {
        let timeout_us = micros(self.context.plan.timeout);
        let mut buffer = Vec::new();

        while let Some(request) = self.queue.next().await {
            let now_us = self.context.clock.now_us();
            if now_us.saturating_sub(request.due_us) > timeout_us {
                self.context.record.borrow_mut().record_unsent(now_us);
                continue;
            }

            let waited_us = now_us.saturating_sub(request.queued_us);
            self.context.record.borrow_mut().record_sent(waited_us);
            self.send(request, &mut buffer).await;
        }
    }

    async fn send(&mut self, request: ScheduledRequest, buffer: &mut Vec<u8>) {
        let LoadContext {
            plan,
            clock,
            record,
            ..
        } = &*self.context;
        self.queue.writer(plan).write(request.params, CHECK, buffer);

        let response = timeout(
            plan.timeout,
            exchange(&mut self.connection, &self.queue.addresses, buffer, clock),
        )
        .await;
        let (failure, reason) = match response {
            Ok(Ok((sent_us, response))) => {
                let received_us = clock.now_us_ceil();
                let Some(decision) = parse_response(plan, &response) else {
                    let reason = || format!("status {} without a decision", response.head.status);
                    record.borrow_mut().record_failure(
                        request,
                        received_us,
                        RequestFailure::Response,
                        reason,
                    );
                    return;
                };

                record
                    .borrow_mut()
                    .record_decision(request, span(sent_us, received_us), &decision);
                if let Some(permit_token) = decision.permit.map(Cow::into_owned) {
                    self.release(&permit_token, buffer).await;
                }
                return;
            }
            Ok(Err(error)) => (RequestFailure::Connection, error.to_string()),
            Err(_) => (
                RequestFailure::Timeout,
                format!("no response within {:?}", plan.timeout),
            ),
        };

        self.connection = None;
        record
            .borrow_mut()
            .record_failure(request, clock.now_us(), failure, || reason);
    }

    /// Releases a permit right after it was acquired: virtual clients do no work.
    async fn release(&mut self, permit_token: &str, buffer: &mut Vec<u8>) {
        let LoadContext { plan, clock, .. } = &*self.context;
        self.queue.writer(plan).write_release(permit_token, buffer);
        let response = exchange(&mut self.connection, &self.queue.addresses, buffer, clock);
        if !matches!(timeout(plan.timeout, response).await, Ok(Ok(_))) {
            self.connection = None;
        }
    }
}

/// Sends a request and waits for the response, on a new connection if the old one was closed. Also
/// returns the time just before the request was sent.
pub(crate) async fn exchange<'c>(
    connection: &'c mut Option<HttpConnection>,
    addresses: &[SocketAddr],
    request: &[u8],
    clock: &LoadClock,
) -> io::Result<(u64, HttpResponse<'c>)> {
    if connection.as_ref().is_some_and(HttpConnection::is_closed) {
        *connection = None;
    }
    let open = match connection {
        Some(open) => open,
        None => connection.insert(HttpConnection::open(addresses).await?),
    };

    let sent_us = clock.now_us();
    Ok((sent_us, open.send(request).await?))
}

/// The decision in a response, or `None` if it has none.
pub(crate) fn parse_response<'a>(
    plan: &LoadPlan,
    response: &HttpResponse<'a>,
) -> Option<ResponseDecision<'a>> {
    match plan.request {
        RequestKind::Check { .. } => parse_check_response(response),
        RequestKind::Get { .. } => parse_application_response(response),
    }
}

/// Resolves the addresses of a host.
pub(crate) async fn resolve(host: &str, port: u16, limit: Duration) -> io::Result<Vec<SocketAddr>> {
    let addresses: Vec<SocketAddr> = timeout(limit, tokio::net::lookup_host((host, port)))
        .await??
        .collect();
    if addresses.is_empty() {
        Err(io::Error::other("the host name has no address"))
    } else {
        Ok(addresses)
    }
}
