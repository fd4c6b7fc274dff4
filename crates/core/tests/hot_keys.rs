//! Many threads on one key: in total exactly what the limit allows.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use pollster::block_on;
use tollgate::{Limit, Limiter, ManualClock, MemoryStore, Rate};

const DAY: Duration = Duration::from_secs(86_400);
const THREADS: u64 = 4;

fn limits(limit: u64) -> [Limit; 4] {
    [
        Limit::fixed_window("hot", limit, DAY),
        Limit::sliding_window("hot", limit, DAY),
        Limit::token_bucket("hot", limit, Rate::per_second(1)),
        Limit::leaky_bucket("hot", limit, Rate::per_second(1)),
    ]
}

fn on_threads(work: impl Fn(u64) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
}

fn is_allowed(limiter: &Limiter, cost: u64) -> bool {
    let check = limiter.check("hot", "key").cost(cost);
    check.try_is_allowed().expect("a valid request")
}

/// Costs, refunds, peeks and requests with several demands that change from turn to turn.
#[test]
fn admissions_less_refunds_are_exactly_the_limit() {
    const LIMIT: u64 = 40_000;
    let other = Limit::fixed_window("other", u64::from(u32::MAX), DAY);
    for limit in limits(LIMIT) {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock).build();
        let limiter = Limiter::new(store, [limit.clone(), other.clone()]).unwrap();
        let spent = AtomicU64::new(0);

        on_threads(|thread| {
            for turn in thread.. {
                let cost = 1 + turn % 3;
                let is_allowed = if turn.is_multiple_of(97) {
                    let check = limiter.check("hot", "key").and("other", thread);
                    check.cost(cost).try_now().unwrap().is_allowed()
                } else {
                    is_allowed(&limiter, cost)
                };
                if !is_allowed && cost == 1 {
                    break;
                }

                spent.fetch_add(u64::from(is_allowed) * cost, Relaxed);
                if is_allowed && turn.is_multiple_of(101) {
                    spent.fetch_sub(1, Relaxed);
                    block_on(limiter.refund("hot", "key")).unwrap();
                }
            }
        });

        let left = limiter.peek("hot", "key").cost(0).try_now().unwrap();
        let spent = spent.into_inner();
        assert_eq!(spent + left.remaining(), LIMIT, "{limit:?}");
    }
}

/// While the clock moves, a bucket admits its capacity and what flows into it, to the unit.
#[test]
fn a_bucket_on_a_moving_clock_admits_exactly_what_it_holds() {
    const CAPACITY: u64 = 5_000;
    // The clock moves by less than a second in all. A thread that read it more than a second before
    // it decides would take it for set back.
    const STEPS: u64 = 900;
    let clock = ManualClock::default();
    let limit = Limit::token_bucket("hot", CAPACITY, Rate::per_second(1_000));
    let limiter =
        Limiter::new(MemoryStore::builder().clock(clock.clone()).build(), [limit]).unwrap();
    let (admitted, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let spend = |cost: u64| {
        let is_allowed = is_allowed(&limiter, cost);
        admitted.fetch_add(u64::from(is_allowed) * cost, Relaxed);
        is_allowed
    };

    // Half of the bucket is spent first, so that it is never full and nothing overflows: the
    // clock moves by less than that.
    assert!(spend(CAPACITY / 2 + STEPS / 2));
    on_threads(|thread| {
        if thread > 0 {
            while !is_over.load(Relaxed) {
                spend(1 + thread % 2);
            }
            return;
        }
        for _ in 0..STEPS {
            clock.advance(Duration::from_millis(1));
            spend(1);
        }
        is_over.store(true, Relaxed);
    });

    while spend(1) {}
    assert_eq!(admitted.into_inner(), CAPACITY + STEPS);
}

/// Every window admits its limit, and the threads see its end at once.
#[test]
fn every_window_admits_exactly_its_limit() {
    const LIMIT: u64 = 3_000;
    let second = Duration::from_secs(1);
    let clock = ManualClock::default();
    let limit = Limit::fixed_window("hot", LIMIT, second);
    let limiter =
        Limiter::new(MemoryStore::builder().clock(clock.clone()).build(), [limit]).unwrap();

    for window in 0..20 {
        let admitted = AtomicU64::new(0);
        on_threads(|_| {
            while is_allowed(&limiter, 1) {
                admitted.fetch_add(1, Relaxed);
            }
        });
        assert_eq!(admitted.into_inner(), LIMIT, "window {window}");
        clock.advance(second);
    }
}

/// A denied key is reset while threads check it: all of them see it.
#[test]
fn a_reset_reaches_every_thread() {
    const LIMIT: u64 = 500;
    for limit in limits(LIMIT) {
        let store = MemoryStore::builder().clock(ManualClock::default()).build();
        let limiter = Limiter::new(store, [limit.clone()]).unwrap();
        let admitted = AtomicU64::new(0);
        let (resets, is_over) = (20, AtomicBool::new(false));

        on_threads(|thread| {
            if thread > 0 {
                while !is_over.load(Relaxed) {
                    let is_allowed = is_allowed(&limiter, 1);
                    admitted.fetch_add(u64::from(is_allowed), Relaxed);
                }
                return;
            }
            for _ in 0..resets {
                while is_allowed(&limiter, 1) {
                    admitted.fetch_add(1, Relaxed);
                }
                block_on(limiter.reset("hot", "key")).unwrap();
            }
            is_over.store(true, Relaxed);
        });

        while is_allowed(&limiter, 1) {
            admitted.fetch_add(1, Relaxed);
        }
        // Nothing is left when it is reset, so every reset adds the whole limit.
        assert_eq!(admitted.into_inner(), LIMIT * (resets + 1), "{limit:?}");
    }
}

/// While threads spend, `remaining` is exactly what is left of the limit at some moment of the check.
#[test]
fn what_remains_is_exact_while_threads_spend() {
    const LIMIT: u64 = 1_000_000;
    for limit in limits(LIMIT) {
        let store = MemoryStore::builder().clock(ManualClock::default()).build();
        let limiter = Limiter::new(store, [limit.clone()]).unwrap();
        let (before, after) = (AtomicU64::new(0), AtomicU64::new(0));

        on_threads(|_| {
            for _ in 0..50_000 {
                let finished = after.load(Relaxed);
                before.fetch_add(1, Relaxed);
                let remaining = limiter.check("hot", "key").try_now().unwrap().remaining();
                let started = before.load(Relaxed);
                after.fetch_add(1, Relaxed);

                assert!(remaining < LIMIT - finished, "{limit:?}");
                assert!(remaining >= LIMIT - started, "{limit:?}: {remaining}");
            }
        });
    }
}
