//! Runs a load: connects to the replicas, sends each request when it is due, and reports.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;

use crate::clock::{LoadClock, PreciseTimer};
use crate::error::{LoadError, RequestError};
use crate::generator::ScheduledRequest;
use crate::http::{HttpConnection, HttpResponse};
use crate::plan::{LoadPlan, Replica, RequestKind};
use crate::record::{LoadProgress, LoadRecord, TracedRequest};
use crate::replica::{LoadContext, ReplicaClient, ReplicaQueue};
use crate::report::{LoadReport, RetryReport};
use crate::request::PEEK;
use crate::retry;

/// Interval between progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// How long to wait for outstanding responses when the load is stopped early.
const STOP_GRACE: Duration = Duration::from_millis(500);
/// After this many requests in a row, the generator yields so that responses are processed.
const YIELD_EVERY: usize = 32;

/// Runs a load until its end, or until `stop` completes. `on_progress` is called about ten times
/// per second.
///
/// Nothing else should run on this thread in the meantime, as that would distort latencies.
pub async fn run(
    plan: LoadPlan,
    stop: impl Future<Output = ()>,
    on_progress: impl FnMut(&LoadProgress),
) -> Result<LoadReport, LoadError> {
    let load = async {
        let load = Load::start(plan).await?;
        require_decision(load.report(pin!(stop), on_progress).await)
    };
    LocalSet::new().run_until(load).await
}

/// Runs a load of the requests that `requests` returns, in the order in which they are due, and
/// returns what became of each. The argument of `requests` is the time since the Unix epoch at
/// which the load starts. The plan's own schedule, keys, addresses and costs are not used.
///
/// Nothing else should run on this thread in the meantime.
pub async fn run_traced<R: IntoIterator<Item = ScheduledRequest>>(
    plan: LoadPlan,
    requests: impl FnOnce(Duration) -> R,
) -> Result<Vec<TracedRequest>, LoadError> {
    let load = async {
        let mut load = Load::start(plan).await?;
        load.context.record.borrow_mut().trace = Some(Vec::new());
        load.send(requests(load.context.clock.epoch)).await;
        load.await_responses(false).await;
        let trace = load.context.record.borrow_mut().trace.take();
        Ok(trace.unwrap_or_default())
    };
    LocalSet::new().run_until(load).await
}

/// A load whose connections are open.
struct Load {
    context: Rc<LoadContext>,
    queues: Vec<Rc<ReplicaQueue>>,
    workers: JoinSet<()>,
}

impl Load {
    /// Probes the replicas, opens all connections, and then starts the clock.
    async fn start(plan: LoadPlan) -> Result<Self, LoadError> {
        let mut queues = Vec::with_capacity(plan.replicas.len());
        for replica in &plan.replicas {
            queues.push(probe_replica(&plan, replica).await?);
        }

        let clients = open_connections(&plan, &queues).await;
        let plan = Rc::new(plan);
        let context = Rc::new(LoadContext {
            record: RefCell::new(LoadRecord::new(&plan)),
            timer: PreciseTimer::new(),
            clock: LoadClock::start(),
            plan,
        });

        let mut workers = JoinSet::new();
        for client in clients {
            workers.spawn_local(client.run(Rc::clone(&context)));
        }
        Ok(Self {
            context,
            queues,
            workers,
        })
    }

    /// Runs the plan until its end, or until `stop` completes.
    async fn report(
        mut self,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        mut on_progress: impl FnMut(&LoadProgress),
    ) -> LoadReport {
        let context = Rc::clone(&self.context);
        let LoadContext {
            plan,
            clock,
            record,
            ..
        } = &*context;
        let mut on_tick = || on_progress(&record.borrow_mut().progress(clock.now_us()));

        // Send requests until the schedule ends or the load is stopped.
        let sending = with_ticks(self.send(plan.requests(clock.epoch)), &mut on_tick);
        let ended_early = tokio::select! { () = sending => false, () = &mut stop => true };
        let sending = if ended_early {
            Duration::from_micros(clock.now_us())
        } else {
            plan.schedule.duration
        };

        with_ticks(self.await_responses(ended_early), &mut on_tick).await;
        let total = Duration::from_micros(clock.now_us());

        let mut retry_after = RetryReport::default();
        if !ended_early && !plan.retry_budget.is_zero() {
            let probes = retry::probe_retry_times(&context, &self.queues);
            tokio::select! {
                report = with_ticks(probes, &mut on_tick) => retry_after = report,
                () = &mut stop => {}
            }
        }
        LoadReport {
            ended_early,
            retry_after,
            ..record.borrow().report(sending, total)
        }
    }

    /// Queues each request when it is due, whatever became of the earlier ones.
    async fn send(&self, requests: impl IntoIterator<Item = ScheduledRequest>) {
        let LoadContext {
            clock,
            timer,
            record,
            ..
        } = &*self.context;

        for (number, request) in requests.into_iter().enumerate() {
            if number % YIELD_EVERY == YIELD_EVERY - 1 {
                tokio::task::yield_now().await;
            }

            let now_us = timer.until(clock, request.due_us).await;
            let mut record = record.borrow_mut();
            record.record_due(now_us - request.due_us);
            if !self.queues[request.replica].push(request, now_us) {
                record.record_unsent(request, now_us);
            }
        }
    }

