//! Guarantees of the algorithms, on the embedded store: never more than the bound in any interval,
//! and in the long run exactly the rate.

use std::time::Duration;

use proptest::prelude::*;
use testkit::differential::{Kind, quota_strategy};
use testkit::overadmission::{Bound, Event, OverAdmission};
use testkit::volume;
use tollgate::store::Intent;
use tollgate::{
    Clock, DemandBuf, LeakyBucket, LeakyMode, Limit, ManualClock, MemoryStore, Micros, Outcome,
    PermitId, Quota, Rate, Rule, SlidingLog, Store, TokenBucket, Verdict,
};

fn rule(quota: Quota) -> Rule {
    Limit::new("promise", quota)
        .validate()
        .expect("the strategies generate valid quotas")
}

fn store(clock: &ManualClock) -> MemoryStore {
    MemoryStore::builder().clock(clock.clone()).build()
}

/// One check, with the time of the store's decision.
fn spend(store: &MemoryStore, rule: &Rule, key: u64, cost: u64) -> (Micros, Outcome) {
    let check = DemandBuf::new(rule, key, cost).expect("a number is a valid key");
    let spent =
        pollster::block_on(store.spend(&[check.as_demand()], Intent::Spend, PermitId::NONE));
    let spent = spent.expect("the embedded store is always available");
    (spent.at, spent.outcomes()[0].0)
}

fn with_bounds() -> impl Strategy<Value = Quota> {
    let kinds: Vec<Kind> = Kind::ALL
        .into_iter()
        .filter(|kind| *kind != Kind::Concurrency)
        .collect();
    proptest::sample::select(kinds).prop_flat_map(quota_strategy)
}

proptest! {
    /// Greedy traffic: pauses that are fractions of the window, and costs from one unit to the
    /// whole limit.
    #[test]
    fn no_interval_admits_more_than_the_bound(
        quota in with_bounds(),
        traffic in proptest::collection::vec((0..3u64, 0..40u64, 0..9u64), 1..300),
    ) {
        let clock = ManualClock::default();
        let (store, rule) = (store(&clock), rule(quota));
        let bound = Bound::for_quota(&quota).expect("only concurrency has no bound");
        let window = quota.window().expect("only concurrency has no window").get();
        let mut checkers = [Some(bound), Bound::long_run_for_quota(&quota)]
            .map(|bound| bound.map(OverAdmission::new));
        for (key, pause, share) in traffic {
            // Stores keep times until the year 2255; windows of decades must not reach beyond it.
            if clock.now().get() + 2 * window > Micros::MAX.get() {
                break;
            }
            clock.advance(Duration::from_micros(window / 16 * (pause / 8) + pause % 8));
            let cost = (quota.limit() / 8 * share).max(1);
            let (at, outcome) = spend(&store, &rule, key, cost);
            for checker in checkers.iter_mut().flatten() {
                checker.read(Event { at, key, cost, allowed: outcome.verdict.is_allowed() });
            }
        }
        for worst in checkers.iter().flatten().filter_map(OverAdmission::worst) {
            prop_assert!(!worst.excess.is_over(), "{worst}");
        }
    }

    /// Retries at exactly the reported time: the k-th unit after the burst must be admitted at k
    /// times the period, rounded up to a microsecond, without drift. (A bucket of one is full when
    /// its unit is refilled, so what would be refilled in the rest of that microsecond is lost.)
    #[test]
    fn a_bucket_admits_exactly_its_rate_in_the_long_run(
        capacity in 2..6u64,
        amount in 1..2_000u64,
        period_micros in 1_000..5_000_000u64,
        is_leaky in any::<bool>(),
    ) {
        let rate = Rate::new(amount.min(period_micros), Duration::from_micros(period_micros));
        let quota: Quota = if is_leaky {
            LeakyBucket::new(LeakyMode::Meter, capacity, rate).unwrap().into()
        } else {
            TokenBucket::new(capacity, rate).unwrap().into()
        };
        let clock = ManualClock::default();
        let (store, rule, start) = (store(&clock), rule(quota), clock.now());
        for _ in 0..capacity {
            prop_assert!(spend(&store, &rule, 0, 1).1.verdict.is_allowed());
        }
        for unit in 1..=2_000u128 {
            let Verdict::Deny { retry_after } = spend(&store, &rule, 0, 1).1.verdict else {
                return Err(TestCaseError::fail(format!("unit {unit} came early")));
            };
            clock.advance(retry_after.into());
            let due =
                (unit * u128::from(period_micros)).div_ceil(u128::from(amount.min(period_micros)));
            prop_assert_eq!(u128::from(clock.now().since(start).get()), due, "unit {}", unit);
            let verdict = spend(&store, &rule, 0, 1).1.verdict;
            prop_assert!(verdict.is_allowed(), "unit {} came late", unit);
        }
    }

    /// The log admits exactly its limit in every window.
    #[test]
    fn a_log_admits_exactly_its_limit_in_every_window(limit in 1..6u64, gap_micros in 0..400u64) {
        let window = Duration::from_millis(2);
        let clock = ManualClock::default();
        let (store, rule) = (store(&clock), rule(SlidingLog::new(limit, window).unwrap().into()));
        let mut admitted: Vec<Micros> = Vec::new();
        for _ in 0..500 {
            match spend(&store, &rule, 0, 1).1.verdict {
                Verdict::Allow { .. } => admitted.push(clock.now()),
                Verdict::Deny { retry_after } => clock.advance(retry_after.into()),
                Verdict::Never => {
                    return Err(TestCaseError::fail("a cost of 1 fits at some time"));
                }
            }
            if (admitted.len() as u64) < limit {
                clock.advance(Duration::from_micros(gap_micros));
            }
        }
        let apart = usize::try_from(limit).unwrap();
        for (earlier, later) in admitted.iter().zip(&admitted[apart..]) {
            prop_assert_eq!(later.since(*earlier), Micros::from_millis(2));
        }
    }
}

