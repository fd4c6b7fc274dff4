//! Limits from real use: how much each key used at most, and what limits of that size would have
//! refused.
//!
//! The log is replayed twice. The first time every limit is as wide as it can be, so that it
//! refuses nobody and tells how much of it was in use: the most requests in any window, or the
//! deepest that a bucket was. The second time the numbers found at a few percentiles of that are
//! tried as limits, each by itself, by the algorithm that the limit has.

mod trial;
mod wide;

use std::collections::HashMap;

use ahash::RandomState;
use tollgate::{Limit, Quota};
use tollgate_rules::{Attributes, Config};

pub use trial::Trials;

use self::wide::{with_limit, without_limit};
use crate::replay::Replay;
use crate::requests::Request;

/// The percentiles that are tried, in parts of a thousand, and what they are called.
pub(crate) const PERCENTILES: [(u64, &str); 5] = [
    (500, "p50"),
    (900, "p90"),
    (990, "p99"),
    (999, "p99.9"),
    (1_000, "max"),
];
/// So many keys must lie above a percentile for it to say anything about them.
const KEYS_ABOVE_MIN: u64 = 10;

/// How much each key used at most of each limit.
#[derive(Debug)]
pub(crate) struct Peaks {
    config: Config,
    replay: Replay,
    limits: Vec<LimitPeaks>,
}

/// The same for one limit.
#[derive(Clone, Debug)]
pub(crate) struct LimitPeaks {
    pub(crate) name: String,
    /// What it allows now.
    pub(crate) quota: Quota,
    pub(crate) has_tiers: bool,
    /// Requests that met it.
    pub(crate) asked: u64,
    /// The most in use by each key.
    keys: HashMap<u64, u64, RandomState>,
}

impl Peaks {
    pub(crate) fn new(config: &Config) -> Self {
        let mut limits = Vec::new();
        let replay = Replay::with(config, |rule| {
            let own = rule.limit.rule().ok().map(|checked| *checked.quota());
            let Some((quota, wide)) = own.and_then(|quota| Some((quota, without_limit(&quota)?)))
            else {
                return false;
            };
            let name = rule.limit.name().to_owned();
            rule.limit = Limit::new(name.clone(), wide).shadow();
            let has_tiers = rule.tiers.take().is_some();
            limits.push(LimitPeaks {
                name,
                quota,
                has_tiers,
                asked: 0,
                keys: HashMap::default(),
            });
            true
        });
        Self {
            config: config.clone(),
            replay,
            limits,
        }
    }

    /// Notes how much is in use once each request has come.
    pub(crate) fn measure(&mut self, requests: &[Request<impl Attributes>]) {
        let Self { replay, limits, .. } = self;
        replay.decide(requests, |_, answer| {
            // What gets no decision is counted where the configuration itself is replayed.
            let Ok(answered) = answer else { return };
            for (chosen, outcome) in answered.checks.iter().zip(answered.outcomes) {
                let LimitPeaks { asked, keys, .. } = &mut limits[chosen.index];
                *asked += 1;
                let used = outcome.limit.saturating_sub(outcome.remaining);
                let peak = keys.entry(trial::print(&chosen.key)).or_default();
                *peak = used.max(*peak);
            }
        });
    }

    pub(crate) fn limits(&self) -> &[LimitPeaks] {
        &self.limits
    }

    /// The configuration with every limit at a percentile of its use, refusing nobody and each by
    /// itself.
    fn at(&self, permille: u64) -> Replay {
        Replay::with(&self.config, |rule| {
            let peaks = self
                .limits
                .iter()
                .find(|limit| limit.name == rule.limit.name());
            let tried =
                peaks.and_then(|peaks| with_limit(&peaks.quota, peaks.percentile(permille)?));
            let Some(quota) = tried else { return false };
            rule.limit = Limit::new(rule.limit.name(), quota).shadow();
            rule.tiers = None;
            true
        })
    }
}

impl LimitPeaks {
    pub(crate) fn keys(&self) -> u64 {
        self.keys.len() as u64
    }

    /// The most in use by this part of the keys, those that use least; `None` when there are no
    /// keys.
    pub(crate) fn percentile(&self, permille: u64) -> Option<u64> {
        let mut peaks: Vec<u64> = self.keys.values().copied().collect();
        let rank = (self.keys() * permille).div_ceil(1_000).max(1) - 1;
        let rank = usize::try_from(rank)
            .ok()
            .filter(|rank| *rank < peaks.len())?;
        // A request that costs nothing uses nothing; no limit is that small.
        Some((*peaks.select_nth_unstable(rank).1).max(1))
    }

    /// How many keys would be refused something by this limit: those that used more.
    pub(crate) fn keys_above(&self, limit: u64) -> u64 {
        self.keys.values().filter(|peak| **peak > limit).count() as u64
    }

    /// The place of the percentile to suggest: the highest that leaves enough keys above it to tell
    /// heavy use from the use of a few; where there are too few keys for any, the most that anyone
    /// used.
    pub(crate) fn suggested(&self) -> usize {
        let leaves_enough =
            |permille: u64| self.keys() * (1_000 - permille) / 1_000 >= KEYS_ABOVE_MIN;
        let highest = PERCENTILES
            .iter()
            .rposition(|(permille, _)| *permille > 500 && leaves_enough(*permille));
        highest.unwrap_or(PERCENTILES.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peaks(peaks: impl IntoIterator<Item = u64>) -> LimitPeaks {
        let limit = Limit::sliding_window("a", 1, std::time::Duration::from_secs(60));
        LimitPeaks {
            name: "a".to_owned(),
            quota: *limit.rule().unwrap().quota(),
            has_tiers: false,
            asked: 0,
            keys: (0..).zip(peaks).collect(),
        }
    }

    #[test]
    fn percentiles_are_values_that_keys_have() {
        let hundred = peaks(1..=100);
        let found = PERCENTILES.map(|(permille, _)| hundred.percentile(permille).unwrap());
        assert_eq!(found, [50, 90, 99, 100, 100]);
        assert_eq!(hundred.keys_above(90), 10);
        assert_eq!(peaks([7]).percentile(500), Some(7));
        assert_eq!(peaks([0]).percentile(500), Some(1));
        assert_eq!(peaks([]).percentile(500), None);
    }

    #[test]
    fn what_is_suggested_depends_on_how_many_there_are_to_judge_by() {
        for (keys, percentile) in [
            (1, "max"),
            (99, "max"),
            (100, "p90"),
            (1_000, "p99"),
            (10_000, "p99.9"),
        ] {
            assert_eq!(
                PERCENTILES[peaks(1..=keys).suggested()].1,
                percentile,
                "{keys} keys"
            );
        }
    }
}
