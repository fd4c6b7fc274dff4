//! The limits that the replicas share, and their configuration.

use tollgate::Quota;
use tollgate_rules::Config;

pub(super) const SECOND_US: u64 = 1_000_000;

/// `1000-once` refills so slowly that nothing is refilled during a run, `weighed` so fast that a
/// request for the whole capacity is admitted now and then. Windows last a second, so that a run of
/// a few seconds has a few window edges.
pub(super) const LIMITS: &str = include_str!("limits.yaml");

/// The quota of the limit with this name.
pub(super) fn quota(name: &str) -> Quota {
    let config = Config::read_from(LIMITS.as_bytes(), "limits", &|_| None);
    let limits = config.expect("the limits are valid").limits;
    let mut rules = limits.iter().map(|limit| &limit.rule);
    let rule = rules.find(|rule| rule.name().as_str() == name);
    *rule.expect("every cell names one of the limits").quota()
}

/// Units per second; at least one, also for a rate of one per day.
pub(super) fn per_s(quota: &Quota) -> u64 {
    match quota {
        Quota::TokenBucket(bucket) => {
            let (per, period_us) = bucket.refill();
            (per * SECOND_US / period_us).max(1)
        }
        _ => quota.limit(),
    }
}
