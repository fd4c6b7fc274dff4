//! One configuration, asked about the requests of the past at their times.
//!
//! Which limits a request meets is decided by the service's own selection, and whether they let it pass by its own limiter
//! on the memory store. Only the clock is another: it shows what the log says.

use smallvec::SmallVec;
use tollgate::limiter::{Outcomes, WrittenCheck};
use tollgate::store::Intent;
use tollgate::{Limiter, MemoryStore, Micros, Quota};
use tollgate_rules::config::StoreConfig;
use tollgate_rules::{Attributes, Chosen, Config, OnMissing, Rule, SelectError, Selection, Selector};

use crate::clock::LogClock;

/// The most counters that stand for those of a shared store.
const SHARED_KEYS_MAX: usize = 16_000_000;

/// A configuration under replay.
#[derive(Debug)]
pub struct Replay {
    selector: Selector,
    limiter: Limiter,
    clock: LogClock,
    store: MemoryStore,
    /// For each limit whether it only counts.
    is_shadow: Vec<bool>,
    left_out: Vec<String>,
}

/// What a configuration says to one request.
#[derive(Debug)]
pub struct Answered<'r> {
    /// The limits it had to pass, in the order of the file.
    pub checks: Selection<'r>,
    /// The limits that apply and whose key the log does not have, by their places.
    pub unkeyed: SmallVec<[usize; 4]>,
    /// What they said, in the same order.
    pub outcomes: Outcomes,
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
    /// The limiter cannot take the question.
    #[error(transparent)]
    Ask(#[from] tollgate::Error),
}

impl Replay {
    /// Every limit of a configuration but those on requests in flight: when a request ended is not in a log.
    pub fn new(config: &Config) -> Self {
        Self::with(config, |_| true)
    }

    /// The same with limits that were changed; those for which `change` is false are left out.
    pub(crate) fn with(config: &Config, mut change: impl FnMut(&mut Rule) -> bool) -> Self {
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
        let clock = LogClock::default();
        let store = MemoryStore::builder().keys_max(keys_max).clock(clock.clone()).build();
        let limiter = Limiter::builder()
            .store(store.clone())
            .clock(clock.clone())
            .limits(config.limits.iter().map(|rule| rule.limit.clone()))
            .build()
            .expect("a configuration holds only limits that are right, under names that differ");
        let is_shadow = |rule: &Rule| rule.limit.rule().is_ok_and(|rule| rule.is_shadow());
        let is_shadow = config.limits.iter().map(is_shadow).collect();
        Self { selector: Selector::new(&config), limiter, clock, store, is_shadow, left_out }
    }

    /// What is said to a request at a moment, which is never before that of the last one.
    #[inline]
    pub fn decide(&self, request: &impl Attributes, at: Micros) -> Result<Answered<'_>, Undecided> {
        let (mut checks, mut unkeyed) = (Selection::new(), SmallVec::new());
        self.selector.each(request, None, OnMissing::PassOver, |index, chosen| match chosen {
            Some(chosen) => checks.push(chosen),
            None => unkeyed.push(index),
        })?;
        self.clock.set(at);
        let outcomes = self.ask(&checks)?;
        let mut both = checks.iter().zip(&outcomes);
        let is_allowed =
            both.all(|(chosen, outcome)| outcome.verdict.is_allowed() || self.is_shadow[chosen.index]);
        Ok(Answered { checks, unkeyed, outcomes, is_allowed })
    }

    #[inline]
    fn ask(&self, checks: &[Chosen<'_>]) -> Result<Outcomes, tollgate::Error> {
        let mut written: SmallVec<[WrittenCheck<'_>; 4]> = SmallVec::new();
        for Chosen { rule, key, cost, quota, .. } in checks {
            written.push(WrittenCheck { limit: rule.limit.name(), key, cost: *cost, quota: *quota });
        }
        self.limiter.outcomes(&written, Intent::Spend)
    }

    /// The limits under replay, in the order of the file.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.selector.rules()
    }

    /// The names of limits that cannot be replayed.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// True when there were more counters at once than are kept, so that some were forgotten early.
    pub fn is_full(&self) -> bool {
        self.store.keys() >= self.store.keys_max()
    }

    pub(crate) const fn selector(&self) -> &Selector {
        &self.selector
    }
}

fn is_concurrency(rule: &Rule) -> bool {
    rule.limit.rule().is_ok_and(|rule| matches!(rule.quota(), Quota::Concurrency(_)))
}
