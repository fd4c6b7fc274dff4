//! A configuration under replay, and what came of it.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use tollgate::{EncodedKey, Micros, Verdict};
use tollgate_rules::{Attributes, SelectError};

use crate::replay::{Answered, Replay, Undecided};
use crate::requests::Request;
use crate::tally::{LimitTally, Timeline};

/// The most refused keys that are known at once, over all limits.
const KEYS_KNOWN: usize = 100_000;
/// The fewest for each limit.
const KEYS_KNOWN_MIN: usize = 500;

/// A configuration under replay, and what came of it.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) replay: Replay,
    pub(crate) tally: SideTally,
}

/// What came of the replay of a configuration.
#[derive(Debug)]
pub(crate) struct SideTally {
    pub(crate) limits: Vec<LimitTally>,
    pub(crate) allowed: u64,
    pub(crate) refused: u64,
    pub(crate) unanswered: BTreeMap<(String, &'static str), Unanswered>,
    /// Where its series begin: all requests, then one for each limit.
    pub(crate) series: usize,
}

/// Requests that the service would answer with an error.
#[derive(Clone, Debug)]
pub(crate) struct Unanswered {
    pub(crate) count: u64,
    /// The first of them.
    pub(crate) line: u64,
    pub(crate) message: String,
}

/// What was said to a request, for comparison.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    /// Whether it passes; `None` when there is no decision.
    pub(crate) passes: Option<bool>,
    /// The limits that refused it, and whom.
    pub(crate) refusals: SmallVec<[(usize, EncodedKey); 4]>,
}

impl Side {
    pub(crate) fn new(replay: Replay, series: usize) -> Self {
        let count = replay.rules().len();
        let keys_max = (KEYS_KNOWN / count.max(1)).max(KEYS_KNOWN_MIN);
        let limits = vec![LimitTally::new(keys_max); count];
        let tally = SideTally {
            limits,
            allowed: 0,
            refused: 0,
            unanswered: BTreeMap::new(),
            series,
        };
        Self { replay, tally }
    }

    /// How many series it has.
    pub(crate) const fn series_count(&self) -> usize {
        1 + self.tally.limits.len()
    }

    /// Replays requests and counts what is said to them. Who wants to compare is told of each.
    pub(crate) fn replay(
        &mut self,
        requests: &[Request<impl Attributes>],
        timeline: &mut Timeline,
        mut told: Option<&mut Vec<Said>>,
    ) {
        let Self { replay, tally } = self;
        replay.decide(requests, |request, answer| {
            let mut said = Said::default();
            match answer {
                Ok(answered) => {
                    tally.count(
                        request,
                        &answered,
                        timeline,
                        told.is_some().then_some(&mut said),
                    );
                }
                Err(undecided) => note(&mut tally.unanswered, undecided, request.line),
            }
            if let Some(told) = &mut told {
                told.push(said);
            }
        });
    }
}

impl SideTally {
    #[inline]
    fn count(
        &mut self,
        request: &Request<impl Attributes>,
        answered: &Answered<'_>,
        timeline: &mut Timeline,
        mut said: Option<&mut Said>,
    ) {
        let &Answered {
            checks,
            outcomes,
            unkeyed,
            is_allowed,
        } = answered;
        let stretch = timeline.at(request.at);
        for index in unkeyed {
            self.limits[*index].unkeyed += 1;
        }
        for (chosen, outcome) in checks.iter().zip(outcomes) {
            let limit = &mut self.limits[chosen.index];
            let passes = count(limit, outcome.verdict, request.at);
            timeline.count(self.series + 1 + chosen.index, stretch, passes);
            if !passes {
                limit.keys.refuse(&chosen.key, request.at);
                if let Some(said) = &mut said {
                    said.refusals.push((chosen.index, chosen.key.clone()));
                }
            }
        }
        timeline.count(self.series, stretch, is_allowed);
        *(if is_allowed {
            &mut self.allowed
        } else {
            &mut self.refused
        }) += 1;
        if let Some(said) = said {
            said.passes = Some(is_allowed);
        }
    }
}

/// Counts what a limit said; true when it lets the request pass.
#[inline]
fn count(limit: &mut LimitTally, verdict: Verdict, at: Micros) -> bool {
    limit.asked += 1;
    match verdict {
        Verdict::Allow { wait: Micros::ZERO } => true,
        Verdict::Allow { wait } => {
            limit.hold(wait);
            true
        }
        Verdict::Deny { .. } | Verdict::Never => {
            limit.refuse(at);
            false
        }
    }
}

/// Counts a request that gets an error. There are few kinds for each limit, so this is bounded.
#[cold]
fn note(
    unanswered: &mut BTreeMap<(String, &'static str), Unanswered>,
    undecided: &Undecided,
    line: u64,
) {
    let (limit, kind) = match undecided {
        Undecided::Select(SelectError::MissingAttribute { limit, .. }) => {
            (limit.as_str(), "missing")
        }
        Undecided::Select(SelectError::Address { limit, .. }) => (limit.as_str(), "address"),
        Undecided::Select(SelectError::Key { limit, .. }) => (limit.as_str(), "key"),
        Undecided::Select(SelectError::Cost { limit, .. }) => (limit.as_str(), "cost"),
        Undecided::Select(_) => ("", "select"),
        Undecided::TooMany(_) => ("", "too_many"),
    };
    let new = || Unanswered {
        count: 0,
        line,
        message: undecided.to_string(),
    };
    unanswered
        .entry((limit.to_owned(), kind))
        .or_insert_with(new)
        .count += 1;
}
