//! The report of a load. Field names are the member names of its JSON form and must not change.

use hdrhistogram::Histogram;
use serde::Serialize;

/// The results of a load.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LoadReport {
    /// How long requests were sent, in seconds.
    pub duration_s: f64,
    /// Whether the load was stopped before its planned end.
    pub ended_early: bool,
    /// Request counts.
    pub requests: RequestCounts,
    /// Decisions per second, from the start of the load to the last response.
    pub decided_per_s: f64,
    /// Latencies in microseconds, from the time a request was due to its response. Requests
    /// without a response in time count with the time waited. `None` without responses.
    pub latency_us: Option<LatencySummary>,
    /// Requests without a decision, by cause.
    pub errors: ErrorCounts,
    /// How well the generator kept to its schedule.
    pub generator: GeneratorReport,
    /// The replicas, in the order given.
    pub replicas: Vec<ReplicaReport>,
    /// The limits that admitted requests, in the order they were first seen.
    pub limits: Vec<LoadLimitReport>,
    /// Admissions that were not judged, because more counters appeared than can be tracked.
    pub untracked: u64,
    /// Whether retry times were right.
    pub retry_after: RetryReport,
    /// Counts and latencies over time.
    pub timeline: LoadTimeline,
    /// Why the load failed. Empty until [`LoadReport::judge`] has found a reason.
    pub failures: Vec<LoadFailure>,
}

impl LoadReport {
    /// Finds the reasons why the load failed.
    pub fn judge(&mut self, tolerance: LoadTolerance) {
        let requests = self.requests;
        let is_exceeded = self.limits.iter().any(|limit| limit.exceeded);
        let found = [
            (LoadFailure::Exceeded, is_exceeded),
            (
                LoadFailure::Unlimited,
                requests.unlimited_share() > tolerance.unlimited,
            ),
            (
                LoadFailure::Errors,
                requests.error_share() > tolerance.errors,
            ),
            (
                LoadFailure::Degraded,
                requests.degraded_share() > tolerance.degraded,
            ),
        ];
        let failures = found.into_iter().filter(|(_, is_found)| *is_found);
        self.failures = failures.map(|(failure, _)| failure).collect();
    }
}

/// A reason why a load failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadFailure {
    /// A limit certainly admitted more than it allows.
    Exceeded,
    /// Too many requests were allowed without a limit.
    Unlimited,
    /// Too many requests got no decision.
    Errors,
    /// Failure policies made too many decisions.
    Degraded,
}

/// The shares up to which a load does not fail, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadTolerance {
    /// Of the allowed requests: those that met no limit.
    pub unlimited: f64,
    /// Of the requests that were answered, failed or not sent in time: those without a decision.
    pub errors: f64,
    /// Of the decisions: those of failure policies.
    pub degraded: f64,
}

/// Numbers of requests. `due` is `sent` plus `unsent`. `sent` is `decided` plus `errors`, plus
/// those still in flight when the load was stopped.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct RequestCounts {
    /// Requests that were due.
    pub due: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Requests that were due but not sent: no connection was free in time, or too many requests
    /// were waiting for one.
    pub unsent: u64,
    /// Requests that got a decision.
    pub decided: u64,
    /// Of `decided`: allowed.
    pub allowed: u64,
    /// Of `decided`: denied.
    pub denied: u64,
    /// Of `decided`: decided by a failure policy.
    pub degraded: u64,
    /// Requests that were sent but got no decision.
    pub errors: u64,
    /// Of `allowed`: no limit applied. The response names none, or is marked `unchecked`.
    pub unlimited: u64,
    /// Of `unlimited`: a proxy let the request pass without a decision, and marked it with
    /// `X-RateLimit-Unchecked`.
    pub unchecked: u64,
}

impl RequestCounts {
    /// The share of the allowed requests that met no limit, from 0 to 1.
    pub fn unlimited_share(&self) -> f64 {
        share(self.unlimited, self.allowed)
    }

    /// The share of the requests that got no decision, from 0 to 1. A request that was not sent
    /// counts: its connection waited for another response. Requests in flight when a load was
    /// stopped do not.
    pub fn error_share(&self) -> f64 {
        let undecided = self.errors.saturating_add(self.unsent);
        share(undecided, self.decided.saturating_add(undecided))
    }

