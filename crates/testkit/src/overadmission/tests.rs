//! The checker against the definition, interval by interval, and on violations planted by hand.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::{FixedWindow, LeakyBucket, LeakyMode, Rate, SlidingLog, TokenBucket};

use super::*;

fn event(at: u64, key: u8, cost: u64) -> Event<u8> {
    Event { at: Micros::new(at), key, cost, allowed: true }
}

/// The largest excess of a key over all intervals, from the definition: every event may begin one, every event end one.
fn by_definition(bound: Bound, log: &[Event<u8>], key: u8) -> Option<i128> {
    let own: Vec<_> =
        log.iter().filter(|event| event.allowed && event.cost > 0 && event.key == key).collect();
    let admitted = |from: u64, to: u64| -> i128 {
        let inside = own.iter().filter(|event| (from..=to).contains(&event.at.get()));
        inside.map(|event| i128::from(event.cost)).sum()
    };
    let moments: Vec<u64> = own.iter().map(|event| event.at.get()).collect();
    let intervals = moments.iter().flat_map(|from| moments.iter().map(move |to| (*from, *to)));
    let excesses = intervals.filter(|(from, to)| from <= to).filter_map(|(from, to)| match bound {
        Bound::Rate { burst, per, period_micros } => {
            let allowed =
                i128::from(burst) * i128::from(period_micros) + i128::from(per) * i128::from(to - from);
            Some(admitted(from, to) * i128::from(period_micros) - allowed)
        }
        Bound::PerWindow { limit, window } => {
            (to - from < window.get()).then(|| admitted(from, to) - i128::from(limit))
        }
    });
    excesses.max()
}

fn logs() -> impl Strategy<Value = Vec<Event<u8>>> {
    let steps =
        vec((prop_oneof![Just(0), 1..=3u64, 1..=60u64], 0..3u8, 0..=6u64, prop::bool::weighted(0.8)), 0..60);
    steps.prop_map(|steps| {
        let mut at = 1_000;
        let log = steps.into_iter().map(|(step, key, cost, allowed)| {
            at += step;
            Event { allowed, ..event(at, key, cost) }
        });
        log.collect()
    })
}

fn bounds() -> impl Strategy<Value = Bound> {
    prop_oneof![
        (0..=10u64, 1..=7u64, 1..=13u64).prop_map(|(burst, per, period_micros)| Bound::Rate {
            burst,
            per,
            period_micros
        }),
        (0..=10u64, 1..=50u64)
            .prop_map(|(limit, window)| Bound::PerWindow { limit, window: Micros::new(window) }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_pass_finds_what_looking_at_every_interval_finds(bound in bounds(), log in logs()) {
        let checker = OverAdmission::of(bound, log.clone());
        for key in 0..3 {
            let found = checker.worst_of(&key);
            prop_assert_eq!(found.as_ref().map(|worst| worst.excess.numerator), by_definition(bound, &log, key));
            if let Some(worst) = found {
                let told = log.iter().filter(|event| event.allowed && event.key == key);
                let inside = told.filter(|event| (worst.start..=worst.end).contains(&event.at));
                prop_assert_eq!(inside.map(|event| u128::from(event.cost)).sum::<u128>(), worst.admitted);
            }
        }
        let worst = (0..3).filter_map(|key| by_definition(bound, &log, key)).max();
        prop_assert_eq!(checker.worst().map(|worst| worst.excess.numerator), worst);
    }
}

/// Ten at once and one every 100 us, followed to the letter, then one more than that.
#[test]
fn a_bucket_used_to_the_full_is_at_its_bound_and_one_more_is_over_by_one() {
    let bound = Bound::Rate { burst: 10, per: 1, period_micros: 100 };
    let mut log = vec![event(500, 7, 10)];
    log.extend((1..=1_000).map(|step| event(500 + step * 100, 7, 1)));
    let full = OverAdmission::of(bound, log.clone()).worst().unwrap();
    assert_eq!((full.excess.to_string().as_str(), full.excess.is_over()), ("0", false));

    log.insert(700, event(500 + 699 * 100, 7, 1));
    let over = OverAdmission::of(bound, log).worst().unwrap();
    assert!(over.excess.is_over());
    assert_eq!(over.excess.to_string(), "1");
    assert_eq!((over.start, over.end, over.admitted), (Micros::new(500), Micros::new(70_400), 710));
}

#[test]
fn a_window_is_half_open() {
    let bound = Bound::PerWindow { limit: 3, window: Micros::new(1_000) };
    let at_the_edge = [event(10, 1, 3), event(1_010, 1, 3)];
    assert_eq!(OverAdmission::of(bound, at_the_edge).worst().unwrap().excess.to_string(), "0");
    let inside = [event(10, 1, 3), event(1_009, 1, 1)];
    let worst = OverAdmission::of(bound, inside).worst().unwrap();
    assert_eq!(worst.to_string(), "1 was admitted 4 from 10us to 1009us, 1 over its limit");
}

#[test]
fn fractions_of_a_unit_are_seen() {
    let bound = Bound::Rate { burst: 1, per: 1, period_micros: 3 };
    let worst = OverAdmission::of(bound, [event(10, 1, 1), event(12, 1, 1)]).worst().unwrap();
    assert_eq!(worst.excess.to_string(), "1/3");
    assert_eq!(worst.excess.parts(), (1, 3));
    let under = OverAdmission::of(Bound::Rate { burst: 5, per: 1, period_micros: 3 }, [event(10, 1, 2)]);
    assert_eq!(under.worst().unwrap().excess.to_string(), "-3");
}

#[test]
fn what_was_denied_does_not_count() {
    let bound = Bound::PerWindow { limit: 1, window: Micros::new(10) };
    let denied = Event { allowed: false, ..event(5, 1, 100) };
    assert_eq!(OverAdmission::of(bound, [denied]).worst(), None);
}

#[test]
fn every_quota_has_the_bound_that_its_algorithm_promises() {
    let second = Duration::from_secs(1);
    let log = SlidingLog::new(5, second).unwrap().into();
    assert_eq!(Bound::for_quota(&log), Some(Bound::PerWindow { limit: 5, window: Micros::from_secs(1) }));
    let month = FixedWindow::aligned(5, Calendar::Month).unwrap().into();
    let days = Micros::from_secs(28 * 86_400);
    assert_eq!(Bound::for_quota(&month), Some(Bound::PerWindow { limit: 10, window: days }));
    let rate = Some(Bound::Rate { burst: 5, per: 1, period_micros: 500_000 });
    assert_eq!(Bound::for_quota(&TokenBucket::new(5, Rate::per_second(2)).unwrap().into()), rate);
    let queue = LeakyBucket::new(LeakyMode::Queue, 5, Rate::per_second(2)).unwrap();
    assert_eq!(Bound::for_quota(&queue.into()), rate);
}
