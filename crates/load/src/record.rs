//! Records what happens during a load. Its size is fixed, whatever the number of requests.

#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::time::Duration;

use hdrhistogram::Histogram;
use tollgate::Micros;
use tollgate_audit::TimeSpan;

use crate::clock::micros;
use crate::generator::RequestParams;
use crate::judge::LimitJudge;
use crate::plan::{LoadPlan, Replica};
use crate::report::{
    ErrorCounts, GeneratorReport, LatencySummary, LoadReport, ReplicaReport, RequestCounts,
    RetryReport,
};
use crate::response::ResponseDecision;
use crate::timeline::{TimelineBuilder, histogram};

/// Requests that are sent later than this are counted as late.
const LATE_US: u64 = 10_000;
/// How many denials are sampled for testing retry times.
const DENIALS_MAX: usize = 64;

/// One request of the schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScheduledRequest {
    pub(crate) due_us: u64,
    /// When it started to wait for a connection.
    pub(crate) queued_us: u64,
    /// Index of the replica it is sent to.
    pub(crate) replica: usize,
    pub(crate) params: RequestParams,
}

/// Why a request got no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestFailure {
    Timeout,
    Connection,
    Response,
}

/// A snapshot of a load in progress.
#[derive(Clone, Debug)]
pub struct LoadProgress {
    /// Time since the load started.
    pub elapsed: Duration,
    /// Request counts so far.
    pub requests: RequestCounts,
    /// 99th percentile latency since the last snapshot, in microseconds. `None` without responses.
    pub p99_us: Option<u64>,
    /// Names of the limits exceeded so far.
    pub exceeded: Vec<String>,
}

/// The durations of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadDurations {
    /// Until the last request was due.
    pub(crate) sending: Duration,
    /// Until the last response arrived.
    pub(crate) total: Duration,
    pub(crate) ended_early: bool,
}

/// The counts and latencies of a load, and the judge of its limits.
#[derive(Debug)]
pub(crate) struct LoadRecord {
    plan: Rc<LoadPlan>,
    pub(crate) judge: LimitJudge,
    pub(crate) requests: RequestCounts,
    errors: ErrorCounts,
    generator: GeneratorReport,
    latency: Histogram<u64>,
    /// Latencies since the last progress snapshot.
    recent: Histogram<u64>,
    timeline: TimelineBuilder,
    replicas: Vec<ReplicaReport>,
    /// A random sample of the denied requests (reservoir sampling).
    denials: Vec<ScheduledRequest>,
    denials_seen: u64,
    random: fastrand::Rng,
}

impl LoadRecord {
    pub(crate) fn new(plan: &Rc<LoadPlan>) -> Self {
        let replica = |replica: &Replica| {
            let url = replica.to_string();
            ReplicaReport {
                url,
                decided: 0,
                allowed: 0,
                errors: 0,
            }
        };

        Self {
            plan: Rc::clone(plan),
            judge: LimitJudge::new(Rc::clone(plan)),
            requests: RequestCounts::default(),
            errors: ErrorCounts::default(),
            generator: GeneratorReport::default(),
            latency: histogram(3),
            recent: histogram(2),
            timeline: TimelineBuilder::new(plan.schedule.duration),
            replicas: plan.replicas.iter().map(replica).collect(),
            denials: Vec::new(),
            denials_seen: 0,
            random: fastrand::Rng::with_seed(plan.seed),
        }
    }

    /// Records that a request was queued, `behind_us` after it was due.
    pub(crate) fn record_due(&mut self, behind_us: u64) {
        self.requests.due += 1;
        self.generator.behind += u64::from(behind_us > LATE_US);
        self.generator.behind_max_us = self.generator.behind_max_us.max(behind_us);
    }

    /// Records a request that got no connection in time.
    pub(crate) fn record_unsent(&mut self, at_us: u64) {
        self.requests.unsent += 1;
        self.record_latency(at_us, micros(self.plan.timeout));
    }

    /// Records requests that were due but are not sent because the load was stopped.
    pub(crate) fn record_abandoned(&mut self, count: usize) {
        self.requests.unsent += u64::try_from(count).unwrap_or(u64::MAX);
    }

    /// Records that a request is sent, after waiting this long for a connection.
    pub(crate) fn record_sent(&mut self, waited_us: u64) {
        self.requests.sent += 1;
        self.generator.waited += u64::from(waited_us > LATE_US);
    }

