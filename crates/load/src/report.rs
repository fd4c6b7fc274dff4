//! What is known at the end. Field names are the members of the JSON object, and stay as they are.

use serde::Serialize;

/// A load, and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How long requests were sent.
    pub duration_s: f64,
    /// Somebody ended it before its time.
    pub ended_early: bool,
    /// What became of requests.
    pub requests: Requests,
    /// Answers a second, while requests were sent.
    pub answered_per_s: f64,
    /// From the moment at which a request was due to its answer, in microseconds. What got no
    /// answer in time counts with the time that was waited for it. Nothing when nothing was
    /// answered.
    pub latency_us: Option<Latency>,
    /// What went wrong.
    pub errors: Errors,
    /// How the load itself did.
    pub generator: Generator,
    /// Who was asked.
    pub replicas: Vec<ReplicaReport>,
    /// Whether the limits held.
    pub limits: Vec<LimitReport>,
    /// Admissions of keys that came when as many as can be followed were.
    pub not_followed: u64,
    /// Whether retry times were true.
    pub retry_after: RetryReport,
    /// The course of it.
    pub timeline: Timeline,
}

impl Report {
    /// Whether a limit was exceeded.
    pub fn is_exceeded(&self) -> bool {
        self.limits.iter().any(|limit| limit.exceeded)
    }
}

/// What became of requests. `due` is `sent` and `unsent` together, `sent` is `answered` and
/// `errors`, and what was still under way when somebody ended the load.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Requests {
    /// That were due.
    pub due: u64,
    /// That were sent.
    pub sent: u64,
    /// That were due and not sent: there was no connection for them in time, or too many waited for
    /// one.
    pub unsent: u64,
    /// That were answered with a decision.
    pub answered: u64,
    /// Of these, let through.
    pub allowed: u64,
    /// Of these, refused.
    pub denied: u64,
    /// Of these, decided by a failure policy.
    pub degraded: u64,
    /// That were sent and got no decision.
    pub errors: u64,
}

/// Microseconds that so many per cent of requests did not exceed.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// Half of them.
    pub p50: u64,
    /// 90 %.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
    /// All of them.
    pub max: u64,
    /// On average.
    pub mean: f64,
}

/// What went wrong, by kind.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Errors {
    /// No answer in time.
    pub timeout: u64,
    /// No connection, or one that broke.
    pub connection: u64,
    /// An answer that is no decision.
    pub answer: u64,
    /// The first of them, in words.
    pub first: Option<String>,
}

/// How the load itself did.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Generator {
    /// Requests that this machine was more than 10 ms late to send, though there was nothing to
    /// wait for.
    pub behind: u64,
    /// The most that it was late.
    pub behind_max_us: u64,
    /// Requests that waited for more than 10 ms for a free connection.
    pub waited: u64,
    /// Whether fewer than one in a thousand was late or unsent. If not, latencies are in part the
    /// load's own.
    pub kept_up: bool,
}

/// One replica.
#[derive(Clone, Debug, Serialize)]
pub struct ReplicaReport {
    /// Where it is.
    pub url: String,
    /// What it decided.
    pub answered: u64,
    /// What it let through.
    pub allowed: u64,
    /// What it did not decide.
    pub errors: u64,
}

/// One limit.
#[derive(Clone, Debug, Serialize)]
pub struct LimitReport {
    /// Its name.
    pub name: String,
    /// Requests that it let through.
    pub admitted: u64,
    /// Of these, by its failure policy; they are not held against it.
    pub admitted_by_policy: u64,
    /// Counters that were followed.
    pub keys: usize,
    /// What it allows, in words; none when that is not known.
    pub allowed: Option<String>,
    /// Where that is known from: `configuration`, `answers`, or `allow` where it was said by hand.
    pub judged_by: Option<&'static str>,
    /// Whether more was admitted than it allows, for certain.
    pub exceeded: bool,
    /// The interval in which it was exceeded most, or came closest.
    pub worst: Option<Worst>,
    /// Why it was not judged, or not all of it.
    pub not_judged: Option<String>,
}

/// An interval, in seconds since the load began.
#[derive(Clone, Debug, Serialize)]
pub struct Worst {
    /// Whose.
    pub key: String,
    /// When the first request of it was sent.
    pub from_s: f64,
    /// When the last answer of it came.
    pub to_s: f64,
    /// Units that were admitted in it, for certain.
    pub admitted: u64,
    /// By how many that is more than allowed; below zero, by how many it is less.
    pub over: f64,
}

/// Whether retry times were true, tried by waiting as long as was told, alone.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct RetryReport {
    /// Refusals that were waited out.
    pub tried: u64,
    /// Of these, let through at the time told.
    pub kept: u64,
    /// Of these, refused at the time told: it was too early.
    pub early: u64,
    /// Of these, would have been let through after nine tenths of the time already: it was longer
    /// than needed.
    pub long: u64,
    /// Refusals that were not tried, because what they told was longer than there was time for.
    pub skipped: u64,
}

/// The course of a load, in steps of equal length.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Timeline {
    /// The length of a step.
    pub step_s: f64,
    /// Let through in each.
    pub allowed: Vec<u64>,
    /// Refused in each.
    pub denied: Vec<u64>,
    /// Without a decision in each.
    pub errors: Vec<u64>,
    /// Microseconds that 99 % of the requests answered in each did not exceed.
    pub p99_us: Vec<u64>,
}
