//! What each limit keeps of the cap, whatever the other limits do.

use proptest::prelude::*;

use super::super::limit_usage::Evictions;
use super::*;
use crate::name::LimitName;

const HOUR: Duration = Duration::from_secs(3_600);

fn login() -> Rule {
    rule(&Limit::fixed_window("login", 5, HOUR))
}

fn downloads(permits: u64) -> Rule {
    rule(&Limit::concurrency("downloads", permits, HOUR))
}

/// Acquires a permit with an id of its own.
fn acquire(store: &MemoryStore, rule: &Rule, key: &str, id: u128) -> Verdict {
    let demand = DemandBuf::new(rule, key, 1).unwrap();
    let reply = store
        .spend_all(&[demand.as_demand()], Intent::Spend, PermitId::new(id))
        .expect("room");
    reply.outcomes()[0].0.verdict
}

fn evictions(store: &MemoryStore, limit: &str) -> Evictions {
    let limit = Some(LimitName::new(limit).unwrap());
    let found = store
        .evictions()
        .into_iter()
        .find(|(name, _)| *name == limit);
    found.map(|(_, evictions)| evictions).unwrap_or_default()
}

/// The attack that the shares prevent: keys of a cheap limit that are used up, until the counters
/// of a precious limit are gone.
#[test]
fn a_flood_of_exhausted_keys_on_a_cheap_limit_does_not_reset_logins() {
    let (store, _) = store(10_000);
    let (login, search) = (login(), rule(&Limit::fixed_window("search", 1, HOUR)));
    for user in 0..2_500 {
        spend(&store, &login, &format!("user:{user}"), 1 + user % 5);
    }

    for address in 0..50_000 {
        spend(&store, &search, &format!("address:{address}"), 1);
    }

    assert!(store.keys() <= 10_000 && store.keys() > 8_500);
    for user in 0..2_500 {
        let left = remaining(&store, &login, &format!("user:{user}"));
        assert_eq!(left, 4 - user % 5, "user {user}");
    }
    assert_eq!(evictions(&store, "login"), Evictions::default());
    let lost = evictions(&store, "search");
    assert!(lost.limited >= 42_500 && lost.unlimited == 0, "{lost:?}");
}

/// Names that callers choose must not take the shares of the limits of the application.
#[test]
fn limits_without_a_share_do_not_take_those_of_others() {
    let (store, _) = store(10_000);
    for name in 0..300 {
        let inline = Limit::fixed_window(format!("inline-{name}"), 1, HOUR);
        spend(&store, &rule(&inline).without_share(), "someone", 1);
    }
    let login = login();
    for user in 0..50 {
        spend(&store, &login, &format!("user:{user}"), 5);
    }

    for address in 0..50_000 {
        let inline = Limit::fixed_window(format!("inline-{}", address % 300), 1, HOUR);
        let inline = rule(&inline).without_share();
        spend(&store, &inline, &format!("address:{address}"), 1);
    }
    for user in 0..50 {
        assert_eq!(remaining(&store, &login, &format!("user:{user}")), 0);
    }
    assert_eq!(evictions(&store, "login"), Evictions::default());
}

#[test]
fn an_unused_share_is_lent_and_taken_back() {
    let (store, _) = store(1_000);
    let (login, search) = (login(), bucket(1));
    for address in 0..2_000 {
        spend(&store, &search, &format!("address:{address}"), 1);
    }
    assert!(store.keys() > 870, "one limit may use the whole cap");

    // Half the cap divided by two limits.
    for user in 0..250 {
        spend(&store, &login, &format!("user:{user}"), 1);
        spend(&store, &search, &format!("late:{user}"), 1);
    }
    assert_eq!(store.counters().key_cap.share(), 250);
    assert_eq!(evictions(&store, "login"), Evictions::default());
    for user in 0..250 {
        assert_eq!(remaining(&store, &login, &format!("user:{user}")), 4);
    }
}

#[test]
fn permits_in_flight_are_never_evicted() {
    let (store, _) = store(1_000);
    let (downloads, search) = (downloads(20), bucket(1));
    for key in 0..100 {
        assert!(acquire(&store, &downloads, &format!("tenant:{key}"), 1).is_allowed());
    }

    for key in 0..10_000 {
        spend(&store, &search, &format!("address:{key}"), 1);
        let log = rule(&Limit::sliding_log("log", 5, HOUR));
        spend(&store, &log, &format!("address:{key}"), 1);
    }

    for key in 0..100 {
        assert_eq!(remaining(&store, &downloads, &format!("tenant:{key}")), 19);
    }
}

#[test]
fn a_permit_without_room_is_denied_and_takes_nothing() {
    // Every store has room for 4,096 keys of permits, and 16 more for each limit.
    let (store, _) = store(100);
    let (downloads, jobs) = (downloads(5), rule(&Limit::concurrency("jobs", 5, HOUR)));
    let mut held = 0;
    while acquire(&store, &downloads, &format!("flood:{held}"), 1).is_allowed() {
        held += 1;
    }
    assert_eq!(held, 2_048, "a key and a permit each");

    let denied = acquire(&store, &downloads, "one more", 1);
    let retry_after = Micros::from_secs(1);
    assert_eq!(denied, Verdict::Deny { retry_after });
    assert_eq!(remaining(&store, &downloads, "one more"), 5);

    for key in 0..8 {
        let key = format!("job:{key}");
        assert!(acquire(&store, &jobs, &key, 1).is_allowed(), "the reserve");
    }
    assert!(!acquire(&store, &jobs, "job:8", 1).is_allowed());

    for key in 0..10 {
        let demand = DemandBuf::new(&downloads, format!("flood:{key}"), 1).unwrap();
        assert!(store.release_permit(&demand.as_demand(), PermitId::new(1)));
    }
    assert!(acquire(&store, &jobs, "job:8", 1).is_allowed());
}

