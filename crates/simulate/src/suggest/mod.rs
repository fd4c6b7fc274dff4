//! Suggests limits from the usage in the log: the peak usage of each key, and what limits of that
//! size would have denied.
//!
//! The log is replayed twice. In the first pass all limits are so high that they deny nothing, and
//! the peak usage of each key is measured by the limit's own algorithm. The peak is the smallest
//! limit that denies the key nothing, as no algorithm's state depends on the limit while nothing is
//! denied. In the second pass, a few of these peaks are tried as limits, each limit on its own and
//! with its lockout. Requests on a standing list use no limit, and are in neither pass.

mod knee;
mod quotas;
mod trial;
mod usage;

use std::collections::HashMap;

use ahash::RandomState;
use tollgate::{EncodedKey, Limit, Lockout, Micros, Quota, Rule};
use tollgate_rules::{Attributes, Config};

pub(crate) use knee::UsageKnee;
pub use trial::SuggestionTrials;
pub(crate) use usage::UsageProfile;

use self::quotas::{unlimited, with_limit};
use crate::batch::ReplayRequest;
use crate::counts::KeyTable;
use crate::replay::{ConfigReplay, SHARED_KEYS_MAX, keys_max};

/// The number of keys that are kept by name. The higher half is exact: as many as a report can list.
const HEAVIEST_MAX: usize = 2_001;

/// The peak usage of all limits.
#[derive(Debug)]
pub(crate) struct UsagePeaks {
    config: Config,
    replay: ConfigReplay,
    /// Whether values above the knee may be suggested.
    beyond_knee: bool,
    limits: Vec<LimitPeaks>,
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
    pub(crate) heaviest: KeyTable,
}

impl UsagePeaks {
    pub(crate) fn new(config: &Config, beyond_knee: bool) -> Self {
        let mut limits = Vec::new();
        // A log without a limit takes many times its usual share of the counters, so the cap of the
        // store does not apply.
        let replay = ConfigReplay::with_limits(config, SHARED_KEYS_MAX, |limit| {
            let quota = *limit.rule.quota();
            let Some(unlimited) = unlimited(&quota) else {
                return false;
            };

            limit.rule = shadow_rule(&limit.rule, unlimited, None);
            let (name, has_tiers) = (limit.rule.name(), limit.tiers.take().is_some());
            limits.push(LimitPeaks::new(name.to_string(), quota, has_tiers));
            true
        });

        Self {
            config: config.clone(),
            replay,
            beyond_knee,
            limits,
        }
    }

    /// Measures the usage after each request.
    pub(crate) fn measure(&mut self, requests: &[ReplayRequest<impl Attributes>]) {
        let Self { replay, limits, .. } = self;
        replay.decide(requests, |request, result| {
            // Errors are counted by the replay of the configuration itself.
            let Ok(decision) = result else { return };

            for (selected, outcome) in decision.limits.iter().zip(decision.outcomes) {
                let used = outcome.limit.saturating_sub(outcome.remaining);
                limits[selected.limit.position()].record(&selected.key, used, request.at);
            }
        });
    }

    /// The usage of each limit, summed up.
    pub(crate) fn usages(&self) -> Vec<UsageProfile<'_>> {
        let usage = |peaks| UsageProfile::new(peaks, self.beyond_knee);
        self.limits.iter().map(usage).collect()
    }

    /// A key of a limit as text. Hashed parts stay hashed.
    pub(crate) fn display_key(&self, limit: &str, key: &EncodedKey) -> String {
        let mut limits = self.replay.limits();
        let index = limits.position(|config| config.rule.name().as_str() == limit);
        index.map_or_else(String::new, |index| self.replay.display_key(index, key))
    }

    /// A replay with every limit set to the value that `choose` takes from its usage. All limits
    /// are shadow limits, so that they do not affect each other.
    fn replay_with(
        &self,
        usages: &[UsageProfile<'_>],
        choose: impl Fn(&UsageProfile<'_>) -> Option<u64>,
    ) -> ConfigReplay {
        ConfigReplay::with_limits(&self.config, keys_max(&self.config), |limit| {
            let name = limit.rule.name().as_str();
            let usage = usages.iter().find(|usage| usage.limit.name == name);
            let quota = usage.and_then(|usage| with_limit(&usage.limit.quota, choose(usage)?));
            let Some(quota) = quota else { return false };

            let lockout = limit.rule.lockout().copied();
            limit.rule = shadow_rule(&limit.rule, quota, lockout);
            limit.tiers = None;
            true
        })
    }
}

impl LimitPeaks {
    fn new(name: String, quota: Quota, has_tiers: bool) -> Self {
        Self {
            name,
            quota,
            has_tiers,
            requests: 0,
            keys: HashMap::default(),
            heaviest: KeyTable::new(HEAVIEST_MAX),
        }
    }

    fn record(&mut self, key: &EncodedKey, used: u64, at: Micros) {
        self.requests += 1;

        let peak = self.keys.entry(trial::key_hash(key)).or_default();
        if used > *peak {
            *peak = used;
            self.heaviest.raise(key, used, at);
        }
    }
}

/// A shadow limit with the same name and another quota.
fn shadow_rule(rule: &Rule, quota: Quota, lockout: Option<Lockout>) -> Rule {
    let limit = Limit::new(rule.name().as_str(), quota).shadow();
    let limit = match lockout {
        Some(lockout) => limit.lockout(lockout),
        None => limit,
    };
    limit.validate().expect("the name and the quota are valid")
}
