//! The report of a simulation. It serializes to JSON and has an HTML form
//! ([`SimulationReport::html`]), and the command line prints it as tables. Field names are the
//! member names of the JSON form.

mod html;
mod plot;

use serde::Serialize;

use crate::log::LineError;
use crate::text::times;

/// The results of a simulation.
#[derive(Clone, Debug, Serialize)]
pub struct SimulationReport {
    /// The log.
    pub log: LogReport,
    /// The decisions of the configuration.
    pub configuration: ConfigReport,
    /// The decisions of the second configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<ConfigReport>,
    /// How the two differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<ComparisonReport>,
    /// Limits suggested from the usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<Vec<LimitSuggestion>>,
    /// Decisions over time.
    pub timeline: TimelineReport,
}

/// The log that was replayed.
#[derive(Clone, Debug, Serialize)]
pub struct LogReport {
    /// Names of the files.
    pub files: Vec<String>,
    /// All lines, including blank ones.
    pub lines: u64,
    /// Lines with a request.
    pub requests: u64,
    /// Invalid lines.
    pub bad_lines: u64,
    /// Invalid lines by kind.
    pub bad_kinds: Vec<BadLineReport>,
    /// The first invalid lines of each kind.
    pub bad_examples: Vec<BadLineExample>,
    /// Lines with an earlier time than a line before them. They were replayed at the later time.
    pub late_lines: u64,
    /// The largest such time difference, in milliseconds.
    pub late_max_ms: u64,
    /// Time of the first request, in UTC.
    pub from: Option<String>,
    /// Time of the last request, in UTC.
    pub to: Option<String>,
}

/// Invalid lines of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct BadLineReport {
    /// The kind.
    pub kind: LineError,
    /// The number of lines.
    pub count: u64,
    /// What was found.
    pub found: &'static str,
    /// What was expected.
    pub expected: &'static str,
}

/// An invalid line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadLineExample {
    /// Its number, from 1.
    pub line: u64,
    /// The kind of error.
    pub kind: LineError,
    /// Its beginning.
    pub text: String,
}

/// The decisions of one configuration.
#[derive(Clone, Debug, Serialize)]
pub struct ConfigReport {
    /// Name of the configuration file.
    pub file: String,
    /// Allowed requests.
    pub allowed: u64,
    /// Denied requests.
    pub denied: u64,
    /// Requests that the service would reject with an error.
    pub errors: Vec<ErrorReport>,
    /// The limits, in the order of the file. Those of the second configuration are in the order of
    /// the first, followed by those that only the second one has.
    pub limits: Vec<SimulatedLimitReport>,
    /// Remarks on the replay.
    pub notes: Vec<String>,
}

/// Requests that the service would reject with the same kind of error.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorReport {
    /// The number of requests.
    pub count: u64,
    /// Line number of the first one.
    pub line: u64,
    /// Error message of the first one.
    pub message: String,
}

/// The decisions of one limit.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SimulatedLimitReport {
    /// Name of the limit.
    pub name: String,
    /// Its quota as text.
    pub quota: String,
    /// Whether it is a shadow limit, which counts but never denies.
    pub shadow: bool,
    /// Its key attributes.
    pub key: Vec<String>,
    /// Requests that it applied to.
    pub requests: u64,
    /// Requests that it denied.
    pub denied: u64,
    /// Denied requests that its list `block` names.
    pub blocked: u64,
    /// Requests that its list `exempt` names: the limit was not asked, and they are not in
    /// `requests`.
    pub exempt: u64,
    /// Requests that match but lack the key attributes, so that the limit was skipped.
    pub unkeyed: u64,
    /// Requests that match but have no duration, so that a concurrency limit was skipped.
    pub untimed: u64,
    /// Requests that waited in the queue.
    pub queued: u64,
    /// The longest wait in the queue, in milliseconds.
    pub wait_max_ms: u64,
    /// Time of the first denial, in UTC.
    pub first_denial: Option<String>,
    /// Time of the last denial, in UTC.
    pub last_denial: Option<String>,
    /// The minute with the most denials.
    pub worst_minute: Option<WorstMinute>,
    /// Number of keys denied at least once. A lower bound if counts are not exact.
    pub keys_denied: u64,
    /// By how much the counts of keys may be too low. 0 if they are exact.
    pub keys_error_max: u64,
    /// The keys with the most denials.
    pub top_keys: Vec<KeyReport>,
}

/// The minute in which a limit denied most.
#[derive(Clone, Debug, Serialize)]
pub struct WorstMinute {
    /// Its start, in UTC.
    pub at: String,
    /// The number of denials in it.
    pub denied: u64,
}

/// The denials of one key.
#[derive(Clone, Debug, Serialize)]
pub struct KeyReport {
    /// The key as text. Hashed parts stay hashed.
    pub key: String,
    /// The number of denials.
    pub denied: u64,
    /// Time of the first one, in UTC.
    pub first: String,
    /// Time of the last one, in UTC.
    pub last: String,
}

/// Denied requests by the configuration, or the limit of a configuration, that denied them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DenialCounts {
    /// Denied only by the first configuration.
    pub only_configuration: u64,
    /// Denied only by the second configuration.
    pub only_against: u64,
    /// Denied by both.
    pub both: u64,
}

/// How the decisions of two configurations differ.
#[derive(Clone, Debug, Serialize)]
pub struct ComparisonReport {
    /// Requests by the configuration that denied them.
    #[serde(flatten)]
    pub denials: DenialCounts,
    /// The differences of each limit.
    pub limits: Vec<LimitComparison>,
    /// Explains why a limit denies more although it is no stricter.
    pub notes: Vec<String>,
}

