//! Runs a load: connects to the replicas, sends each request when it is due, and reports.

use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;

use crate::clock::{LoadClock, since_epoch};
use crate::error::LoadError;
use crate::http::{HttpConnection, HttpResponse};
use crate::plan::{LoadPlan, Replica, RequestKind};
use crate::record::{LoadDurations, LoadProgress, ScheduledRequest};
use crate::replica::{
    ConnectionWorker, LoadContext, ReplicaQueue, exchange, parse_response, resolve,
};
use crate::report::{LoadReport, RetryReport};
use crate::request::PEEK;
use crate::retry;

/// Interval between progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// How long to wait for outstanding responses when the load is stopped early.
const STOP_GRACE: Duration = Duration::from_millis(500);
/// After this many requests in a row, the generator yields so that responses are processed.
const YIELD_EVERY: usize = 32;
/// Times and requests use separate random sequences, so that one does not depend on the other.
const TIMES_SEED: u64 = 0x7469_6d65;

/// Runs a load until its end, or until `stop` completes. `on_progress` is called about ten times
/// per second.
///
/// Nothing else should run on this thread in the meantime, as that would distort latencies.
pub async fn run(
    plan: LoadPlan,
    stop: impl Future<Output = ()>,
    on_progress: impl FnMut(&LoadProgress),
) -> Result<LoadReport, LoadError> {
    LocalSet::new()
        .run_until(load(Rc::new(plan), pin!(stop), on_progress))
        .await
}

async fn load(
    plan: Rc<LoadPlan>,
    mut stop: Pin<&mut impl Future<Output = ()>>,
    mut on_progress: impl FnMut(&LoadProgress),
) -> Result<LoadReport, LoadError> {
    let queues = probe_replicas(&plan).await?;

    // Open the connections before the clock starts.
    let connections = open_connections(&plan, &queues).await;
    let context = Rc::new(LoadContext::start(plan));
    let mut workers = spawn_workers(&context, connections);

    // Send requests until the schedule ends or the load is stopped.
    let mut report_progress = || {
        let now_us = context.clock.now_us();
        on_progress(&context.record.borrow_mut().progress(now_us));
    };
    let sending = async {
        with_progress(send_scheduled(&context, &queues), &mut report_progress).await;
    };
    let ended_early = tokio::select! { () = sending => false, () = &mut stop => true };
    let sent_for = Duration::from_micros(context.clock.now_us());

    let responses = await_responses(&context, &queues, &mut workers, ended_early);
    with_progress(responses, &mut report_progress).await;
    let total = Duration::from_micros(context.clock.now_us());

    let mut retry_after = RetryReport::default();
    if !ended_early && !context.plan.retry_budget.is_zero() {
        let probes = retry::probe_retry_times(&context, &queues);
        tokio::select! {
            report = with_progress(probes, &mut report_progress) => retry_after = report,
            () = &mut stop => {}
        }
    }

    let durations = LoadDurations {
        sending: if ended_early {
            sent_for
        } else {
            context.plan.schedule.duration
        },
        total,
        ended_early,
    };
    let report = context.record.borrow().report(durations, retry_after);
    require_decision(report)
}

/// Spawns a worker for each connection.
fn spawn_workers(
    context: &Rc<LoadContext>,
    connections: Vec<(Rc<ReplicaQueue>, Option<HttpConnection>)>,
) -> JoinSet<()> {
    let mut workers = JoinSet::new();

    for (queue, connection) in connections {
        let worker = ConnectionWorker {
            context: Rc::clone(context),
            queue,
            connection,
        };
        workers.spawn_local(worker.run());
    }
    workers
}

/// Closes the queues and waits for outstanding responses, but not forever.
async fn await_responses(
    context: &LoadContext,
    queues: &[Rc<ReplicaQueue>],
    workers: &mut JoinSet<()>,
    ended_early: bool,
) {
    let close = |discard: bool| {
        queues
            .iter()
            .for_each(|queue| queue.close(discard, context));
    };
    let grace = if ended_early {
        STOP_GRACE
    } else {
        context.plan.timeout + STOP_GRACE
    };

    close(ended_early);
    let responses = async { while workers.join_next().await.is_some() {} };
    let _timed_out = timeout(grace, responses).await;
    close(true);
}

/// Runs `work` and reports progress in the meantime.
async fn with_progress<T>(work: impl Future<Output = T>, report: &mut impl FnMut()) -> T {
    let mut work = pin!(work);
    let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            result = &mut work => return result,
            _ = ticks.tick() => report(),
        }
    }
}

