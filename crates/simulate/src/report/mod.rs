//! What came of a replay, ready to be shown: as it stands here for programs, as a page for people
//! ([`Report::html`]), and by the command line as a table. Field names are member names.

mod build;
mod escaped;
mod html;
mod plot;

use serde::Serialize;

pub use build::Labels;

use crate::log::BadLine;

/// Everything there is to tell.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was replayed.
    pub log: LogReport,
    /// What the configuration would have done.
    pub configuration: SideReport,
    /// What the other one would have done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<SideReport>,
    /// What the two say differently.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<ComparisonReport>,
    /// Limits from real use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<Vec<Suggestion>>,
    /// What happened when.
    pub timeline: TimelineReport,
}

/// What was replayed.
#[derive(Clone, Debug, Serialize)]
pub struct LogReport {
    /// The files.
    pub files: Vec<String>,
    /// All lines, blank ones too.
    pub lines: u64,
    /// Lines that say what was asked when.
    pub requests: u64,
    /// Lines that do not.
    pub bad_lines: u64,
    /// How many of each kind.
    pub bad_kinds: Vec<BadKind>,
    /// The first of each kind.
    pub bad_examples: Vec<BadExample>,
    /// Lines with an earlier time than a line before them; they were replayed at that line's time.
    pub late_lines: u64,
    /// By how much at most, in milliseconds.
    pub late_max_ms: u64,
    /// The first and the last moment.
    pub from: Option<String>,
    /// See above.
    pub to: Option<String>,
}

/// Bad lines of a kind.
#[derive(Clone, Debug, Serialize)]
pub struct BadKind {
    /// Which.
    pub kind: BadLine,
    /// How many.
    pub count: u64,
    /// What was found.
    pub found: &'static str,
    /// What would be right.
    pub right: &'static str,
}

/// A bad line.
#[derive(Clone, Debug, Serialize)]
pub struct BadExample {
    /// Its number, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub kind: BadLine,
    /// Its beginning.
    pub text: String,
}

/// What a configuration would have done.
#[derive(Clone, Debug, Serialize)]
pub struct SideReport {
    /// The file.
    pub file: String,
    /// Requests that pass.
    pub allowed: u64,
    /// Requests that some limit refuses.
    pub refused: u64,
    /// Requests that get an error instead of a decision.
    pub unanswered: Vec<UnansweredReport>,
    /// The limits, in the order of the file.
    pub limits: Vec<LimitReport>,
    /// What is worth knowing about the replay itself.
    pub notes: Vec<String>,
}

/// Requests that get an error instead of a decision.
#[derive(Clone, Debug, Serialize)]
pub struct UnansweredReport {
    /// How many.
    pub count: u64,
    /// The line of the first.
    pub line: u64,
    /// The error that it gets.
    pub message: String,
}

/// What one limit would have done.
#[derive(Clone, Debug, Serialize)]
pub struct LimitReport {
    /// Its name.
    pub name: String,
    /// Its numbers in words.
    pub numbers: String,
    /// Whether it only counts.
    pub shadow: bool,
    /// Whom it counts.
    pub key: Vec<String>,
    /// Requests that had to pass it.
    pub requests: u64,
    /// Those that it refuses.
    pub refused: u64,
    /// Requests that it applies to and whose line does not say whom to count.
    pub unkeyed: u64,
    /// Requests that a queue holds back, and for how long at most.
    pub held: u64,
    /// See above, in milliseconds.
    pub hold_max_ms: u64,
    /// When it refused first and last.
    pub first_refusal: Option<String>,
    /// See above.
    pub last_refusal: Option<String>,
    /// The minute in which it refused most.
    pub worst_minute: Option<WorstMinute>,
    /// How many keys were refused something; at least so many when counts are not exact.
    pub keys_refused: u64,
    /// By how much the counts of keys may be too small; 0 when they are exact.
    pub keys_error_max: u64,
    /// Who was refused most.
    pub top_keys: Vec<KeyReport>,
}

/// The minute in which a limit refused most.
#[derive(Clone, Debug, Serialize)]
pub struct WorstMinute {
    /// When it began.
    pub at: String,
    /// How much it refused.
    pub refused: u64,
}

/// What one key was refused.
#[derive(Clone, Debug, Serialize)]
pub struct KeyReport {
    /// The key; what is hashed stays hashed.
    pub key: String,
    /// How often it was refused.
    pub refused: u64,
    /// When first.
    pub first: String,
    /// When last.
    pub last: String,
}

/// What two configurations say differently.
#[derive(Clone, Debug, Serialize)]
pub struct ComparisonReport {
    /// Requests refused by the configuration and not by the other.
    pub only_configuration: u64,
    /// Requests refused by the other alone.
    pub only_against: u64,
    /// Requests refused by both.
    pub both: u64,
    /// Limit by limit.
    pub limits: Vec<LimitComparison>,
}

/// What one limit says differently.
#[derive(Clone, Debug, Serialize)]
pub struct LimitComparison {
    /// Its name.
    pub name: String,
    /// Whether each configuration has it.
    pub in_configuration: bool,
    /// See above.
    pub in_against: bool,
    /// Refused by the configuration's limit alone.
    pub only_configuration: u64,
    /// Refused by the other's alone.
    pub only_against: u64,
    /// Refused by both.
    pub both: u64,
    /// Who is refused by the configuration's alone.
    pub top_only_configuration: Vec<KeyReport>,
    /// Who is refused by the other's alone.
    pub top_only_against: Vec<KeyReport>,
}

/// A limit from real use.
#[derive(Clone, Debug, Serialize)]
pub struct Suggestion {
    /// The limit's name.
    pub name: String,
    /// What it is now.
    pub limit_now: u64,
    /// Its numbers in words.
    pub numbers: String,
    /// Requests that met it.
    pub requests: u64,
    /// Keys that they came from.
    pub keys: u64,
    /// True when callers have different numbers, and were measured together by those of the default
    /// tier.
    pub tiers: bool,
    /// What some sizes would refuse.
    pub candidates: Vec<Candidate>,
    /// The size to consider, if anything met the limit.
    pub suggested: Option<u64>,
}

/// A size for a limit, and what it would refuse.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// The part of the keys that never use more.
    pub percentile: &'static str,
    /// The size.
    pub limit: u64,
    /// Requests that it would refuse; absent when the log could not be read a second time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
    /// Keys that it would refuse something.
    pub keys_refused: u64,
    /// Whether this is the one to consider.
    pub suggested: bool,
}

/// What happened when, in equal stretches.
#[derive(Clone, Debug, Serialize)]
pub struct TimelineReport {
    /// When the first stretch begins.
    pub from: String,
    /// How long each is, in seconds.
    pub stretch_seconds: u64,
    /// What was let through and refused.
    pub series: Vec<Series>,
}

/// One line of a plot.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// The limit; none for all requests.
    pub limit: Option<String>,
    /// Whether it is the other configuration's.
    pub against: bool,
    /// Let through, stretch by stretch.
    pub allowed: Vec<u64>,
    /// Refused, stretch by stretch.
    pub refused: Vec<u64>,
}

impl SideReport {
    /// Requests that get an error instead of a decision.
    pub fn unanswered_count(&self) -> u64 {
        self.unanswered
            .iter()
            .map(|unanswered| unanswered.count)
            .sum()
    }
}
