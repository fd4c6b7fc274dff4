//! What happened so far: counts, times, the course of it. Everything has a size that does not grow
//! with the load.

#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::time::Duration;

use hdrhistogram::Histogram;
use tollgate::Micros;
use tollgate_audit::Span;

use crate::clock::micros;
use crate::course::{Course, histogram};
use crate::draw::Draw;
use crate::judge::Judge;
use crate::plan::{Plan, Replica};
use crate::report::{Errors, Generator, Latency, ReplicaReport, Report, Requests, RetryReport};
use crate::told::Told;

/// What is sent later than this is told.
const LATE_US: u64 = 10_000;
/// Denials that are remembered for the time after the load.
const DENIALS_MAX: usize = 64;

/// One request on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shot {
    pub(crate) due_us: u64,
    /// When it began to wait for a connection.
    pub(crate) ready_us: u64,
    pub(crate) replica: usize,
    pub(crate) draw: Draw,
}

/// Why a request got no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    Timeout,
    Connection,
    Answer,
}

/// How a load goes, while it goes.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Since it began.
    pub elapsed: Duration,
    /// What became of requests so far.
    pub requests: Requests,
    /// Microseconds that 99 % of those answered since the last time did not exceed.
    pub p99_us: Option<u64>,
    /// Limits that were exceeded.
    pub exceeded: Vec<String>,
}

/// How long it all took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// Until the last request was due.
    pub(crate) sending: Duration,
    /// Until the last answer came.
    pub(crate) whole: Duration,
    pub(crate) ended_early: bool,
}

/// The books.
#[derive(Debug)]
pub(crate) struct Record {
    plan: Rc<Plan>,
    pub(crate) judge: Judge,
    pub(crate) requests: Requests,
    errors: Errors,
    generator: Generator,
    latency: Histogram<u64>,
    recent: Histogram<u64>,
    course: Course,
    replicas: Vec<ReplicaReport>,
    denials: Vec<Shot>,
    denials_seen: u64,
    random: fastrand::Rng,
}

impl Record {
    pub(crate) fn new(plan: &Rc<Plan>) -> Self {
        let replica = |replica: &Replica| {
            let url = replica.to_string();
            ReplicaReport {
                url,
                answered: 0,
                allowed: 0,
                errors: 0,
            }
        };
        Self {
            plan: Rc::clone(plan),
            judge: Judge::new(Rc::clone(plan)),
            requests: Requests::default(),
            errors: Errors::default(),
            generator: Generator::default(),
            latency: histogram(3),
            recent: histogram(2),
            course: Course::of(plan.pace.duration),
            replicas: plan.replicas.iter().map(replica).collect(),
            denials: Vec::new(),
            denials_seen: 0,
            random: fastrand::Rng::with_seed(plan.seed),
        }
    }

    /// A request was handed over to be sent, so long after it was due.
    pub(crate) fn due(&mut self, behind_us: u64) {
        self.requests.due += 1;
        self.generator.behind += u64::from(behind_us > LATE_US);
        self.generator.behind_max_us = self.generator.behind_max_us.max(behind_us);
    }

    /// There was no connection for a request in time.
    pub(crate) fn unsent(&mut self, at_us: u64) {
        self.requests.unsent += 1;
        self.took(at_us, micros(self.plan.timeout));
    }

    /// Requests that were due when somebody ended the load, and will not be sent.
    pub(crate) fn abandoned(&mut self, count: usize) {
        self.requests.unsent += u64::try_from(count).unwrap_or(u64::MAX);
    }

    /// A request leaves, after it waited so long for a connection.
    pub(crate) fn sent(&mut self, waited_us: u64) {
        self.requests.sent += 1;
        self.generator.waited += u64::from(waited_us > LATE_US);
    }

