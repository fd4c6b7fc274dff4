//! Replays one configuration and counts its decisions.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use tollgate::{EncodedKey, Micros, Verdict};
use tollgate_rules::{Attributes, SelectError};

use crate::batch::ReplayRequest;
use crate::counts::{SimulatedLimitCounts, SimulationTimeline};
use crate::replay::{ConfigReplay, ReplayDecision, ReplayError};

/// The maximum number of denied keys to remember, over all limits.
const KEYS_MAX: usize = 100_000;
/// The minimum number of denied keys to remember for each limit.
const KEYS_PER_LIMIT_MIN: usize = 500;

/// The replay of one configuration, with its counters.
#[derive(Debug)]
pub(crate) struct ConfigRun {
    pub(crate) replay: ConfigReplay,
    pub(crate) counts: ConfigCounts,
}

/// The counters of one configuration.
#[derive(Debug)]
pub(crate) struct ConfigCounts {
    pub(crate) limits: Vec<SimulatedLimitCounts>,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// Requests without a decision, by limit and kind of error.
    pub(crate) errors: BTreeMap<(String, &'static str), ReplayErrorCounts>,
    /// Index of its first series in the timeline: all requests, then one series for each limit.
    pub(crate) first_series: usize,
}

/// Requests that the service would reject with the same kind of error.
#[derive(Clone, Debug)]
pub(crate) struct ReplayErrorCounts {
    pub(crate) count: u64,
    /// Line number of the first one.
    pub(crate) line: u64,
    /// Message of the first one.
    pub(crate) message: String,
}

/// The decision on a request, for comparing two configurations.
#[derive(Clone, Debug, Default)]
pub(crate) struct ComparedDecision {
    /// `None` if there was no decision.
    pub(crate) is_allowed: Option<bool>,
    /// Indexes of the limits that denied the request, and their keys.
    pub(crate) denials: SmallVec<[(usize, EncodedKey); 4]>,
}

impl ConfigRun {
    pub(crate) fn new(replay: ConfigReplay, first_series: usize) -> Self {
        let count = replay.limits().len();
        let keys_max = (KEYS_MAX / count.max(1)).max(KEYS_PER_LIMIT_MIN);

        let counts = ConfigCounts {
            limits: vec![SimulatedLimitCounts::new(keys_max); count],
            allowed: 0,
            denied: 0,
            errors: BTreeMap::new(),
            first_series,
        };
        Self { replay, counts }
    }

    /// The number of its series in the timeline.
    pub(crate) const fn series_count(&self) -> usize {
        1 + self.counts.limits.len()
    }

    /// Replays requests and counts the decisions. If `decisions` is given, they are appended to it.
    pub(crate) fn replay(
        &mut self,
        requests: &[ReplayRequest<impl Attributes>],
        timeline: &mut SimulationTimeline,
        mut decisions: Option<&mut Vec<ComparedDecision>>,
    ) {
        let Self { replay, counts } = self;

        replay.decide(requests, |request, result| {
            let mut compared = ComparedDecision::default();
            match result {
                Ok(decision) => {
                    let compared = decisions.is_some().then_some(&mut compared);
                    counts.count(request, &decision, timeline, compared);
                }
                Err(error) => count_error(&mut counts.errors, error, request.line),
            }

            if let Some(decisions) = &mut decisions {
                decisions.push(compared);
            }
        });
    }
}

impl ConfigCounts {
    #[inline]
    fn count(
        &mut self,
        request: &ReplayRequest<impl Attributes>,
        decision: &ReplayDecision<'_>,
        timeline: &mut SimulationTimeline,
        mut compared: Option<&mut ComparedDecision>,
    ) {
        let &ReplayDecision {
            limits,
            outcomes,
            unkeyed,
            is_allowed,
        } = decision;
        let step = timeline.step_at(request.at);

        for index in unkeyed {
            self.limits[*index].unkeyed += 1;
        }
        for (selected, outcome) in limits.iter().zip(outcomes) {
            let counts = &mut self.limits[selected.limit.position()];
            let is_allowed = count_verdict(counts, outcome.verdict, request.at);
            timeline.count(
                self.first_series + 1 + selected.limit.position(),
                step,
                is_allowed,
            );
            if !is_allowed {
                counts.keys.record(&selected.key, request.at);
                if let Some(compared) = &mut compared {
                    compared
                        .denials
                        .push((selected.limit.position(), selected.key.clone()));
                }
            }
        }

        timeline.count(self.first_series, step, is_allowed);
        *(if is_allowed {
            &mut self.allowed
        } else {
            &mut self.denied
        }) += 1;
        if let Some(compared) = compared {
            compared.is_allowed = Some(is_allowed);
        }
    }
}

/// Counts the verdict of a limit. Returns whether it allows the request.
#[inline]
fn count_verdict(limit: &mut SimulatedLimitCounts, verdict: Verdict, at: Micros) -> bool {
    limit.requests += 1;

    match verdict {
        Verdict::Allow { wait: Micros::ZERO } => true,
        Verdict::Allow { wait } => {
            limit.record_wait(wait);
            true
        }
        Verdict::Deny { .. } | Verdict::Never => {
            limit.record_denial(at);
            false
        }
    }
}

/// Counts a request without a decision. The map stays small, as each limit has few kinds of errors.
#[cold]
fn count_error(
    errors: &mut BTreeMap<(String, &'static str), ReplayErrorCounts>,
    error: &ReplayError,
    line: u64,
) {
    let (limit, kind) = match error {
        ReplayError::Select(SelectError::MissingAttribute { limit, .. }) => {
            (limit.as_str(), "missing")
        }
        ReplayError::Select(SelectError::Address { limit, .. }) => (limit.as_str(), "address"),
        ReplayError::Select(SelectError::Key { limit, .. }) => (limit.as_str(), "key"),
        ReplayError::Select(SelectError::Cost { limit, .. }) => (limit.as_str(), "cost"),
        ReplayError::Select(_) => ("", "select"),
        ReplayError::TooMany(_) => ("", "too_many"),
    };

    let new = || ReplayErrorCounts {
        count: 0,
        line,
        message: error.to_string(),
    };
    errors
        .entry((limit.to_owned(), kind))
        .or_insert_with(new)
        .count += 1;
}
