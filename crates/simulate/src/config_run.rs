//! Replays one configuration and counts its decisions.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use tollgate::{EncodedKey, Micros, Verdict};
use tollgate_rules::{Attributes, SelectError, StandingEffect};

use crate::batch::ReplayRequest;
use crate::counts::{SimulatedLimitCounts, SimulationTimeline};
use crate::replay::{ConfigReplay, ReplayDecision, ReplayError};
use crate::report::ErrorReport;

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
#[derive(Debug, Default)]
pub(crate) struct ConfigCounts {
    pub(crate) limits: Vec<SimulatedLimitCounts>,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// Requests without a decision, by limit and kind of error.
    pub(crate) errors: BTreeMap<(String, &'static str), ErrorReport>,
    /// Index of its first series in the timeline: all requests, then one series for each limit.
    pub(crate) first_series: usize,
}

/// The decision on a request, for comparing two configurations.
#[derive(Clone, Debug)]
pub(crate) struct ComparedDecision {
    pub(crate) is_allowed: bool,
    /// Indexes of the limits that were asked.
    pub(crate) limits: SmallVec<[usize; 4]>,
    /// Indexes of the limits that denied the request, and their keys.
    pub(crate) denials: SmallVec<[(usize, EncodedKey); 4]>,
}

impl From<ReplayDecision<'_>> for ComparedDecision {
    fn from(decision: ReplayDecision<'_>) -> Self {
        let limits = decision.limits.iter();
        let denials = limits.clone().zip(decision.outcomes);
        let denials = denials.filter(|(_, outcome)| !outcome.verdict.is_allowed());
        let denials = denials.map(|(selected, _)| selected);
        let blocked = decision
            .standing
            .iter()
            .filter(|listed| listed.is_blocked());
        let blocked = blocked.map(|listed| &listed.demand);
        Self {
            is_allowed: decision.is_allowed,
            limits: limits.map(|selected| selected.limit.position()).collect(),
            denials: denials
                .chain(blocked)
                .map(|selected| (selected.limit.position(), selected.key.clone()))
                .collect(),
        }
    }
}

impl ConfigRun {
    pub(crate) fn new(replay: ConfigReplay, first_series: usize) -> Self {
        let count = replay.limits().len();
        let keys_max = (KEYS_MAX / count.max(1)).max(KEYS_PER_LIMIT_MIN);

        let counts = ConfigCounts {
            limits: vec![SimulatedLimitCounts::new(keys_max); count],
            first_series,
            ..ConfigCounts::default()
        };
        Self { replay, counts }
    }

    /// The number of its series in the timeline.
    pub(crate) const fn series_count(&self) -> usize {
        1 + self.counts.limits.len()
    }

    /// Replays requests and counts the decisions. If `decisions` is given, they are appended to it,
    /// with `None` for an error.
    pub(crate) fn replay(
        &mut self,
        requests: &[ReplayRequest<impl Attributes>],
        timeline: &mut SimulationTimeline,
        mut decisions: Option<&mut Vec<Option<ComparedDecision>>>,
    ) {
        let Self { replay, counts } = self;

        replay.decide(requests, |request, result| {
            match &result {
                Ok(decision) => counts.count(request.at, decision, timeline),
                Err(error) => count_error(&mut counts.errors, error, request.line),
            }

            if let Some(decisions) = &mut decisions {
                decisions.push(result.ok().map(Into::into));
            }
        });
    }
}

impl ConfigCounts {
    #[inline]
    fn count(
        &mut self,
        at: Micros,
        decision: &ReplayDecision<'_>,
        timeline: &mut SimulationTimeline,
    ) {
        let step = timeline.step_at(at);

        for index in decision.unkeyed {
            self.limits[*index].report.unkeyed += 1;
        }
        for index in decision.untimed {
            self.limits[*index].report.untimed += 1;
        }
        for listed in decision.standing {
            let index = listed.demand.limit.position();
            let limit = &mut self.limits[index];
            match listed.effect {
                StandingEffect::Exempt => limit.report.exempt += 1,
                StandingEffect::Block => {
                    limit.report.blocked += 1;
                    limit.record(Verdict::Never, &listed.demand.key, at);
                    timeline.count(self.first_series + 1 + index, step, false);
                }
            }
        }
        for (selected, outcome) in decision.limits.iter().zip(decision.outcomes) {
            let index = selected.limit.position();
            let is_allowed = self.limits[index].record(outcome.verdict, &selected.key, at);
            timeline.count(self.first_series + 1 + index, step, is_allowed);
        }

        timeline.count(self.first_series, step, decision.is_allowed);
        self.allowed += u64::from(decision.is_allowed);
        self.denied += u64::from(!decision.is_allowed);
    }
}

/// Counts a request without a decision. The map stays small, as each limit has few kinds of errors.
#[cold]
fn count_error(
    errors: &mut BTreeMap<(String, &'static str), ErrorReport>,
    error: &ReplayError,
    line: u64,
) {
    use SelectError::{Address, AmbiguousPath, Cost, Key, MissingAttribute};
    let (limit, kind) = match error {
        ReplayError::Select(MissingAttribute { limit, .. }) => (limit.as_str(), "missing"),
        ReplayError::Select(AmbiguousPath { limit, .. }) => (limit.as_str(), "path"),
        ReplayError::Select(Address { limit, .. }) => (limit.as_str(), "address"),
        ReplayError::Select(Key { limit, .. }) => (limit.as_str(), "key"),
        ReplayError::Select(Cost { limit, .. }) => (limit.as_str(), "cost"),
        ReplayError::Select(_) => ("", "select"),
        ReplayError::TooMany(_) => ("", "too_many"),
    };

    let new = || ErrorReport {
        count: 0,
        line,
        message: error.to_string(),
    };
    errors
        .entry((limit.to_owned(), kind))
        .or_insert_with(new)
        .count += 1;
}