/// How the decisions of one limit differ.
#[derive(Clone, Debug, Serialize)]
pub struct LimitComparison {
    /// Name of the limit.
    pub name: String,
    /// Whether the first configuration has it.
    pub in_configuration: bool,
    /// Whether the second configuration has it.
    pub in_against: bool,
    /// Requests by the configuration whose limit denied them.
    #[serde(flatten)]
    pub denials: DenialCounts,
    /// Requests that only the first configuration charges to it, as the second one denies them.
    pub charged_only_configuration: u64,
    /// Requests that only the second configuration charges to it, as the first one denies them.
    pub charged_only_against: u64,
    /// The keys with the most denials only by the first configuration.
    pub top_only_configuration: Vec<KeyReport>,
    /// The keys with the most denials only by the second configuration.
    pub top_only_against: Vec<KeyReport>,
}

/// Values for a limit, from the usage in the log.
#[derive(Clone, Debug, Serialize)]
pub struct LimitSuggestion {
    /// Name of the limit.
    pub name: String,
    /// Its configured value.
    pub limit_now: u64,
    /// Its configured quota as text.
    pub quota: String,
    /// Requests that it applied to.
    pub requests: u64,
    /// The number of different keys.
    pub keys: u64,
    /// Whether the limit has tiers. They were measured together, with the quota of the default
    /// tier.
    pub tiers: bool,
    /// Values to choose from, in ascending order.
    pub candidates: Vec<LimitCandidate>,
    /// The suggested value. `None` if the limit applied to no request.
    pub suggested: Option<u64>,
    /// Where a few keys use many times what all others use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub knee: Option<KneeReport>,
    /// Remarks on the suggestion.
    pub notes: Vec<String>,
}

/// Where the usage of a limit turns: a few keys use many times what all others use.
#[derive(Clone, Debug, Serialize)]
pub struct KneeReport {
    /// The highest peak below the knee.
    pub below: u64,
    /// The lowest peak above it.
    pub above: u64,
    /// The number of keys above it.
    pub keys_above: u64,
    /// The keys above it with the highest peaks.
    pub top_keys: Vec<KeyPeakReport>,
}

/// The peak usage of one key.
#[derive(Clone, Debug, Serialize)]
pub struct KeyPeakReport {
    /// The key as text. Hashed parts stay hashed.
    pub key: String,
    /// The smallest limit that denies it nothing.
    pub peak: u64,
    /// When the peak was reached, in UTC.
    pub at: String,
}

/// A value for a limit, and what it would deny.
#[derive(Clone, Debug, Serialize)]
pub struct LimitCandidate {
    /// The percentile of keys whose peak usage is at most `limit`, or `knee` for the highest peak
    /// below the knee.
    pub percentile: &'static str,
    /// The value.
    pub limit: u64,
    /// Requests that it would deny. `None` if the log could not be read a second time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied: Option<u64>,
    /// Keys that it would deny at least once.
    pub keys_denied: u64,
    /// Whether this is the suggested value.
    pub suggested: bool,
}

/// Decisions over time, in steps of equal length.
#[derive(Clone, Debug, Serialize)]
pub struct TimelineReport {
    /// The start of the first step, in UTC.
    pub from: String,
    /// The same in seconds since 1970.
    #[serde(skip)]
    pub from_seconds: u64,
    /// The length of a step in seconds.
    pub step_seconds: u64,
    /// The series: all requests, and one for each limit, of each configuration.
    pub series: Vec<TimelineSeries>,
}

/// Decisions over time of one limit, or of all requests.
#[derive(Clone, Debug, Serialize)]
pub struct TimelineSeries {
    /// Name of the limit. `None` for all requests.
    pub limit: Option<String>,
    /// Whether it belongs to the second configuration.
    pub against: bool,
    /// Allowed requests in each step.
    pub allowed: Vec<u64>,
    /// Denied requests in each step.
    pub denied: Vec<u64>,
}

impl DenialCounts {
    /// Counts a request.
    pub(crate) fn count(&mut self, is_denied: bool, is_denied_against: bool) {
        self.only_configuration += u64::from(is_denied && !is_denied_against);
        self.only_against += u64::from(is_denied_against && !is_denied);
        self.both += u64::from(is_denied && is_denied_against);
    }

    /// The counts in the order of the tables: only the first, only the second, both.
    pub const fn columns(&self) -> [u64; 3] {
        [self.only_configuration, self.only_against, self.both]
    }
}

impl LimitCandidate {
    /// How many times the value before it this value is, from 1.5 times on.
    pub fn growth(&self, before: Option<&Self>) -> Option<String> {
        let before = before?.limit;
        let is_rise = self.limit.saturating_mul(2) >= before.saturating_mul(3);
        is_rise.then(|| format!("\u{d7}{}", times(self.limit, before)))
    }
}

impl KneeReport {
    /// How many times the highest peak below the knee the lowest one above it is.
    pub fn times(&self) -> String {
        times(self.above, self.below)
    }
}

impl ConfigReport {
    /// Sorts the limits like those of another configuration, and puts limits that it lacks last.
    pub(crate) fn sort_like(&mut self, other: &Self) {
        let position = |limit: &SimulatedLimitReport| {
            let mut others = other.limits.iter();
            let found = others.position(|other| other.name == limit.name);
            found.unwrap_or(other.limits.len())
        };
        self.limits.sort_by_key(position);
    }

    /// The number of requests that the service would reject with an error.
    pub fn error_count(&self) -> u64 {
        self.errors.iter().map(|errors| errors.count).sum()
    }
}
