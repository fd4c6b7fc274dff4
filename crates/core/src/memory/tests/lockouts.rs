//! Lockouts: their memory, and that nothing that makes the store fast swallows a denial.

use std::thread;

use super::*;
use crate::algorithm::{KeyLock, Lockout};

const HOUR: Duration = Duration::from_secs(3_600);

fn locking(limit: u64, after: u32) -> Rule {
    let lockout = Lockout::new(after, HOUR, HOUR).unwrap();
    rule(&Limit::fixed_window("login", limit, HOUR).lockout(lockout))
}

fn lock(store: &MemoryStore, rule: &Rule, key: &str, intent: Intent) -> KeyLock {
    let demand = DemandBuf::new(rule, key, 1).unwrap();
    let demand = demand.as_demand();
    store
        .try_spend(&demand, intent, PermitId::NONE)
        .unwrap()
        .0
        .lock
}

#[test]
fn locked_keys_survive_a_flood_of_exhausted_keys() {
    let (store, _) = store(1_000);
    let rule = locking(1, 1);
    let locked: Vec<String> = (0..50).map(|number| format!("locked:{number}")).collect();
    for key in &locked {
        spend(&store, &rule, key, 1);
        assert!(lock(&store, &rule, key, Intent::Spend).is_new());
    }

    for number in 0..20_000 {
        assert!(spend(&store, &rule, &format!("other:{number}"), 1).is_allowed());
        assert!(store.keys() <= 1_000, "lockouts count towards the cap");
    }
    for key in &locked {
        let lock = lock(&store, &rule, key, Intent::Peek);
        assert!(lock.rest().is_some(), "{key} was evicted");
    }
}

#[test]
fn a_lockout_is_swept_when_it_is_forgotten() {
    let (store, clock) = store(1_000);
    let rule = locking(1, 2);
    for _ in 0..3 {
        spend(&store, &rule, "ann", 1);
    }
    assert_eq!(store.keys(), 2);

    // Locked for an hour, and known for another.
    clock.advance(Duration::from_secs(7_199));
    store.sweep();
    assert_eq!(store.keys(), 1);
    clock.advance(Duration::from_secs(3));
    store.sweep();
    assert_eq!(store.keys(), 0);
}

#[test]
fn a_snapshot_keeps_lockouts() {
    let (store, clock) = store(1_000);
    let rule = locking(1, 1);
    for _ in 0..2 {
        spend(&store, &rule, "ann", 1);
    }

    clock.advance(HOUR / 2);
    let builder = MemoryStore::builder().clock(clock.clone());
    let restored = builder.restore(&store.snapshot()).unwrap();
    let rest = lock(&restored, &rule, "ann", Intent::Spend).rest();
    assert_eq!(rest, Some(Micros::from_secs(1_800)));
}

/// Every denial must be counted, and only one of them locks the key.
#[test]
fn no_denial_of_a_hot_key_is_lost() {
    let store = MemoryStore::new();
    let (allowed, denied) = (1_000, 3_000);
    let rule = locking(allowed, 3_000);
    let is_new = || lock(&store, &rule, "ann", Intent::Spend).is_new();

    let locked: usize = thread::scope(|scope| {
        let work = || (0..(allowed + denied) / 4).filter(|_| is_new()).count();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(locked, 1, "the last denial locks the key");
}

#[test]
fn a_limit_without_a_lockout_stores_nothing_more() {
    let (store, _) = store(1_000);
    let rule = rule(&Limit::fixed_window("api", 1, HOUR));
    for _ in 0..5 {
        spend(&store, &rule, "ann", 1);
    }
    assert_eq!(store.keys(), 1);
}