    /// A decision came.
    pub(crate) fn answered(&mut self, shot: Shot, span: Span, told: &Told<'_>) {
        let received_us = span.to.get();
        self.requests.answered += 1;
        self.requests.degraded += u64::from(told.is_degraded);
        self.took(received_us, received_us.saturating_sub(shot.due_us));
        let step = self.course.at(received_us);
        if told.is_allowed {
            step.allowed += 1;
            self.requests.allowed += 1;
            self.judge.admitted(shot.draw, span, told);
        } else {
            step.denied += 1;
            self.requests.denied += 1;
            if told.retry_after_ms.is_some() {
                self.keep_denial(shot);
            }
        }
        if let Some(replica) = self.replicas.get_mut(shot.replica) {
            replica.answered += 1;
            replica.allowed += u64::from(told.is_allowed);
        }
    }

    /// No decision came.
    pub(crate) fn failed(
        &mut self,
        shot: Shot,
        at_us: u64,
        failed: Failed,
        reason: impl FnOnce() -> String,
    ) {
        self.requests.errors += 1;
        let count = match failed {
            Failed::Timeout => &mut self.errors.timeout,
            Failed::Connection => &mut self.errors.connection,
            Failed::Answer => &mut self.errors.answer,
        };
        *count += 1;
        if self.errors.first.is_none() {
            self.errors.first = Some(reason());
        }
        self.course.at(at_us).errors += 1;
        if failed == Failed::Timeout {
            self.took(at_us, at_us.saturating_sub(shot.due_us));
        }
        if let Some(replica) = self.replicas.get_mut(shot.replica) {
            replica.errors += 1;
        }
    }

    /// Some of the requests that were refused, each as likely as the others.
    pub(crate) fn denials(&self) -> &[Shot] {
        &self.denials
    }

    pub(crate) fn progress(&mut self, now_us: u64) -> Progress {
        let p99_us = (!self.recent.is_empty()).then(|| self.recent.value_at_quantile(0.99));
        self.recent.reset();
        Progress {
            elapsed: Duration::from_micros(now_us),
            requests: self.requests,
            p99_us,
            exceeded: self.judge.exceeded().map(str::to_owned).collect(),
        }
    }

    /// The end of it.
    pub(crate) fn report(&self, times: Times, retry_after: RetryReport) -> Report {
        let Times {
            sending: duration,
            whole,
            ended_early,
        } = times;
        let requests = self.requests;
        let late = self.generator.behind + self.generator.waited + requests.unsent;
        Report {
            duration_s: duration.as_secs_f64(),
            ended_early,
            requests,
            answered_per_s: per_second(requests.answered, whole),
            latency_us: self.latencies(),
            errors: self.errors.clone(),
            generator: Generator {
                kept_up: late.saturating_mul(1_000) <= requests.due,
                ..self.generator
            },
            replicas: self.replicas.clone(),
            limits: self.judge.verdict(),
            not_followed: self.judge.unfollowed(),
            retry_after,
            timeline: self.course.timeline(duration),
        }
    }

    fn took(&mut self, at_us: u64, latency_us: u64) {
        self.latency.saturating_record(latency_us);
        self.recent.saturating_record(latency_us);
        self.course.at(at_us).latency.saturating_record(latency_us);
    }

    fn keep_denial(&mut self, shot: Shot) {
        self.denials_seen += 1;
        if self.denials.len() < DENIALS_MAX {
            self.denials.push(shot);
        } else if let Ok(place) = usize::try_from(self.random.u64(..self.denials_seen))
            && let Some(kept) = self.denials.get_mut(place)
        {
            *kept = shot;
        }
    }

    fn latencies(&self) -> Option<Latency> {
        let at = |quantile| self.latency.value_at_quantile(quantile);
        (!self.latency.is_empty()).then(|| Latency {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: self.latency.max(),
            mean: self.latency.mean(),
        })
    }
}

/// From when to when a request was under way.
pub(crate) const fn span(sent_us: u64, received_us: u64) -> Span {
    Span {
        from: Micros::new(sent_us),
        to: Micros::new(received_us),
    }
}

#[expect(clippy::cast_precision_loss, reason = "it is only shown")]
fn per_second(count: u64, duration: Duration) -> f64 {
    if duration.is_zero() {
        0.0
    } else {
        count as f64 / duration.as_secs_f64()
    }
}