/// A denied permit denies the whole request: its other limits are not charged.
#[test]
fn a_request_whose_permit_has_no_room_charges_nothing() {
    let (store, _) = store(100);
    let (downloads, login) = (downloads(5), login());
    for key in 0..2_048 {
        acquire(&store, &downloads, &format!("flood:{key}"), 1);
    }

    let demands = [(&login, "ann"), (&downloads, "ann")]
        .map(|(rule, key)| DemandBuf::new(rule, key, 1).unwrap());
    let demands = demands.each_ref().map(DemandBuf::as_demand);
    let reply = store
        .spend_all(&demands, Intent::Spend, PermitId::new(1))
        .expect("room");
    assert!(reply.is_denied(&demands));
    assert_eq!(remaining(&store, &login, "ann"), 5);
}

#[test]
fn limits_beyond_the_first_255_share_their_part_of_the_cap() {
    let (store, _) = store(51_200);
    let login = login();
    // Half the cap divided by 256.
    for user in 0..100 {
        spend(&store, &login, &format!("user:{user}"), 5);
    }

    for limit in 0..400 {
        let rule = rule(&Limit::fixed_window(format!("limit:{limit}"), 1, HOUR));
        for key in 0..300 {
            spend(&store, &rule, &format!("key:{key}"), 1);
        }
    }

    assert_eq!(store.counters().key_cap.share(), 100);
    for user in 0..100 {
        assert_eq!(remaining(&store, &login, &format!("user:{user}")), 0);
    }
    let unnamed = store
        .evictions()
        .into_iter()
        .find(|(limit, _)| limit.is_none());
    assert!(unnamed.unwrap().1.limited > 0);
}

#[test]
fn a_snapshot_keeps_the_shares() {
    let (store, clock) = store(10_000);
    let (login, search) = (login(), bucket(1));
    for user in 0..200 {
        spend(&store, &login, &format!("user:{user}"), 1);
    }
    for address in 0..5_000 {
        spend(&store, &search, &format!("address:{address}"), 1);
    }

    // The smaller store cannot hold all of them, and gets more of the same.
    let builder = MemoryStore::builder().keys_max(1_000).clock(clock);
    let restored = builder.restore(&store.snapshot()).unwrap();
    assert!(restored.keys() <= 1_000);
    for address in 5_000..10_000 {
        spend(&restored, &search, &format!("address:{address}"), 1);
    }

    for user in 0..200 {
        assert_eq!(remaining(&restored, &login, &format!("user:{user}")), 4);
    }
    assert_eq!(restored.counters().key_cap.share(), 250);
    assert_eq!(evictions(&restored, "login"), Evictions::default());
}

/// What the rules of the next test have in common with a demand.
fn mixed_rules() -> [Rule; 4] {
    [
        login(),
        bucket(3),
        rule(&Limit::sliding_log("log", 50, HOUR)),
        downloads(3),
    ]
}

proptest! {
    /// Whatever the order of requests: the cap holds, and a limit loses counters only while it uses
    /// more than its share.
    #[test]
    fn a_limit_within_its_share_loses_no_counter(
        keys_max in 20..200_usize,
        requests in proptest::collection::vec((0..4_usize, 0..300_u32, 1..4_u64), 1..1_500),
    ) {
        let (store, clock) = store(keys_max);
        let (rules, key_cap) = (mixed_rules(), &store.counters().key_cap);
        let numbers = rules.map(|rule| {
            key_cap.limit_number(rule.prefix().digest(), *rule.name())
        });
        let share = key_cap.share();
        prop_assert_eq!(share, keys_max / 8);
        let mut permits = 0;

        for (limit, key, cost) in requests {
            clock.advance(Duration::from_micros(1));
            let before = numbers.map(|number| {
                let usage = &key_cap[number];
                (usage.evictions(), usage.evictable.load(std::sync::atomic::Ordering::Relaxed))
            });
            permits += 1;
            let demand = DemandBuf::new(&rules[limit], key, cost).unwrap();
            store.spend_all(&[demand.as_demand()], Intent::Spend, PermitId::new(permits)).expect("room");

            for (other, (evictions, evictable)) in before.into_iter().enumerate() {
                // The request itself may have added a key and a quarter of a log.
                let most = evictable + if other == limit { 2 } else { 0 };
                let is_intact = key_cap[numbers[other]].evictions() == evictions;
                prop_assert!(is_intact || most > share, "{} of {share}", most);
            }
            // A log grows by one key, and may be the only counter left to evict.
            prop_assert!(key_cap.excess() <= 1, "{} of {keys_max}", key_cap.used());
        }

        prop_assert_eq!(key_cap[numbers[3]].evictions(), Evictions::default());
    }
}