    /// The share of the decisions that failure policies made, from 0 to 1.
    pub fn degraded_share(&self) -> f64 {
        share(self.degraded, self.decided)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "numbers of requests are below 2^53"
)]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Requests without a decision, by cause.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ErrorCounts {
    /// No response within the timeout.
    pub timeout: u64,
    /// The connection failed.
    pub connection: u64,
    /// The response was not a decision.
    pub response: u64,
    /// Message of the first error.
    pub first: Option<String>,
}

/// How well the generator kept to its schedule.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct GeneratorReport {
    /// Requests that were queued more than 10 ms after they were due, because this machine was
    /// busy.
    pub behind: u64,
    /// The maximum such delay in microseconds.
    pub behind_max_us: u64,
    /// Requests that waited more than 10 ms for a free connection.
    pub waited: u64,
    /// Whether at most one request in a thousand was late or unsent. If not, the latencies include
    /// delays of the generator itself.
    pub kept_up: bool,
}

/// The results of one replica.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReplicaReport {
    /// URL of the replica.
    pub url: String,
    /// Decisions it made.
    pub decided: u64,
    /// Requests it allowed.
    pub allowed: u64,
    /// Requests without a decision.
    pub errors: u64,
}

/// The verdict on one limit.
#[derive(Clone, Debug, Serialize)]
pub struct LoadLimitReport {
    /// Name of the limit.
    pub name: String,
    /// Requests it admitted, including those of the retry tests after the load.
    pub admitted: u64,
    /// Of `admitted`: by its failure policy. These are not judged.
    pub admitted_by_policy: u64,
    /// Number of counters (keys) that were tracked.
    pub keys: usize,
    /// What the limit allows, as text. `None` if not known.
    pub allowed: Option<String>,
    /// Where `allowed` is known from: `configuration`, `responses`, or `allow` for the command line
    /// option.
    pub judged_by: Option<&'static str>,
    /// Whether the limit certainly admitted more than it allows.
    pub exceeded: bool,
    /// The interval with the largest excess, or that came closest to one.
    pub worst: Option<LoadWorstInterval>,
    /// Why some or all admissions were not judged.
    pub not_judged: Option<String>,
}

/// An interval, in seconds since the load started.
#[derive(Clone, Debug, Serialize)]
pub struct LoadWorstInterval {
    /// The key whose counter it is.
    pub key: String,
    /// When its first request was sent.
    pub from_s: f64,
    /// When its last response arrived.
    pub to_s: f64,
    /// Units that were certainly admitted in it.
    pub admitted: u64,
    /// Units above what is allowed. Negative if below.
    pub over: f64,
}

/// Whether the retry times of denials were right. Tested after the load, one request at a time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct RetryReport {
    /// Retry times that were tested.
    pub tried: u64,
    /// Of `tried`: allowed at the retry time.
    pub on_time: u64,
    /// Of `tried`: denied at the retry time, so that was too early.
    pub early: u64,
    /// Of `tried`: would have been allowed after nine tenths of the time, so that was too long.
    pub long: u64,
    /// Retry times that were not tested, because they are longer than the time available.
    pub skipped: u64,
}

/// Counts and latencies over time, in steps of equal length.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LoadTimeline {
    /// Length of a step in seconds.
    pub step_s: f64,
    /// Requests allowed in each step.
    pub allowed: Vec<u64>,
    /// Requests denied in each step.
    pub denied: Vec<u64>,
    /// Requests without a decision in each step.
    pub errors: Vec<u64>,
    /// 99th percentile latency in each step, in microseconds.
    pub p99_us: Vec<u64>,
}

/// Longer latencies are recorded as one hour.
const LATENCY_MAX_US: u64 = 3_600_000_000;

/// A histogram of latencies in microseconds, with this number of significant digits. Its size is
/// fixed.
///
/// # Panics
///
/// Panics if `digits` is greater than 5.
pub fn latency_histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_US, digits).expect("the bounds are valid")
}

/// Latency percentiles in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LatencySummary {
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Maximum.
    pub max: u64,
    /// Mean.
    pub mean: f64,
}

impl LatencySummary {
    /// The percentiles of a histogram. `None` if it is empty.
    pub fn from_histogram(latencies: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| latencies.value_at_quantile(quantile);
        (!latencies.is_empty()).then(|| Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: latencies.max(),
            mean: latencies.mean(),
        })
    }
}
