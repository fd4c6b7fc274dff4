//! The load itself: replicas are reached, requests leave when they are due, and at the end there is
//! a report.

use std::cell::RefCell;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;

use crate::clock::{Clock, since_epoch};
use crate::error::LoadError;
use crate::lane::{Lane, Shared, Worker, exchange, read, resolve};
use crate::plan::{Asking, Plan, Replica};
use crate::question::PEEK;
use crate::record::{Progress, Record, Shot, Times};
use crate::report::{Report, RetryReport};
use crate::retry;
use crate::timer::Timer;
use crate::wire::{Answer, Connection};

/// How often whoever watches is told.
const TICK: Duration = Duration::from_millis(100);
/// How long answers are waited for when somebody ends the load.
const LEAVING: Duration = Duration::from_millis(500);
/// After so many requests at once, answers are looked at.
const AT_ONCE: usize = 32;
/// Times and requests are drawn apart, so that one does not change with the other.
const TIMES_SEED: u64 = 0x7469_6d65;

/// Runs a load until its end, or until `stop` completes; `watch` is told how it goes.
///
/// Nothing else must be busy on this thread meanwhile.
pub async fn run(
    plan: Plan,
    stop: impl Future<Output = ()>,
    watch: impl FnMut(&Progress),
) -> Result<Report, LoadError> {
    LocalSet::new()
        .run_until(load(Rc::new(plan), pin!(stop), watch))
        .await
}

async fn load(
    plan: Rc<Plan>,
    mut stop: Pin<&mut impl Future<Output = ()>>,
    mut watch: impl FnMut(&Progress),
) -> Result<Report, LoadError> {
    let mut lanes = Vec::with_capacity(plan.replicas.len());
    for replica in &plan.replicas {
        lanes.push(Rc::new(reach(&plan, replica).await?));
    }
    let connections = connect(&plan, &lanes).await;
    let record = RefCell::new(Record::new(&plan));
    let shared = Rc::new(Shared {
        plan,
        timer: Timer::new(),
        clock: Clock::start(),
        record,
    });
    let mut workers = JoinSet::new();
    for (lane, connection) in connections {
        workers.spawn_local(
            Worker {
                shared: Rc::clone(&shared),
                lane,
                connection,
            }
            .work(),
        );
    }

    let mut tell = || watch(&shared.record.borrow_mut().progress(shared.clock.now_us()));
    let sending = async { watched(generate(&shared, &lanes), &mut tell).await };
    let ended_early = tokio::select! { () = sending => false, () = &mut stop => true };
    let sent_for = Duration::from_micros(shared.clock.now_us());
    lanes
        .iter()
        .for_each(|lane| lane.close(ended_early, &shared));
    let patience = if ended_early {
        LEAVING
    } else {
        shared.plan.timeout + LEAVING
    };
    let answers = async { while workers.join_next().await.is_some() {} };
    let _whoever_is_late_is_cut_off = timeout(patience, watched(answers, &mut tell)).await;
    lanes.iter().for_each(|lane| lane.close(true, &shared));
    let whole = Duration::from_micros(shared.clock.now_us());

    let mut retry_after = RetryReport::default();
    if !ended_early && !shared.plan.retry_budget.is_zero() {
        tokio::select! {
            report = watched(retry::tried(&shared, &lanes), &mut tell) => retry_after = report,
            () = &mut stop => {}
        }
    }
    let sending = if ended_early {
        sent_for
    } else {
        shared.plan.pace.duration
    };
    let report = shared.record.borrow().report(
        Times {
            sending,
            whole,
            ended_early,
        },
        retry_after,
    );
    decided(report)
}

/// Tells how it goes while something goes on.
async fn watched<T>(work: impl Future<Output = T>, tell: &mut impl FnMut()) -> T {
    let mut work = pin!(work);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            result = &mut work => return result,
            _ = ticks.tick() => tell(),
        }
    }
}

