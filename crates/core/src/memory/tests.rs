use std::time::Duration;

use super::*;
use crate::algorithm::{Calendar, PermitId, Quota, Rate, Verdict};
use crate::clock::ManualClock;
use crate::demand::DemandBuf;
use crate::limit::{Limit, Rule};
use crate::store::{Intent, Store, StoreFuture};
use crate::time::Micros;

mod lockouts;
mod protocol;
mod shares;
mod snapshot;

fn store(keys_max: usize) -> (MemoryStore, ManualClock) {
    let clock = ManualClock::default();
    (
        MemoryStore::builder()
            .keys_max(keys_max)
            .clock(clock.clone())
            .build(),
        clock,
    )
}

fn rule(limit: &Limit) -> Rule {
    limit.validate().unwrap()
}

fn bucket(capacity: u64) -> Rule {
    rule(&Limit::token_bucket(
        "bucket",
        capacity,
        Rate::per_hour(capacity),
    ))
}

fn spend(store: &MemoryStore, rule: &Rule, key: &str, cost: u64) -> Verdict {
    let demand = DemandBuf::new(rule, key, cost).unwrap();
    match store.spend(&[demand.as_demand()], Intent::Spend, PermitId::new(1)) {
        StoreFuture::Ready(Some(Ok(reply))) => reply.outcomes()[0].0.verdict,
        other => panic!("expected a ready reply of the memory store, got {other:?}"),
    }
}

fn remaining(store: &MemoryStore, rule: &Rule, key: &str) -> u64 {
    let demand = DemandBuf::new(rule, key, 0).unwrap();
    match store.spend(&[demand.as_demand()], Intent::Peek, PermitId::NONE) {
        StoreFuture::Ready(Some(Ok(reply))) => reply.outcomes()[0].0.remaining,
        other => panic!("expected a ready reply of the memory store, got {other:?}"),
    }
}

#[test]
fn the_cap_holds_and_exhausted_keys_survive_a_flood_of_new_keys() {
    let (store, _) = store(10_000);
    let rule = bucket(100);

    for exhausted in 0..1_000 {
        assert!(spend(&store, &rule, &format!("exhausted:{exhausted}"), 100).is_allowed());
    }

    for new in 0..200_000 {
        assert!(spend(&store, &rule, &format!("new:{new}"), 1).is_allowed());
        if new % 1_000 == 0 {
            assert!(store.keys() <= 10_000);
        }
    }

    let freed = (0..1_000)
        .filter(|key| spend(&store, &rule, &format!("exhausted:{key}"), 1).is_allowed())
        .count();
    assert_eq!(
        freed, 0,
        "an exhausted key was evicted although keys with quota left could have been"
    );
}

#[test]
fn evicted_keys_were_never_more_used_than_those_that_stay() {
    let (store, _) = store(1_000); // one shard, so the order is strict
    let rule = bucket(10_000);

    for key in 0..1_000u64 {
        spend(&store, &rule, &format!("key:{key}"), 1 + key * 7 % 1_000);
    }
    spend(&store, &rule, "one too many", 500);

    let used = |key: u64| 1 + key * 7 % 1_000;
    let (kept, evicted): (Vec<u64>, Vec<u64>) =
        (0..1_000).partition(|key| remaining(&store, &rule, &format!("key:{key}")) < 10_000);
    let most_used_evicted = evicted.iter().map(|key| used(*key)).max().unwrap();
    let least_used_kept = kept.iter().map(|key| used(*key)).min().unwrap();

    assert!(
        most_used_evicted <= least_used_kept,
        "a key with {most_used_evicted} used was evicted, one with {least_used_kept} stayed"
    );
    assert_eq!(remaining(&store, &rule, "one too many"), 9_500);
}

#[test]
fn a_key_with_quota_left_is_evicted_before_any_exhausted_key() {
    for limit in [
        Limit::fixed_window("fixed", 5, Duration::from_secs(60)),
        Limit::sliding_window("sliding", 5, Duration::from_secs(60)),
        Limit::token_bucket("bucket", 5, Rate::per_minute(5)),
        Limit::queue("queue", 5, Rate::per_minute(5)),
    ] {
        let (store, _) = store(100);
        let rule = rule(&limit);

        for exhausted in 0..99 {
            spend(&store, &rule, &format!("exhausted:{exhausted}"), 5);
        }
        spend(&store, &rule, "less used", 4);
        spend(&store, &rule, "new", 5);

        assert_eq!(
            remaining(&store, &rule, "less used"),
            5,
            "{}: the key with quota left was not evicted",
            rule.name()
        );

        for exhausted in 0..99 {
            assert_eq!(
                remaining(&store, &rule, &format!("exhausted:{exhausted}")),
                0,
                "{} {exhausted}",
                rule.name()
            );
        }
    }
}

