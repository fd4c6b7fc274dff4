//! One configuration, asked about the requests of the past at their times.
//!
//! Which limits a request meets is decided by the service's own selection, and whether they let it
//! pass by its own counters. Only the time is another: it is what the log says.

use std::ops::Range;

use tollgate::memory::Ledger;
use tollgate::store::DEMANDS_MAX;
use tollgate::{Demand, EncodedKey, Outcome, Quota, Rule};
use tollgate_rules::config::StoreConfig;
use tollgate_rules::{
    Attributes, Config, LimitConfig, MissingKeyPolicy, SelectError, SelectedLimit, Selector,
};

use crate::requests::Request;

/// The most counters that stand for those of a shared store.
const SHARED_KEYS_MAX: usize = 16_000_000;

/// The most of a key that is shown, in characters.
const KEY_SHOWN: usize = 160;

/// A configuration under replay.
#[derive(Debug)]
pub struct Replay {
    selector: Selector,
    /// The limits by their places, ready to be asked.
    checked: Vec<Rule>,
    ledger: Ledger,
    left_out: Vec<String>,
}

/// What a configuration says to one request.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// The limits it had to pass, in the order of the file.
    pub checks: &'a [SelectedLimit<'a>],
    /// What they said, in the same order.
    pub outcomes: &'a [Outcome],
    /// The limits that apply and whose key the log does not have, by their places.
    pub unkeyed: &'a [usize],
    /// Whether the request may pass: no limit refuses it, or only such as never do.
    pub is_allowed: bool,
}

/// Why there is no decision. The service would answer with an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Undecided {
    /// The request does not fit the limits.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// It meets more limits than a request may.
    #[error(transparent)]
    TooMany(tollgate::Error),
}

/// The limits that some requests meet, one request after the other.
#[derive(Default)]
struct Selected<'r> {
    chosen: Vec<SelectedLimit<'r>>,
    unkeyed: Vec<usize>,
    /// For each request its own among those.
    met: Vec<Result<Met, Undecided>>,
}

/// Which of the limits, and of those without a key, belong to a request.
#[derive(Clone, Debug)]
struct Met {
    limits: Range<usize>,
    unkeyed: Range<usize>,
}

impl Replay {
    /// Every limit of a configuration but those on requests in flight: when a request ended is not
    /// in a log.
    pub fn new(config: &Config) -> Self {
        Self::with(config, |_| true)
    }

    /// The same with limits that were changed; those for which `change` is false are left out.
    pub(crate) fn with(config: &Config, mut change: impl FnMut(&mut LimitConfig) -> bool) -> Self {
        let mut config = config.clone();
        let mut left_out = Vec::new();
        config.limits.retain_mut(|rule| {
            let is_kept = !is_concurrency(rule) && change(rule);
            if !is_kept {
                left_out.push(rule.limit.name().to_owned());
            }
            is_kept
        });
        let keys_max = match &config.store {
            StoreConfig::Memory { keys_max } => *keys_max,
            StoreConfig::Redis(_) => SHARED_KEYS_MAX,
        };
        let checked = config
            .limits
            .iter()
            .filter_map(|rule| rule.limit.rule().ok())
            .collect();
        Self {
            selector: Selector::new(&config),
            checked,
            ledger: Ledger::new(keys_max),
            left_out,
        }
    }

    /// What is said to each of some requests, whose moments never go back. They are decided in
    /// order, but their counters are brought near together, so that memory is waited for once
    /// instead of with every request.
    pub fn decide<R: Attributes>(
        &mut self,
        requests: &[Request<R>],
        mut then: impl FnMut(&Request<R>, Result<Answered<'_>, &Undecided>),
    ) {
        let Self {
            selector,
            checked,
            ledger,
            ..
        } = self;
        let selected = Selected::of(selector, requests);
        let Selected {
            chosen,
            unkeyed,
            met,
        } = &selected;
        let checks: Vec<Demand<'_>> = chosen.iter().map(|chosen| check(checked, chosen)).collect();
        let places: Vec<_> = checks
            .iter()
            .map(|check| ledger.place(&check.key))
            .collect();
        ledger.fetch(&places);
        let mut outcomes = Vec::new();
        for (request, met) in requests.iter().zip(met) {
            let Met {
                limits,
                unkeyed: without,
            } = match met {
                Ok(met) => met.clone(),
                Err(undecided) => {
                    then(request, Err(undecided));
                    continue;
                }
            };
            let checks = &checks[limits.clone()];
            outcomes.clear();
            ledger.spend(checks, &places[limits.clone()], request.at, &mut outcomes);
            let mut both = checks.iter().zip(&outcomes);
            let is_allowed =
                both.all(|(check, outcome)| check.shadow || outcome.verdict.is_allowed());
            let (checks, unkeyed) = (&chosen[limits], &unkeyed[without]);
            then(
                request,
                Ok(Answered {
                    checks,
                    outcomes: &outcomes,
                    unkeyed,
                    is_allowed,
                }),
            );
        }
    }

    /// The limits under replay, in the order of the file.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = &LimitConfig> {
        self.selector.rules()
    }

    /// The names of limits that cannot be replayed.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// True when there were more counters at once than are kept, so that some were forgotten early.
    pub fn is_full(&self) -> bool {
        self.ledger.keys() >= self.ledger.keys_max()
    }

    /// A key of the limit at a place for people. What is hashed stays hashed.
    pub(crate) fn shown(&self, place: usize, key: &EncodedKey) -> String {
        let parts = self.selector.shown_key(place, key).unwrap_or_default();
        if parts.is_empty() {
            return "everyone".to_owned();
        }
        let parts: Vec<String> = parts
            .iter()
            .map(|part| format!("{}={}", part.attribute, part.value))
            .collect();
        parts.join(", ").chars().take(KEY_SHOWN).collect()
    }
}

impl<'r> Selected<'r> {
    fn of<R: Attributes>(selector: &'r Selector, requests: &[Request<R>]) -> Self {
        let mut selected = Self {
            chosen: Vec::with_capacity(2 * requests.len()),
            unkeyed: Vec::new(),
            met: Vec::new(),
        };
        selected.met.reserve_exact(requests.len());
        for request in requests {
            let met = selected.add(selector, &request.attributes);
            selected.met.push(met);
        }
        selected
    }

    fn add(&mut self, selector: &'r Selector, request: &impl Attributes) -> Result<Met, Undecided> {
        let Self {
            chosen, unkeyed, ..
        } = self;
        let (limits, without) = (chosen.len(), unkeyed.len());
        selector.each(
            request,
            None,
            MissingKeyPolicy::PassOver,
            |index, found| match found {
                Some(found) => chosen.push(found),
                None => unkeyed.push(index),
            },
        )?;
        if chosen.len() - limits > DEMANDS_MAX {
            return Err(Undecided::TooMany(tollgate::Error::TooManyLimits));
        }
        Ok(Met {
            limits: limits..chosen.len(),
            unkeyed: without..unkeyed.len(),
        })
    }
}

#[inline]
fn check<'a>(checked: &'a [Rule], chosen: &'a SelectedLimit<'_>) -> Demand<'a> {
    let rule = &checked[chosen.index];
    rule.demand_for(
        &chosen.key,
        chosen.quota.unwrap_or(rule.quota()),
        chosen.cost,
    )
}

fn is_concurrency(rule: &LimitConfig) -> bool {
    rule.limit
        .rule()
        .is_ok_and(|rule| matches!(rule.quota(), Quota::Concurrency(_)))
}
