//! A configuration under replay, and what came of it.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use tollgate::{EncodedKey, Micros, Verdict};
use tollgate_rules::{Attributes, Meeting, SelectError, Selector};

use crate::replay::{Answered, Replay, Undecided};
use crate::tally::{LimitTally, Timeline};

/// The most refused keys that are known at once, over all limits.
const KEYS_KNOWN: usize = 100_000;
/// The fewest for each limit.
const KEYS_KNOWN_MIN: usize = 500;
/// The most of a key that is shown, in characters.
const KEY_SHOWN: usize = 160;

/// A configuration under replay, and what came of it.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) replay: Replay,
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

/// Where and when a request is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) line: u64,
    pub(crate) at: Micros,
    /// Its stretch of the time line.
    pub(crate) stretch: usize,
}

/// The limits that refused a request, and whom.
pub(crate) type Refusals = SmallVec<[(usize, EncodedKey); 4]>;

impl Side {
    pub(crate) fn new(replay: Replay, series: usize) -> Self {
        let count = replay.rules().len();
        let keys_max = (KEYS_KNOWN / count.max(1)).max(KEYS_KNOWN_MIN);
        let limits = vec![LimitTally::new(keys_max); count];
        Self { replay, limits, allowed: 0, refused: 0, unanswered: BTreeMap::new(), series }
    }

    /// How many series it has.
    pub(crate) const fn series_count(&self) -> usize {
        1 + self.limits.len()
    }

    /// Replays a request and counts what is said to it. Whether it passes, and which limits refuse it, is told for
    /// comparison; `None` when there is no decision.
    pub(crate) fn replay(
        &mut self,
        request: &impl Attributes,
        moment: Moment,
        timeline: &mut Timeline,
        mut refusals: Option<&mut Refusals>,
    ) -> Option<bool> {
        let Answered { checks, unkeyed, outcomes, is_allowed } = match self.replay.decide(request, moment.at)
        {
            Ok(answered) => answered,
            Err(undecided) => {
                note(&mut self.unanswered, &undecided, moment.line);
                return None;
            }
        };
        for index in unkeyed {
            self.limits[index].unkeyed += 1;
        }
        for (chosen, outcome) in checks.iter().zip(&outcomes) {
            let limit = &mut self.limits[chosen.index];
            let passes = count(limit, outcome.verdict, moment.at);
            timeline.count(self.series + 1 + chosen.index, moment.stretch, passes);
            if !passes {
                let name = chosen.rule.limit.name();
                limit.keys.refuse(&chosen.key, moment.at, || shown(self.replay.selector(), name, request));
                if let Some(refusals) = &mut refusals {
                    refusals.push((chosen.index, chosen.key.clone()));
                }
            }
        }
        timeline.count(self.series, moment.stretch, is_allowed);
        *(if is_allowed { &mut self.allowed } else { &mut self.refused }) += 1;
        Some(is_allowed)
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

/// A key for people. What is hashed stays hashed.
#[cold]
pub(crate) fn shown(selector: &Selector, limit: &str, request: &impl Attributes) -> String {
    let Ok((_, Meeting::Met { parts, .. })) = selector.explain_named(limit, request) else {
        return String::new();
    };
    if parts.is_empty() {
        return "everyone".to_owned();
    }
    let parts: Vec<String> = parts.iter().map(|part| format!("{}={}", part.attribute, part.value)).collect();
    parts.join(", ").chars().take(KEY_SHOWN).collect()
}

/// Counts a request that gets an error. There are few kinds for each limit, so this is bounded.
#[cold]
fn note(unanswered: &mut BTreeMap<(String, &'static str), Unanswered>, undecided: &Undecided, line: u64) {
    let (limit, kind) = match undecided {
        Undecided::Select(SelectError::MissingAttribute { limit, .. }) => (limit.as_str(), "missing"),
        Undecided::Select(SelectError::Address { limit, .. }) => (limit.as_str(), "address"),
        Undecided::Select(SelectError::Key { limit, .. }) => (limit.as_str(), "key"),
        Undecided::Select(SelectError::Cost { limit, .. }) => (limit.as_str(), "cost"),
        Undecided::Select(_) => ("", "select"),
        Undecided::Ask(tollgate::Error::TooManyChecks) => ("", "too_many"),
        Undecided::Ask(_) => ("", "ask"),
    };
    let new = || Unanswered { count: 0, line, message: undecided.to_string() };
    unanswered.entry((limit.to_owned(), kind)).or_insert_with(new).count += 1;
}