/// Hands over every request when it is due, whatever became of those before it.
async fn generate(shared: &Shared, lanes: &[Rc<Lane>]) {
    let plan = &shared.plan;
    let mut draws = plan.draws();
    let times = plan.pace.times_us(
        fastrand::Rng::with_seed(plan.seed ^ TIMES_SEED),
        since_epoch(),
    );
    for (number, due_us) in times.enumerate() {
        if number % AT_ONCE == AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
        let now_us = shared.timer.until(&shared.clock, due_us).await;
        let replica = number % lanes.len();
        let shot = Shot {
            due_us,
            ready_us: now_us,
            replica,
            draw: draws.next(),
        };
        let mut record = shared.record.borrow_mut();
        record.due(now_us - due_us);
        if !lanes[replica].push(shot) {
            record.unsent(now_us);
        }
    }
}

/// Finds a replica and sees that it is one, before thousands of requests go there.
async fn reach(plan: &Plan, replica: &Replica) -> Result<Lane, LoadError> {
    let no_answer = |reason: String| LoadError::NoAnswer {
        url: replica.to_string(),
        reason,
    };
    let there =
        |error: std::io::Error| no_answer(format!("{error}; is the service running there?"));
    let too_slow = |_| no_answer(format!("nothing came within {:?}", plan.timeout));
    let addresses = resolve(&replica.host, replica.port, plan.timeout)
        .await
        .map_err(there)?;
    let lane = Lane::new(replica.clone(), addresses, plan.replicas.len());
    let opened = timeout(plan.timeout, Connection::open(&lane.addresses))
        .await
        .map_err(too_slow)?;
    let mut connection = Some(opened.map_err(there)?);
    if matches!(plan.asking, Asking::Check { .. }) {
        let mut request = Vec::new();
        lane.question(plan)
            .write(plan.draws().next(), PEEK, &mut request);
        let clock = Clock::start();
        let asked = timeout(
            plan.timeout,
            exchange(&mut connection, &lane.addresses, &request, &clock),
        )
        .await;
        let (_, answer) = asked
            .map_err(too_slow)?
            .map_err(|error| no_answer(error.to_string()))?;
        if read(plan, &answer).is_none() {
            return Err(refusal(replica, &answer));
        }
    }
    Ok(lane)
}

/// What an answer that is no decision means.
fn refusal(replica: &Replica, answer: &Answer<'_>) -> LoadError {
    let (url, status) = (replica.to_string(), answer.head.status);
    let body: Option<serde_json::Value> = serde_json::from_slice(answer.body).ok();
    let detail = body.and_then(|body| Some(body.get("detail")?.as_str()?.to_owned()));
    match detail {
        Some(detail) if (400..500).contains(&status) && !matches!(status, 408 | 429) => {
            LoadError::Refused {
                url,
                status,
                detail,
            }
        }
        Some(detail) => LoadError::NoAnswer {
            url,
            reason: format!("it gave no decision ({status}): {detail}"),
        },
        None => {
            let reason = format!(
                "what came ({status}) is no decision; is this the HTTP port of tollgate serve?"
            );
            LoadError::NoAnswer { url, reason }
        }
    }
}

/// Opens all connections at once. One that cannot be opened now is tried again when it is needed.
async fn connect(plan: &Plan, lanes: &[Rc<Lane>]) -> Vec<(Rc<Lane>, Option<Connection>)> {
    let mut opening = JoinSet::new();
    let mut left = plan.connections.max(lanes.len());
    for round in 0..plan.connections_each() {
        for lane in lanes {
            if left == 0 && round > 0 {
                break;
            }
            left = left.saturating_sub(1);
            let (lane, patience) = (Rc::clone(lane), plan.timeout);
            opening.spawn_local(async move {
                let opened = timeout(patience, Connection::open(&lane.addresses)).await;
                (lane, opened.ok().and_then(Result::ok))
            });
        }
    }
    opening.join_all().await
}

/// A report, if there is anything to report.
fn decided(report: Report) -> Result<Report, LoadError> {
    let sent = report.requests.sent;
    if report.requests.answered > 0 {
        return Ok(report);
    }
    let reason = report
        .errors
        .first
        .unwrap_or_else(|| "none was sent in time".to_owned());
    Err(LoadError::NoDecision { sent, reason })
}
