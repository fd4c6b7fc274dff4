//! Records what happens during a load. Its size is fixed, whatever the number of requests.

#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::time::Duration;

use hdrhistogram::Histogram;
use tollgate_audit::TimeSpan;

use crate::clock::micros;
use crate::error::RequestError;
use crate::generator::ScheduledRequest;
use crate::judge::LimitJudge;
use crate::plan::{LoadPlan, Replica};
use crate::report::{
    GeneratorReport, LatencySummary, LoadReport, LoadTimeline, ReplicaReport, RequestCounts,
    latency_histogram,
};
use crate::response::{DecisionSource, ResponseDecision};

/// Requests that are sent later than this are counted as late.
const LATE_US: u64 = 10_000;
/// Number of steps of the timeline, whatever the duration of the load.
const STEPS: usize = 60;
/// How many denials are sampled for testing retry times.
const DENIALS_MAX: usize = 64;

/// A request of a traced load, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedRequest {
    /// The request.
    pub request: ScheduledRequest,
    /// `None` if it was not sent in time, or got no decision.
    pub decision: Option<TracedDecision>,
}

/// The decision about a traced request. Times are microseconds since the load started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedDecision {
    /// When it was sent, rounded down.
    pub sent_us: u64,
    /// When its response had arrived, rounded up.
    pub received_us: u64,
    /// Whether it was allowed.
    pub is_allowed: bool,
    /// What decided.
    pub source: DecisionSource,
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

/// The counts and latencies of a load, and the judge of its limits.
#[derive(Debug)]
pub(crate) struct LoadRecord {
    plan: Rc<LoadPlan>,
    pub(crate) judge: LimitJudge,
    /// The counts so far. The rest is added at the end.
    report: LoadReport,
    latency: Histogram<u64>,
    /// Latencies since the last progress snapshot.
    recent: Histogram<u64>,
    /// Latencies in each step of the timeline.
    steps: Vec<Histogram<u64>>,
    step_us: u64,
    /// A random sample of the denied requests (reservoir sampling).
    denials: Vec<ScheduledRequest>,
    denials_seen: u64,
    random: fastrand::Rng,
    /// Every request, if the load is traced. This is the only part whose size is not fixed.
    pub(crate) trace: Option<Vec<TracedRequest>>,
}

impl LoadRecord {
    pub(crate) fn new(plan: &Rc<LoadPlan>) -> Self {
        let replica = |replica: &Replica| ReplicaReport {
            url: replica.to_string(),
            ..ReplicaReport::default()
        };
        let step_us = (micros(plan.schedule.duration) / STEPS as u64).max(1);
        let report = LoadReport {
            replicas: plan.replicas.iter().map(replica).collect(),
            timeline: LoadTimeline {
                step_s: Duration::from_micros(step_us).as_secs_f64(),
                allowed: vec![0; STEPS],
                denied: vec![0; STEPS],
                errors: vec![0; STEPS],
                p99_us: Vec::new(),
            },
            ..LoadReport::default()
        };

        Self {
            plan: Rc::clone(plan),
            judge: LimitJudge::new(Rc::clone(plan)),
            report,
            latency: latency_histogram(3),
            recent: latency_histogram(2),
            steps: vec![latency_histogram(2); STEPS],
            step_us,
            denials: Vec::new(),
            denials_seen: 0,
            random: fastrand::Rng::with_seed(plan.seed),
            trace: None,
        }
    }

    /// Records that a request was queued, `behind_us` after it was due.
    pub(crate) fn record_due(&mut self, behind_us: u64) {
        self.report.requests.due += 1;
        let generator = &mut self.report.generator;
        generator.behind += u64::from(behind_us > LATE_US);
        generator.behind_max_us = generator.behind_max_us.max(behind_us);
    }

    /// Records a request that got no connection in time.
    pub(crate) fn record_unsent(&mut self, request: ScheduledRequest, at_us: u64) {
        self.record_abandoned(request);
        self.record_latency(at_us, micros(self.plan.timeout));
    }

    /// Records a request that was due but is not sent because the load was stopped.
    pub(crate) fn record_abandoned(&mut self, request: ScheduledRequest) {
        self.report.requests.unsent += 1;
        self.record_trace(request, None);
    }

    /// Records that a request is sent, after waiting this long for a connection.
    pub(crate) fn record_sent(&mut self, waited_us: u64) {
        self.report.requests.sent += 1;
        self.report.generator.waited += u64::from(waited_us > LATE_US);
    }