#[test]
fn a_store_full_of_exhausted_keys_still_counts_new_keys() {
    let (store, _) = store(50);
    let rule = bucket(5);
    for key in 0..200 {
        spend(&store, &rule, &format!("key:{key}"), 5);
        assert_eq!(remaining(&store, &rule, &format!("key:{key}")), 0);
    }
    assert_eq!(store.keys(), 50);
}

#[test]
fn a_cap_of_one_key_holds() {
    let (store, _) = store(1);
    let rule = bucket(5);
    for key in 0..10 {
        spend(&store, &rule, &format!("key:{key}"), 1);
        assert_eq!(store.keys(), 1);
    }
}

#[test]
fn logs_count_against_the_cap_by_their_size() {
    let (store, clock) = store(1_000);
    let rule = rule(&Limit::sliding_log(
        "log",
        1 << 40,
        Duration::from_secs(3_600),
    ));

    for _ in 0..10 {
        for key in 0..200 {
            for _ in 0..4 {
                clock.advance(Duration::from_micros(1));
                spend(&store, &rule, &format!("key:{key}"), 1);
            }
        }

        assert!(
            store.counters().key_cap.used() <= 1_001,
            "{}",
            store.counters().key_cap.used()
        );
    }
    assert!(
        store.keys() < 200,
        "{} logs of up to 40 hits cannot all fit",
        store.keys()
    );
}

#[test]
fn permits_in_flight_survive_a_flood_of_new_keys() {
    let (store, _) = store(1_000);
    let jobs = rule(&Limit::concurrency("jobs", 20, Duration::from_secs(60)));
    spend(&store, &jobs, "tenant", 1);
    for key in 0..5_000 {
        spend(&store, &bucket(100), &format!("key:{key}"), 1);
    }
    assert_eq!(remaining(&store, &jobs, "tenant"), 19);
}

#[test]
fn the_table_does_not_grow_after_a_burst_that_is_repeated() {
    let (store, clock) = store(1_000_000);
    let rule = rule(&Limit::fixed_window("api", 5, Duration::from_secs(60)));
    let log = self::rule(&Limit::sliding_log("log", 5, Duration::from_secs(60)));
    let mut bursts = Vec::new();

    for burst in 0..3 {
        for key in 0..100_000 {
            spend(&store, &rule, &format!("key:{burst}:{key}"), 1);
        }
        for key in 0..1_000 {
            spend(&store, &log, &format!("key:{burst}:{key}"), 1);
        }
        bursts.push(store.table_bytes());

        // Two minutes of ordinary traffic on one key sweep all shards.
        for _ in 0..1_200 {
            clock.advance(Duration::from_millis(100));
            spend(&store, &rule, "someone", 1);
        }
        assert_eq!(store.keys(), 1);
        assert_eq!(store.counters().key_cap.used(), 1);
    }

    // Keys are spread differently over the shards each time, so a few shards grow once more.
    assert!(bursts[2] < bursts[0] * 5 / 4, "{bursts:?}");
    assert!(bursts[2] < 100_000 * 96, "{bursts:?}");
}

#[test]
fn a_key_takes_at_most_96_bytes_however_many_there_are() {
    let (store, _) = store(2_000_000);
    let rule = bucket(5);
    let empty = store.table_bytes();

    for key in 1..=1_000_000u32 {
        let demand = DemandBuf::new(&rule, key, 1).unwrap();
        drop(store.spend(&[demand.as_demand()], Intent::Spend, PermitId::NONE));
        if key.is_multiple_of(20_000) && key >= 100_000 {
            let per_key = (store.table_bytes() - empty) / key as usize;
            assert!(per_key <= 96, "{per_key} bytes for each of {key} keys");
        }
    }

    assert_eq!(store.keys(), 1_000_000);
    assert!(
        store.table_bytes() <= 96_000_000,
        "{} bytes",
        store.table_bytes()
    );
}

#[test]
fn resetting_a_key_frees_its_memory() {
    let (store, _) = store(100);
    let log = rule(&Limit::sliding_log("log", 50, Duration::from_secs(60)));
    spend(&store, &log, "ann", 1);
    let demand = DemandBuf::new(&log, "ann", 1).unwrap();
    drop(store.reset(&demand.as_demand().key));
    assert_eq!((store.keys(), store.counters().key_cap.used()), (0, 0));
}