    /// Records the decision on a request that was in flight during `span`.
    pub(crate) fn record_decision(
        &mut self,
        request: ScheduledRequest,
        span: TimeSpan,
        decision: &ResponseDecision<'_>,
    ) {
        let received_us = span.to.get();
        self.requests.decided += 1;
        self.requests.degraded += u64::from(decision.is_degraded);
        self.record_latency(received_us, received_us.saturating_sub(request.due_us));

        let step = self.timeline.step_at(received_us);
        if decision.is_allowed {
            step.allowed += 1;
            self.requests.allowed += 1;
            self.judge.record_admission(request.params, span, decision);
        } else {
            step.denied += 1;
            self.requests.denied += 1;
            if decision.retry_after_ms.is_some() {
                self.sample_denial(request);
            }
        }

        if let Some(replica) = self.replicas.get_mut(request.replica) {
            replica.decided += 1;
            replica.allowed += u64::from(decision.is_allowed);
        }
    }

    /// Records a request that got no decision.
    pub(crate) fn record_failure(
        &mut self,
        request: ScheduledRequest,
        at_us: u64,
        failure: RequestFailure,
        reason: impl FnOnce() -> String,
    ) {
        self.requests.errors += 1;
        let count = match failure {
            RequestFailure::Timeout => &mut self.errors.timeout,
            RequestFailure::Connection => &mut self.errors.connection,
            RequestFailure::Response => &mut self.errors.response,
        };
        *count += 1;
        if self.errors.first.is_none() {
            self.errors.first = Some(reason());
        }

        self.timeline.step_at(at_us).errors += 1;
        if failure == RequestFailure::Timeout {
            self.record_latency(at_us, at_us.saturating_sub(request.due_us));
        }
        if let Some(replica) = self.replicas.get_mut(request.replica) {
            replica.errors += 1;
        }
    }

    /// A uniform random sample of the denied requests that have a retry time.
    pub(crate) fn denials(&self) -> &[ScheduledRequest] {
        &self.denials
    }

    pub(crate) fn progress(&mut self, now_us: u64) -> LoadProgress {
        let p99_us = (!self.recent.is_empty()).then(|| self.recent.value_at_quantile(0.99));
        self.recent.reset();

        LoadProgress {
            elapsed: Duration::from_micros(now_us),
            requests: self.requests,
            p99_us,
            exceeded: self.judge.exceeded().map(str::to_owned).collect(),
        }
    }

    /// The report at the end of the load.
    pub(crate) fn report(&self, durations: LoadDurations, retry_after: RetryReport) -> LoadReport {
        let LoadDurations {
            sending: duration,
            total,
            ended_early,
        } = durations;
        let requests = self.requests;
        let late = self.generator.behind + self.generator.waited + requests.unsent;

        LoadReport {
            duration_s: duration.as_secs_f64(),
            ended_early,
            requests,
            decided_per_s: per_second(requests.decided, total),
            latency_us: self.latency_summary(),
            errors: self.errors.clone(),
            generator: GeneratorReport {
                kept_up: late.saturating_mul(1_000) <= requests.due,
                ..self.generator
            },
            replicas: self.replicas.clone(),
            limits: self.judge.limit_reports(),
            untracked: self.judge.untracked_admissions(),
            retry_after,
            timeline: self.timeline.timeline(duration),
        }
    }

    fn record_latency(&mut self, at_us: u64, latency_us: u64) {
        self.latency.saturating_record(latency_us);
        self.recent.saturating_record(latency_us);
        self.timeline
            .step_at(at_us)
            .latency
            .saturating_record(latency_us);
    }

    fn sample_denial(&mut self, request: ScheduledRequest) {
        self.denials_seen += 1;
        if self.denials.len() < DENIALS_MAX {
            self.denials.push(request);
        } else if let Ok(index) = usize::try_from(self.random.u64(..self.denials_seen))
            && let Some(sampled) = self.denials.get_mut(index)
        {
            *sampled = request;
        }
    }

    fn latency_summary(&self) -> Option<LatencySummary> {
        let at = |quantile| self.latency.value_at_quantile(quantile);
        (!self.latency.is_empty()).then(|| LatencySummary {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: self.latency.max(),
            mean: self.latency.mean(),
        })
    }
}

/// The time during which a request was in flight.
pub(crate) const fn span(sent_us: u64, received_us: u64) -> TimeSpan {
    TimeSpan {
        from: Micros::new(sent_us),
        to: Micros::new(received_us),
    }
}

#[expect(clippy::cast_precision_loss, reason = "the rate is only displayed")]
fn per_second(count: u64, duration: Duration) -> f64 {
    if duration.is_zero() {
        0.0
    } else {
        count as f64 / duration.as_secs_f64()
    }
}
