//! Many threads: no lost updates, no partial charges, no deadlocks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use pollster::block_on;
use tollgate::{Limit, Limiter, ManualClock, MemoryStore, Rate};

const DAY: Duration = Duration::from_secs(86_400);
const THREADS: u64 = 8;

fn limiter(limits: impl IntoIterator<Item = Limit>, keys_max: usize) -> Limiter {
    // The clock does not move, so the units left are exactly those not spent.
    Limiter::new(
        MemoryStore::builder()
            .keys_max(keys_max)
            .clock(ManualClock::default())
            .build(),
        limits,
    )
    .expect("valid limits")
}

fn on_threads(work: impl Fn(u64) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
}

#[test]
fn one_hot_key_admits_exactly_its_limit() {
    for limit in [
        Limit::fixed_window("hot", 1_000, DAY),
        Limit::sliding_window("hot", 1_000, DAY),
        Limit::sliding_log("hot", 1_000, DAY),
        Limit::token_bucket("hot", 1_000, Rate::per_day(1)),
        Limit::leaky_bucket("hot", 1_000, Rate::per_day(1)),
        Limit::queue("hot", 1_000, Rate::per_day(1)),
        Limit::concurrency("hot", 1_000, DAY),
    ] {
        let limiter = limiter([limit.clone()], 100);

        let admitted = AtomicU64::new(0);
        on_threads(|_| {
            for _ in 0..1_000 {
                let is_allowed = limiter.check("hot", "key").try_now().unwrap().is_allowed();
                admitted.fetch_add(u64::from(is_allowed), Relaxed);
            }
        });

        assert_eq!(admitted.load(Relaxed), 1_000, "{limit:?}");
    }
}

/// Requests use three of 21 counters in every order, so a store that locked in the order of the
/// request would deadlock. All limits are scarce, so most requests are denied by one limit after
/// another has allowed them.
#[test]
fn overlapping_requests_consume_everything_or_nothing() {
    const LIMIT: u64 = 5_000;
    let limiter = limiter(
        [
            Limit::fixed_window("a", LIMIT, DAY),
            Limit::sliding_log("b", LIMIT / 2, DAY),
            Limit::token_bucket("c", LIMIT / 3, Rate::per_day(1)),
        ],
        10_000,
    );

    let spent: Vec<AtomicU64> = (0..21).map(|_| AtomicU64::new(0)).collect();
    on_threads(|thread| {
        let mut random = thread + 1;
        let mut next = |below: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };

        for _ in 0..4_000 {
            let mut named: Vec<(u64, u64, u64)> =
                (0..3).map(|limit| (limit, next(7), 1 + next(3))).collect();
            named.rotate_left(usize::try_from(next(3)).unwrap());
            if next(2) == 0 {
                named.reverse();
            }

            let [first, second, third] = [0, 1, 2].map(|index: usize| {
                (
                    ["a", "b", "c"][usize::try_from(named[index].0).unwrap()],
                    named[index].1,
                )
            });
            let check = limiter.check(first.0, first.1).limit_cost(named[0].2);
            let check = check
                .and(second.0, second.1)
                .limit_cost(named[1].2)
                .and(third.0, third.1)
                .limit_cost(named[2].2);

            if check.try_now().unwrap().is_allowed() {
                for (limit, key, cost) in named {
                    spent[usize::try_from(limit * 7 + key).unwrap()].fetch_add(cost, Relaxed);
                }
            }
        }
    });

    let mut exhausted = 0;
    for (limit, name) in ["a", "b", "c"].into_iter().enumerate() {
        for key in 0..7u64 {
            let status = limiter.peek(name, key).cost(0).try_now().unwrap();
            let charged = status.limit() - status.remaining();
            let admitted = spent[limit * 7 + usize::try_from(key).unwrap()].load(Relaxed);
            assert_eq!(
                charged, admitted,
                "{name} {key}: charged and admitted differ"
            );
            exhausted += u64::from(status.remaining() < 3);
        }
    }
    assert!(exhausted > 0, "no limit was scarce, so nothing was tested");
}

/// Half of the threads spend from a few keys while the others move their counters: new keys make the
/// table grow, and removed ones leave gaps that others fill.
#[test]
fn known_keys_are_exact_while_their_counters_move() {
    const LIMIT: u64 = 20_000;
    const KEYS: u64 = 16;
    for limit in [
        Limit::fixed_window("a", LIMIT, DAY),
        Limit::sliding_window("a", LIMIT, DAY),
        Limit::token_bucket("a", LIMIT, Rate::per_day(1)),
    ] {
        // Few enough keys for a single shard.
        let limiter = limiter([limit.clone()], 1_000);
        let admitted: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
        let spend = |key: u64| limiter.check("a", key).try_now().unwrap().is_allowed();
        (0..KEYS).for_each(|key| assert!(spend(key)));

        on_threads(|thread| {
            if thread.is_multiple_of(2) {
                for turn in 0..LIMIT * KEYS / THREADS * 3 {
                    let key = turn % KEYS;
                    admitted[usize::try_from(key).unwrap()].fetch_add(spend(key).into(), Relaxed);
                }
                return;
            }
            for turn in 0..20_000_u64 {
                let key = (thread, turn % 200);
                assert!(limiter.check("a", key).try_now().unwrap().is_allowed());
                if turn % 200 >= 150 {
                    block_on(limiter.reset("a", (thread, turn % 200 - 150))).unwrap();
                }
            }
        });

        for (key, admitted) in (0_u64..).zip(&admitted) {
            assert_eq!(admitted.load(Relaxed), LIMIT - 1, "{key}: {limit:?}");
            assert!(!spend(key));
        }
    }
}

#[test]
fn permits_of_many_threads_are_all_released() {
    let limiter = limiter([Limit::concurrency("jobs", 3, DAY)], 100);
    let (in_flight, most) = (AtomicU64::new(0), AtomicU64::new(0));

    on_threads(|_| {
        for _ in 0..2_000 {
            let acquired = block_on(limiter.acquire("jobs", "tenant")).unwrap();
            if let Some(permit) = acquired.permit() {
                most.fetch_max(in_flight.fetch_add(1, Relaxed) + 1, Relaxed);
                std::thread::yield_now();
                in_flight.fetch_sub(1, Relaxed);
                drop(permit);
            }
        }
    });

    assert!(most.load(Relaxed) <= 3, "{} in flight", most.load(Relaxed));
    assert_eq!(
        limiter
            .peek("jobs", "tenant")
            .cost(0)
            .try_now()
            .unwrap()
            .remaining(),
        3
    );
}

#[test]
fn many_keys_from_many_threads_stay_under_the_cap_without_deadlock() {
    let store = MemoryStore::builder()
        .keys_max(5_000)
        .clock(ManualClock::default())
        .build();
    let limiter = Limiter::new(
        store.clone(),
        [
            Limit::fixed_window("a", 5, DAY),
            Limit::sliding_log("b", 5, DAY),
            Limit::token_bucket("c", 5, Rate::per_day(1)),
        ],
    )
    .unwrap();

    on_threads(|thread| {
        for key in 0..10_000u64 {
            let key = (thread, key);
            let decision = limiter
                .check("a", key)
                .and("b", key)
                .and("c", key)
                .try_now()
                .unwrap();
            assert!(decision.is_allowed());
            if key.1.is_multiple_of(500) {
                assert!(
                    store.keys() <= 5_000 + usize::try_from(3 * THREADS).unwrap(),
                    "{} keys",
                    store.keys()
                );
            }
        }
    });

    assert!(store.keys() <= 5_000, "{} keys", store.keys());
}