/// A quota of another shape cannot reach the stored state, because its key differs.
#[test]
fn a_changed_window_starts_a_new_counter_and_a_changed_limit_does_not() {
    let (store, _) = store(100);
    let minute = rule(&Limit::fixed_window("api", 5, Duration::from_secs(60)));
    let hour = rule(&Limit::fixed_window("api", 5, Duration::from_secs(3_600)));
    let larger = rule(&Limit::fixed_window("api", 50, Duration::from_secs(60)));
    spend(&store, &minute, "ann", 5);
    assert_eq!(remaining(&store, &hour, "ann"), 5);
    assert_eq!(remaining(&store, &larger, "ann"), 45);
    assert!(matches!(minute.quota(), Quota::FixedWindow(_)));
}

/// A counter without permits must stay what it is.
#[test]
fn releasing_or_renewing_a_permit_changes_no_counter_of_another_algorithm() {
    for limit in [
        Limit::fixed_window("fixed", 10, Duration::from_secs(60)),
        Limit::calendar_window("calendar", 10, Calendar::Minute),
        Limit::sliding_window("sliding", 10, Duration::from_secs(60)),
        Limit::sliding_log("log", 10, Duration::from_secs(60)),
        Limit::token_bucket("bucket", 10, Rate::per_minute(7)),
        Limit::leaky_bucket("meter", 10, Rate::per_minute(7)),
        Limit::queue("queue", 10, Rate::per_minute(7)),
    ] {
        let (store, _) = store(100);
        let rule = rule(&limit);
        spend(&store, &rule, "ann", 4);
        let before = (store.snapshot(), store.counters().key_cap.used());

        for (key, cost) in [("ann", 4), ("ann", 0), ("never seen", 1)] {
            let demand = DemandBuf::new(&rule, key, cost).unwrap();
            for permit_id in [PermitId::NONE, PermitId::new(1)] {
                let is_released = store.release_permit(&demand.as_demand(), permit_id);
                let is_renewed = store.renew_permit(&demand.as_demand(), permit_id);
                assert!(!is_released && !is_renewed, "{}: {key}", rule.name());
            }
        }

        let after = (store.snapshot(), store.counters().key_cap.used());
        assert!(before == after, "{}: the counter changed", rule.name());
        assert!(spend(&store, &rule, "ann", 3).is_allowed());
        assert_eq!(remaining(&store, &rule, "ann"), 3, "{}", rule.name());
    }
}

/// A local counter of the limiter: charged with what the store admits, drained when it denies.
#[test]
fn a_bucket_with_debt_owes_at_most_what_it_holds() {
    let (store, clock) = store(100);
    let rule = bucket(100);
    let demand = |key: &str, cost| DemandBuf::new(&rule, key, cost).unwrap();
    let retry_after = |key: &str| {
        let reply = store
            .spend_all(&[demand(key, 1).as_demand()], Intent::Peek, PermitId::NONE)
            .expect("room");
        match reply.outcomes()[0].0.verdict {
            Verdict::Deny { retry_after } => retry_after.get() / 1_000_000,
            other => panic!("expected a denial, got {other:?}"),
        }
    };

    store.charge(&demand("ann", 140).as_demand());
    assert_eq!(retry_after("ann"), 41 * 36);
    store.drain(&demand("ann", 0).as_demand(), 0);
    assert_eq!(retry_after("ann"), 41 * 36, "a bucket that owes is empty");
    store.charge(&demand("ann", 1_000).as_demand());
    assert_eq!(retry_after("ann"), 101 * 36);

    store.drain(&demand("bob", 0).as_demand(), 30);
    store.charge(&demand("bob", 30).as_demand());
    assert_eq!(retry_after("bob"), 36);

    clock.advance(Duration::from_secs(2 * 3_600 + 2));
    store.sweep();
    assert_eq!(store.keys(), 0, "full buckets are dropped");
}

/// Only buckets can owe units.
#[test]
fn windows_logs_and_permits_are_not_charged_by_force() {
    for limit in [
        Limit::fixed_window("fixed", 10, Duration::from_secs(60)),
        Limit::sliding_window("sliding", 10, Duration::from_secs(60)),
        Limit::sliding_log("log", 10, Duration::from_secs(60)),
        Limit::concurrency("jobs", 10, Duration::from_secs(60)),
    ] {
        let (store, _) = store(100);
        let demand = DemandBuf::new(&rule(&limit), "ann", 5).unwrap();
        store.charge(&demand.as_demand());
        store.drain(&demand.as_demand(), 0);
        assert_eq!(store.keys(), 0, "{}", limit.name());
    }
}
