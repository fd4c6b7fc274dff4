//! The limits that the replicas share, and their configuration.

use tollgate::Quota;
use tollgate_rules::Config;

use super::cells::Cell;
use super::store::Store;

pub(super) const SECOND_US: u64 = 1_000_000;

/// `1000-once` refills so slowly that nothing is refilled during a run, `weighed` so fast that a
/// request for the whole capacity is admitted now and then. Windows last a second, so that a run of
/// a few seconds has a few window edges.
const LIMITS: &str = "\
limits:
  - { name: 1000-per-s, key: [user], algorithm: token_bucket, capacity: 1000, refill_rate: 1000/s }
  - { name: 100-per-s, key: [user], algorithm: token_bucket, capacity: 100, refill_rate: 100/s }
  - { name: 10-per-s, key: [user], algorithm: token_bucket, capacity: 10, refill_rate: 10/s }
  - { name: 20000-per-s, key: [user], algorithm: token_bucket, capacity: 20000, refill_rate: 20000/s }
  - { name: 1000-once, key: [user], algorithm: token_bucket, capacity: 1000, refill_rate: 1/day }
  - { name: fixed-500, key: [user], algorithm: fixed_window, align: clock, limit: 500, window: 1s }
  - { name: sliding-500, key: [user], algorithm: sliding_window, limit: 500, window: 1s }
  - { name: 20-per-s, key: [user], algorithm: token_bucket, capacity: 20, refill_rate: 20/s }
  - { name: weighed, key: [user], algorithm: token_bucket, capacity: 1000, refill_rate: 2000/s }
";

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

/// A replica's configuration: all limits at the consistency of the cell, over this store.
///
/// The store timeout is one second instead of 10 ms, so that a busy machine makes the store slow
/// but not unavailable. Requests that the store cannot decide are denied, because the experiment
/// counts admissions.
pub(super) fn config(cell: &Cell, store: &Store) -> String {
    let (store_type, urls) = (store.kind(), store.urls());
    let (mode, replicas) = (cell.mode, cell.replicas);
    format!(
        "version: 1\n\
         store: {{ type: {store_type}, endpoints: {urls:?}, prefix: \"strictness:\", timeout: 1s }}\n\
         defaults: {{ consistency: {mode}, on_store_failure: deny, expected_replicas: {replicas} }}\n\
         {LIMITS}"
    )
}