    /// Records the decision on a request and the time during which it was in flight, or why it got
    /// none by `now_us`.
    pub(crate) fn record_result(
        &mut self,
        request: ScheduledRequest,
        now_us: u64,
        result: &Result<(TimeSpan, ResponseDecision), RequestError>,
    ) {
        match result {
            Ok((span, decision)) => self.record_decision(request, *span, decision),
            Err(error) => self.record_error(request, now_us, error),
        }
    }

    fn record_decision(
        &mut self,
        request: ScheduledRequest,
        span: TimeSpan,
        decision: &ResponseDecision,
    ) {
        let received_us = span.to.get();
        self.record_latency(received_us, received_us.saturating_sub(request.due_us));
        let step = self.step_at(received_us);
        let LoadReport {
            requests, timeline, ..
        } = &mut self.report;
        requests.decided += 1;
        requests.degraded += u64::from(decision.is_degraded);

        if decision.is_allowed {
            timeline.allowed[step] += 1;
            requests.allowed += 1;
            let is_limited = self.judge.record_admission(request.params, span, decision);
            requests.unlimited += u64::from(!is_limited);
            requests.unchecked += u64::from(decision.is_unchecked);
        } else {
            timeline.denied[step] += 1;
            requests.denied += 1;
            if decision.retry_after_ms.is_some() {
                self.sample_denial(request);
            }
        }

        let replica = &mut self.report.replicas[request.replica];
        replica.decided += 1;
        replica.allowed += u64::from(decision.is_allowed);
        let traced = TracedDecision {
            sent_us: span.from.get(),
            received_us,
            is_allowed: decision.is_allowed,
            source: decision.source,
        };
        self.record_trace(request, Some(traced));
    }

    fn record_error(&mut self, request: ScheduledRequest, at_us: u64, error: &RequestError) {
        let step = self.step_at(at_us);
        self.report.requests.errors += 1;
        self.report.timeline.errors[step] += 1;
        let errors = &mut self.report.errors;
        match error {
            RequestError::Timeout(_) => errors.timeout += 1,
            RequestError::Connection(_) => errors.connection += 1,
            RequestError::Response(_) => errors.response += 1,
        }
        errors.first.get_or_insert_with(|| error.to_string());

        if matches!(error, RequestError::Timeout(_)) {
            self.record_latency(at_us, at_us.saturating_sub(request.due_us));
        }
        self.report.replicas[request.replica].errors += 1;
        self.record_trace(request, None);
    }

    fn record_trace(&mut self, request: ScheduledRequest, decision: Option<TracedDecision>) {
        if let Some(trace) = &mut self.trace {
            trace.push(TracedRequest { request, decision });
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
            requests: self.report.requests,
            p99_us,
            exceeded: self.judge.exceeded().map(str::to_owned).collect(),
        }
    }

    /// The report of a load that sent requests for `sending` and got its last response after `total`.
    pub(crate) fn report(&self, sending: Duration, total: Duration) -> LoadReport {
        let mut report = self.report.clone();
        report.duration_s = sending.as_secs_f64();
        report.decided_per_s = per_second(report.requests.decided, total);
        report.latency_us = LatencySummary::from_histogram(&self.latency);
        report.limits = self.judge.limit_reports();
        report.untracked = self.judge.untracked;
        let GeneratorReport { behind, waited, .. } = report.generator;
        let late = behind + waited + report.requests.unsent;
        report.generator.kept_up = late.saturating_mul(1_000) <= report.requests.due;

        // A load that was stopped early did not reach all steps.
        let reached = micros(sending).div_ceil(self.step_us);
        let reached = usize::try_from(reached).map_or(STEPS, |steps| steps.clamp(1, STEPS));
        let timeline = &mut report.timeline;
        for counts in [
            &mut timeline.allowed,
            &mut timeline.denied,
            &mut timeline.errors,
        ] {
            counts.truncate(reached);
        }
        let steps = self.steps[..reached].iter();
        timeline.p99_us = steps.map(|step| step.value_at_quantile(0.99)).collect();
        report
    }

    /// The step of the timeline that contains a time. Times after the end belong to the last step.
    fn step_at(&self, at_us: u64) -> usize {
        usize::try_from(at_us / self.step_us).map_or(STEPS - 1, |step| step.min(STEPS - 1))
    }

    fn record_latency(&mut self, at_us: u64, latency_us: u64) {
        let step = self.step_at(at_us);
        for latencies in [&mut self.latency, &mut self.recent, &mut self.steps[step]] {
            latencies.saturating_record(latency_us);
        }
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
}

#[expect(clippy::cast_precision_loss, reason = "the rate is only displayed")]
fn per_second(count: u64, duration: Duration) -> f64 {
    if duration.is_zero() {
        0.0
    } else {
        count as f64 / duration.as_secs_f64()
    }
}