/// Real threads in real time: in whatever order they run, no interval exceeds the bound.
#[test]
fn threads_competing_for_one_key_never_exceed_the_bound() {
    for quota in [
        Quota::from(TokenBucket::new(50, Rate::per_second(100_000)).unwrap()),
        SlidingLog::new(500, Duration::from_millis(5))
            .unwrap()
            .into(),
        tollgate::SlidingWindow::new(500, Duration::from_millis(5))
            .unwrap()
            .into(),
        tollgate::FixedWindow::new(500, Duration::from_millis(5))
            .unwrap()
            .into(),
    ] {
        let (store, rule) = (MemoryStore::new(), rule(quota));
        let ask = || -> Vec<(Micros, bool)> {
            let answers = (0..50_000).map(|_| spend(&store, &rule, 0, 1));
            answers
                .map(|(at, outcome)| (at, outcome.verdict.is_allowed()))
                .collect()
        };
        let mut log: Vec<(Micros, bool)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().expect("checks do not panic"))
                .collect()
        });
        log.sort_unstable();
        let bound = Bound::for_quota(&quota).expect("the quota has a bound");
        let events = log.iter().map(|(at, allowed)| Event {
            at: *at,
            key: (),
            cost: 1,
            allowed: *allowed,
        });
        let worst = OverAdmission::from_log(bound, events)
            .worst()
            .expect("the first check was admitted");
        println!("{}: {} checks, worst {worst}", quota.algorithm(), log.len());
        assert!(!worst.excess.is_over(), "{}: {worst}", quota.algorithm());
    }
}

/// Ten million keys that are used once, in a thorough run, on a store with room for a tenth of
/// them: it stays within its bound, and keys that had used up their budget before the flood are
/// still denied after it.
#[test]
fn ten_million_keys_stay_under_the_cap_and_free_no_offender() {
    let keys = volume::of(10_000_000);
    let cap = usize::try_from(keys / 10).expect("the cap fits in usize");
    let clock = ManualClock::default();
    let store = MemoryStore::builder().keys_max(cap).clock(clock).build();
    let rule = rule(TokenBucket::new(10, Rate::per_hour(10)).unwrap().into());
    let offenders = 0..1_000u64;
    for offender in offenders.clone() {
        assert!(spend(&store, &rule, offender, 10).1.verdict.is_allowed());
    }
    let mut most_bytes = 0;
    for key in 1_000_000..1_000_000 + keys {
        assert!(spend(&store, &rule, key, 1).1.verdict.is_allowed());
        if key.is_multiple_of(100_000) {
            assert!(store.keys() <= cap, "{} keys", store.keys());
            most_bytes = most_bytes.max(store.table_bytes());
        }
    }
    let freed = offenders
        .filter(|offender| spend(&store, &rule, *offender, 1).1.verdict.is_allowed())
        .count();
    println!(
        "{} keys kept, {most_bytes} bytes at most, {freed} of 1000 offenders freed",
        store.keys()
    );
    assert_eq!(freed, 0);
    assert!(most_bytes <= 96 * cap, "{most_bytes} bytes");
}
