//! Suggests limits from the usage in the log: the peak usage of each key, and what limits of that
//! size would have denied.
//!
//! The log is replayed twice. In the first pass all limits are so high that they deny nothing, and
//! the peak usage of each key is measured: the most requests in any window, or the most taken from
//! a bucket. In the second pass, a few percentiles of these peaks are tried as limits, each limit on
//! its own, with the algorithm it has in the configuration.

mod quotas;
mod trial;

use std::collections::HashMap;

use ahash::RandomState;
use tollgate::{Limit, Quota, Rule};
use tollgate_rules::{Attributes, Config};

pub use trial::SuggestionTrials;

use self::quotas::{unlimited, with_limit};
use crate::batch::ReplayRequest;
use crate::replay::ConfigReplay;

/// The percentiles that are tried, in per mille, with their names.
pub(crate) const PERCENTILES: [(u64, &str); 5] = [
    (500, "p50"),
    (900, "p90"),
    (990, "p99"),
    (999, "p99.9"),
    (1_000, "max"),
];
/// The minimum number of keys above a percentile for it to be meaningful.
const KEYS_ABOVE_MIN: u64 = 10;

/// The peak usage of all limits.
#[derive(Debug)]
pub(crate) struct UsagePeaks {
    config: Config,
    replay: ConfigReplay,
    pub(crate) limits: Vec<LimitPeaks>,
}

/// The peak usage of one limit.
#[derive(Clone, Debug)]
pub(crate) struct LimitPeaks {
    pub(crate) name: String,
    /// Its configured quota.
    pub(crate) quota: Quota,
    pub(crate) has_tiers: bool,
    /// Requests that it applied to.
    pub(crate) requests: u64,
    /// The peak usage by hash of the key.
    keys: HashMap<u64, u64, RandomState>,
}

impl UsagePeaks {
    pub(crate) fn new(config: &Config) -> Self {
        let mut limits = Vec::new();
        let replay = ConfigReplay::with_limits(config, |limit| {
            let quota = *limit.rule.quota();
            let Some(unlimited) = unlimited(&quota) else {
                return false;
            };

            limit.rule = shadow_rule(&limit.rule, unlimited);
            let has_tiers = limit.tiers.take().is_some();
            limits.push(LimitPeaks {
                name: limit.rule.name().to_string(),
                quota,
                has_tiers,
                requests: 0,
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

    /// Measures the usage after each request.
    pub(crate) fn measure(&mut self, requests: &[ReplayRequest<impl Attributes>]) {
        let Self { replay, limits, .. } = self;
        replay.decide(requests, |_, result| {
            // Errors are counted by the replay of the configuration itself.
            let Ok(decision) = result else { return };

            for (selected, outcome) in decision.limits.iter().zip(decision.outcomes) {
                let LimitPeaks { requests, keys, .. } = &mut limits[selected.limit.position()];
                *requests += 1;
                let used = outcome.limit.saturating_sub(outcome.remaining);
                let peak = keys.entry(trial::key_hash(&selected.key)).or_default();
                *peak = used.max(*peak);
            }
        });
    }

    /// A replay with every limit set to a percentile of its usage. All limits are shadow limits, so
    /// that they do not affect each other.
    fn replay_at(&self, permille: u64) -> ConfigReplay {
        ConfigReplay::with_limits(&self.config, |limit| {
            let peaks = self
                .limits
                .iter()
                .find(|peaks| peaks.name == limit.rule.name().as_str());
            let quota =
                peaks.and_then(|peaks| with_limit(&peaks.quota, peaks.percentile(permille)?));
            let Some(quota) = quota else { return false };

            limit.rule = shadow_rule(&limit.rule, quota);
            limit.tiers = None;
            true
        })
    }
}

/// A shadow limit with the same name and another quota.
fn shadow_rule(rule: &Rule, quota: Quota) -> Rule {
    let limit = Limit::new(rule.name().as_str(), quota).shadow();
    limit.validate().expect("the name and the quota are valid")
}

impl LimitPeaks {
    /// The number of keys.
    pub(crate) fn keys(&self) -> u64 {
        self.keys.len() as u64
    }

    /// A percentile of the peak usage, at least 1. `None` if there are no keys.
    pub(crate) fn percentile(&self, permille: u64) -> Option<u64> {
        let mut peaks: Vec<u64> = self.keys.values().copied().collect();
        let rank = (self.keys() * permille).div_ceil(1_000).max(1) - 1;
        let rank = usize::try_from(rank)
            .ok()
            .filter(|rank| *rank < peaks.len())?;
        // The peak is 0 if all requests have a cost of 0, but a limit must be at least 1.
        Some((*peaks.select_nth_unstable(rank).1).max(1))
    }

    /// The number of keys whose peak usage is above a limit.
    pub(crate) fn keys_above(&self, limit: u64) -> u64 {
        self.keys.values().filter(|peak| **peak > limit).count() as u64
    }

    /// The index of the percentile to suggest: the highest one with enough keys above it to tell
    /// heavy usage from outliers. The maximum if there are too few keys for that.
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
            quota: *limit.validate().unwrap().quota(),
            has_tiers: false,
            requests: 0,
            keys: (0..).zip(peaks).collect(),
        }
    }

    #[test]
    fn percentiles_are_peaks_of_keys() {
        let hundred = peaks(1..=100);
        let found = PERCENTILES.map(|(permille, _)| hundred.percentile(permille).unwrap());
        assert_eq!(found, [50, 90, 99, 100, 100]);
        assert_eq!(hundred.keys_above(90), 10);
        assert_eq!(peaks([7]).percentile(500), Some(7));
        assert_eq!(peaks([0]).percentile(500), Some(1));
        assert_eq!(peaks([]).percentile(500), None);
    }

    #[test]
    fn the_suggested_percentile_depends_on_the_number_of_keys() {
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