/// Queues each request when it is due, whatever became of the earlier ones.
async fn send_scheduled(context: &LoadContext, queues: &[Rc<ReplicaQueue>]) {
    let plan = &context.plan;
    let mut generator = plan.generator();
    let times = plan.schedule.times_us(
        fastrand::Rng::with_seed(plan.seed ^ TIMES_SEED),
        since_epoch(),
    );

    for (number, due_us) in times.enumerate() {
        if number % YIELD_EVERY == YIELD_EVERY - 1 {
            tokio::task::yield_now().await;
        }

        let now_us = context.timer.until(&context.clock, due_us).await;
        let replica = number % queues.len();
        let request = ScheduledRequest {
            due_us,
            queued_us: now_us,
            replica,
            params: generator.next(),
        };

        let mut record = context.record.borrow_mut();
        record.record_due(now_us - due_us);
        if !queues[replica].push(request) {
            record.record_unsent(now_us);
        }
    }
}

/// Probes all replicas, one after the other.
async fn probe_replicas(plan: &LoadPlan) -> Result<Vec<Rc<ReplicaQueue>>, LoadError> {
    let mut queues = Vec::with_capacity(plan.replicas.len());
    for replica in &plan.replicas {
        queues.push(Rc::new(probe_replica(plan, replica).await?));
    }
    Ok(queues)
}

/// Resolves a replica, connects to it, and sends one peek, so that mistakes are reported before
/// thousands of requests are sent.
async fn probe_replica(plan: &LoadPlan, replica: &Replica) -> Result<ReplicaQueue, LoadError> {
    let unavailable = |reason: String| LoadError::Unavailable {
        url: replica.to_string(),
        reason,
    };
    let unreachable =
        |error: std::io::Error| unavailable(format!("{error}; is the service running there?"));
    let timed_out = |_| unavailable(format!("timed out after {:?}", plan.timeout));

    let addresses = resolve(&replica.host, replica.port, plan.timeout)
        .await
        .map_err(unreachable)?;
    let queue = ReplicaQueue::new(replica.clone(), addresses, plan.replicas.len());
    let opened = timeout(plan.timeout, HttpConnection::open(&queue.addresses))
        .await
        .map_err(timed_out)?;
    let mut connection = Some(opened.map_err(unreachable)?);

    if matches!(plan.request, RequestKind::Check { .. }) {
        let mut request = Vec::new();
        queue
            .writer(plan)
            .write(plan.generator().next(), PEEK, &mut request);
        let clock = LoadClock::start();
        let response = timeout(
            plan.timeout,
            exchange(&mut connection, &queue.addresses, &request, &clock),
        )
        .await;
        let (_, response) = response
            .map_err(timed_out)?
            .map_err(|error| unavailable(error.to_string()))?;
        if parse_response(plan, &response).is_none() {
            return Err(response_error(replica, &response));
        }
    }

    Ok(queue)
}

/// The error for a response that is not a decision.
fn response_error(replica: &Replica, response: &HttpResponse<'_>) -> LoadError {
    let (url, status) = (replica.to_string(), response.head.status);
    let body: Option<serde_json::Value> = serde_json::from_slice(response.body).ok();
    let detail = body.and_then(|body| Some(body.get("detail")?.as_str()?.to_owned()));

    match detail {
        Some(detail) if (400..500).contains(&status) && !matches!(status, 408 | 429) => {
            LoadError::Rejected {
                url,
                status,
                detail,
            }
        }
        Some(detail) => LoadError::Unavailable {
            url,
            reason: format!("status {status}: {detail}"),
        },
        None => {
            let reason = format!(
                "unexpected response with status {status}; \
                 is this the HTTP port of `tollgate serve`?"
            );
            LoadError::Unavailable { url, reason }
        }
    }
}

/// Opens all connections concurrently. Those that fail are opened again when they are needed.
async fn open_connections(
    plan: &LoadPlan,
    queues: &[Rc<ReplicaQueue>],
) -> Vec<(Rc<ReplicaQueue>, Option<HttpConnection>)> {
    let mut opening = JoinSet::new();
    let mut left = plan.connections.max(queues.len());

    for round in 0..plan.connections_per_replica() {
        for queue in queues {
            if left == 0 && round > 0 {
                break;
            }
            left = left.saturating_sub(1);
            let (queue, limit) = (Rc::clone(queue), plan.timeout);
            opening.spawn_local(async move {
                let opened = timeout(limit, HttpConnection::open(&queue.addresses)).await;
                (queue, opened.ok().and_then(Result::ok))
            });
        }
    }
    opening.join_all().await
}

/// Turns a report without any decision into an error.
fn require_decision(report: LoadReport) -> Result<LoadReport, LoadError> {
    let sent = report.requests.sent;
    if report.requests.decided > 0 {
        return Ok(report);
    }

    let reason = report
        .errors
        .first
        .unwrap_or_else(|| "no request was sent in time".to_owned());
    Err(LoadError::NoDecision { sent, reason })
}
