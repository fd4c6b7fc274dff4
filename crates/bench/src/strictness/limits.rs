//! The limits that the replicas share, and their configuration.

use tollgate::{Micros, Quota};
use tollgate_rules::Config;

pub(super) const SECOND_US: u64 = 1_000_000;

/// `1000-once` and `1000-per-day` refill so slowly that nothing is refilled during a run, `weighed`
/// so fast that a request for the whole capacity is admitted now and then. Other windows last a
/// second, so that a run of a few seconds has a few window edges.
pub(super) const LIMITS: &str = include_str!("limits.yaml");

/// The quota of the limit with this name.
pub(super) fn quota(name: &str) -> Quota {
    let config = Config::read_from(LIMITS.as_bytes(), "limits", &|_| None);
    let limits = config.expect("the limits are valid").limits;
    let mut rules = limits.iter().map(|limit| &limit.rule);
    let rule = rules.find(|rule| rule.name().as_str() == name);
    *rule.expect("every cell names one of the limits").quota()
}

/// Whole units that become available in this time.
pub(super) fn refilled(quota: &Quota, time_us: u64) -> u64 {
    let (units, period_us) = match quota {
        Quota::TokenBucket(bucket) => bucket.refill(),
        other => (other.limit(), other.window().map_or(SECOND_US, Micros::get)),
    };
    units * time_us / period_us
}