    /// Closes the queues and waits for outstanding responses, but not forever.
    async fn await_responses(&mut self, ended_early: bool) {
        let LoadContext { plan, record, .. } = &*self.context;
        let discard = || {
            let queues = self.queues.iter();
            let requests = queues.flat_map(|queue| std::iter::from_fn(|| queue.pop()));
            requests.for_each(|(request, _)| record.borrow_mut().record_abandoned(request));
        };

        self.queues.iter().for_each(|queue| queue.close());
        let mut grace = STOP_GRACE;
        if ended_early {
            discard();
        } else {
            grace += plan.timeout;
        }

        let responses = async { while self.workers.join_next().await.is_some() {} };
        let _timed_out = timeout(grace, responses).await;
        discard();
    }
}

/// Runs `work`, and calls `on_tick` in the meantime.
async fn with_ticks<T>(work: impl Future<Output = T>, on_tick: &mut impl FnMut()) -> T {
    let mut work = pin!(work);
    let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            result = &mut work => return result,
            _ = ticks.tick() => on_tick(),
        }
    }
}

/// Resolves a replica, connects to it, and sends one peek, so that mistakes are reported before
/// thousands of requests are sent.
async fn probe_replica(plan: &LoadPlan, replica: &Replica) -> Result<Rc<ReplicaQueue>, LoadError> {
    let unavailable = |reason: String| LoadError::Unavailable {
        url: replica.to_string(),
        reason,
    };
    let unreachable =
        |error: io::Error| unavailable(format!("{error}; is the service running there?"));
    let timed_out = || unavailable(format!("timed out after {:?}", plan.timeout));

    let addresses = resolve(replica, plan.timeout).await.map_err(unreachable)?;
    let queue = ReplicaQueue::new(replica.clone(), addresses, plan.replicas.len());
    let queue = Rc::new(queue);
    let opening = HttpConnection::open(&queue.replica, &queue.addresses);
    let opened = timeout(plan.timeout, opening).await;
    let mut client = ReplicaClient {
        queue: Rc::clone(&queue),
        connection: Some(opened.map_err(|_| timed_out())?.map_err(unreachable)?),
    };

    if matches!(plan.request, RequestKind::Check { .. }) {
        let (clock, params) = (LoadClock::start(), plan.generator().next());
        let decision = client.decide(plan, &clock, PEEK, params).await;
        decision.map_err(|error| match error {
            RequestError::Timeout(_) => timed_out(),
            RequestError::Connection(error) => unavailable(error.to_string()),
            RequestError::Response(response) => response_error(replica, &response),
        })?;
    }
    Ok(queue)
}

/// Resolves the addresses of a host.
async fn resolve(replica: &Replica, limit: Duration) -> io::Result<Vec<SocketAddr>> {
    let lookup = tokio::net::lookup_host((replica.host.as_str(), replica.port));
    let addresses: Vec<SocketAddr> = timeout(limit, lookup).await??.collect();
    if addresses.is_empty() {
        return Err(io::Error::other("the host name has no address"));
    }
    Ok(addresses)
}

/// The error for a response that is not a decision.
fn response_error(replica: &Replica, response: &HttpResponse) -> LoadError {
    let (url, status) = (replica.to_string(), response.status().as_u16());
    let body: Option<serde_json::Value> = serde_json::from_slice(response.body()).ok();
    let detail = body.and_then(|body| Some(body.get("detail")?.as_str()?.to_owned()));

    let reason = match detail {
        Some(detail) if (400..500).contains(&status) && !matches!(status, 408 | 429) => {
            return LoadError::Rejected {
                url,
                status,
                detail,
            };
        }
        Some(detail) => format!("status {status}: {detail}"),
        None => format!(
            "unexpected response with status {status}; \
             is this the HTTP port of `tollgate serve`?"
        ),
    };
    LoadError::Unavailable { url, reason }
}

/// Opens all connections concurrently, to one replica after the other. Those that fail are opened
/// again when they are needed.
async fn open_connections(plan: &LoadPlan, queues: &[Rc<ReplicaQueue>]) -> Vec<ReplicaClient> {
    let mut opening = JoinSet::new();
    let count = plan.connections.max(queues.len());

    for queue in queues.iter().cycle().take(count) {
        let (queue, limit) = (Rc::clone(queue), plan.timeout);
        opening.spawn_local(async move {
            let opening = HttpConnection::open(&queue.replica, &queue.addresses);
            let opened = timeout(limit, opening).await;
            ReplicaClient {
                queue,
                connection: opened.ok().and_then(Result::ok),
            }
        });
    }
    opening.join_all().await
}

/// Turns a report without any decision into an error.
fn require_decision(report: LoadReport) -> Result<LoadReport, LoadError> {
    if report.requests.decided > 0 {
        return Ok(report);
    }

    let no_error = || "no request was sent in time".to_owned();
    Err(LoadError::NoDecision {
        sent: report.requests.sent,
        reason: report.errors.first.unwrap_or_else(no_error),
    })
}
