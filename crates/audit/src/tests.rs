//! Compares the audit with the definition, interval by interval, and on planted violations.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::{
    Calendar, FixedWindow, LeakyBucket, LeakyMode, Rate, SlidingLog, SlidingWindow, TokenBucket,
};

use super::*;

fn event(at: u64, key: u8, cost: u64) -> Event<u8> {
    Event {
        at: Micros::new(at),
        key,
        cost,
        allowed: true,
    }
}

/// The largest excess of a key over all intervals, from the definition: every event may begin one,
/// every event end one.
fn by_definition(bound: Bound, log: &[Event<u8>], key: u8) -> Option<i128> {
    let own: Vec<_> = log
        .iter()
        .filter(|event| event.allowed && event.cost > 0 && event.key == key)
        .collect();
    let admitted = |from: u64, to: u64| -> i128 {
        let inside = own
            .iter()
            .filter(|event| (from..=to).contains(&event.at.get()));
        inside.map(|event| i128::from(event.cost)).sum()
    };
    let moments: Vec<u64> = own.iter().map(|event| event.at.get()).collect();
    let intervals = moments
        .iter()
        .flat_map(|from| moments.iter().map(move |to| (*from, *to)));
    let excesses = intervals
        .filter(|(from, to)| from <= to)
        .filter_map(|(from, to)| match bound {
            Bound::Rate {
                burst,
                per,
                period_micros,
            } => {
                let allowed = i128::from(burst) * i128::from(period_micros)
                    + i128::from(per) * i128::from(to - from);
                Some(admitted(from, to) * i128::from(period_micros) - allowed)
            }
            Bound::PerWindow { limit, window } => {
                (to - from < window.get()).then(|| admitted(from, to) - i128::from(limit))
            }
            Bound::AlignedWindow { .. } => unreachable!("has a definition of its own"),
        });
    excesses.max()
}

fn logs() -> impl Strategy<Value = Vec<Event<u8>>> {
    let steps = vec(
        (
            prop_oneof![Just(0), 1..=3u64, 1..=60u64],
            0..3u8,
            0..=6u64,
            prop::bool::weighted(0.8),
        ),
        0..60,
    );
    steps.prop_map(|steps| {
        let mut at = 1_000;
        let log = steps.into_iter().map(|(step, key, cost, allowed)| {
            at += step;
            Event {
                allowed,
                ..event(at, key, cost)
            }
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
        (0..=10u64, 1..=50u64).prop_map(|(limit, window)| Bound::PerWindow {
            limit,
            window: Micros::new(window)
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_pass_equals_examining_every_interval(bound in bounds(), log in logs()) {
        let checker = OverAdmission::from_log(bound, log.clone());
        for key in 0..3 {
            let found = checker.worst_of(&key);
            prop_assert_eq!(found.as_ref().map(|worst| worst.excess.parts().0), by_definition(bound, &log, key));
            if let Some(worst) = found {
                let told = log.iter().filter(|event| event.allowed && event.key == key);
                let inside = told.filter(|event| (worst.start..=worst.end).contains(&event.at));
                prop_assert_eq!(inside.map(|event| u128::from(event.cost)).sum::<u128>(), worst.admitted);
            }
        }
        let worst = (0..3).filter_map(|key| by_definition(bound, &log, key)).max();
        prop_assert_eq!(checker.worst().map(|worst| worst.excess.parts().0), worst);
    }
}

/// A burst of ten plus one per 100 us, used in full, and then one more.
#[test]
fn one_more_than_a_full_bucket_exceeds_by_one() {
    let bound = Bound::Rate {
        burst: 10,
        per: 1,
        period_micros: 100,
    };
    let mut log = vec![event(500, 7, 10)];
    log.extend((1..=1_000).map(|step| event(500 + step * 100, 7, 1)));
    let full = OverAdmission::from_log(bound, log.clone()).worst().unwrap();
    assert_eq!(
        (full.excess.to_string().as_str(), full.excess.is_over()),
        ("0", false)
    );

    log.insert(700, event(500 + 699 * 100, 7, 1));
    let over = OverAdmission::from_log(bound, log).worst().unwrap();
    assert!(over.excess.is_over());
    assert_eq!(over.excess.to_string(), "1");
    assert_eq!(
        (over.start, over.end, over.admitted),
        (Micros::new(500), Micros::new(70_400), 710)
    );
}

#[test]
fn a_window_is_half_open() {
    let bound = Bound::PerWindow {
        limit: 3,
        window: Micros::new(1_000),
    };
    let at_the_edge = [event(10, 1, 3), event(1_010, 1, 3)];
    assert_eq!(
        OverAdmission::from_log(bound, at_the_edge)
            .worst()
            .unwrap()
            .excess
            .to_string(),
        "0"
    );
    let inside = [event(10, 1, 3), event(1_009, 1, 1)];
    let worst = OverAdmission::from_log(bound, inside).worst().unwrap();
    assert_eq!(
        worst.to_string(),
        "1 was admitted 4 from 10us to 1009us, 1 over its limit"
    );
}

#[test]
fn fractions_of_a_unit_count() {
    let bound = Bound::Rate {
        burst: 1,
        per: 1,
        period_micros: 3,
    };
    let worst = OverAdmission::from_log(bound, [event(10, 1, 1), event(12, 1, 1)])
        .worst()
        .unwrap();
    assert_eq!(worst.excess.to_string(), "1/3");
    assert_eq!(worst.excess.parts(), (1, 3));
    let under = OverAdmission::from_log(
        Bound::Rate {
            burst: 5,
            per: 1,
            period_micros: 3,
        },
        [event(10, 1, 2)],
    );
    assert_eq!(under.worst().unwrap().excess.to_string(), "-3");
}

#[test]
fn denied_events_are_ignored() {
    let bound = Bound::PerWindow {
        limit: 1,
        window: Micros::new(10),
    };
    let denied = Event {
        allowed: false,
        ..event(5, 1, 100)
    };
    assert_eq!(OverAdmission::from_log(bound, [denied]).worst(), None);
}

#[test]
fn every_algorithm_has_its_bound() {
    let second = Duration::from_secs(1);
    let log = SlidingLog::new(5, second).unwrap().into();
    assert_eq!(
        Bound::for_quota(&log),
        Some(Bound::PerWindow {
            limit: 5,
            window: Micros::from_secs(1)
        })
    );
    let month = FixedWindow::aligned(5, Calendar::Month).unwrap().into();
    let days = Micros::from_secs(28 * 86_400);
    assert_eq!(
        Bound::for_quota(&month),
        Some(Bound::PerWindow {
            limit: 10,
            window: days
        })
    );
    let rate = Some(Bound::Rate {
        burst: 5,
        per: 1,
        period_micros: 500_000,
    });
    assert_eq!(
        Bound::for_quota(&TokenBucket::new(5, Rate::per_second(2)).unwrap().into()),
        rate
    );
    let sliding = SlidingWindow::new(5, second).unwrap().into();
    let as_a_bucket = Bound::Rate {
        burst: 5,
        per: 5,
        period_micros: 1_000_000,
    };
    assert_eq!(Bound::for_quota(&sliding), Some(as_a_bucket));
    assert_eq!(Bound::long_run_for_quota(&sliding), None);
    let fixed = FixedWindow::new(5, second).unwrap().into();
    let lasting = Bound::Rate {
        burst: 10,
        per: 5,
        period_micros: 1_000_000,
    };
    assert_eq!(Bound::long_run_for_quota(&fixed), Some(lasting));
    let aligned = |window, is_sliding| {
        let limit = 5;
        Some(Bound::AlignedWindow {
            limit,
            window,
            is_sliding,
        })
    };
    let minute = FixedWindow::aligned(5, Calendar::Minute).unwrap().into();
    assert_eq!(
        Bound::for_quota_and_clock(&minute),
        aligned(Micros::from_secs(60), false)
    );
    assert_eq!(
        Bound::for_quota_and_clock(&sliding),
        aligned(Micros::from_secs(1), true)
    );
    for quota in [fixed, month, log] {
        assert_eq!(Bound::for_quota_and_clock(&quota), Bound::for_quota(&quota));
    }
    let queue = LeakyBucket::new(LeakyMode::Queue, 5, Rate::per_second(2)).unwrap();
    assert_eq!(Bound::for_quota(&queue.into()), rate);
}

/// An admission at some time in a span, with its cost.
type Admission = (TimeSpan, u64);

fn span(from: u64, to: u64) -> TimeSpan {
    TimeSpan {
        from: Micros::new(from),
        to: Micros::new(to),
    }
}

/// The largest excess over all intervals that contain whole spans, from the definition.
fn certain(bound: Bound, log: &[Admission]) -> Option<i128> {
    let starts = log.iter().map(|(span, _)| span.from.get());
    let intervals = starts.flat_map(|from| log.iter().map(move |(span, _)| (from, span.to.get())));
    let excesses = intervals
        .filter(|(from, to)| from <= to)
        .filter_map(|(from, to)| {
            let inside = log
                .iter()
                .filter(|(span, _)| span.from.get() >= from && span.to.get() <= to);
            let admitted: i128 = inside.map(|(_, cost)| i128::from(*cost)).sum();
            let excess = match bound {
                Bound::Rate {
                    burst,
                    per,
                    period_micros,
                } => {
                    (admitted - i128::from(burst)) * i128::from(period_micros)
                        - i128::from(per) * i128::from(to - from)
                }
                Bound::PerWindow { window, .. } if to - from >= window.get() => return None,
                Bound::PerWindow { limit, .. } => admitted - i128::from(limit),
                Bound::AlignedWindow { .. } => unreachable!("has a definition of its own"),
            };
            (admitted > 0).then_some(excess)
        });
    excesses.max()
}

/// The largest excess over windows aligned to the clock, from the definition.
fn in_windows(log: &[Admission], limit: u64, window: u64, is_sliding: bool) -> Option<i128> {
    let number_of = |(span, _): &Admission| {
        let number = span.from.get() / window;
        (number == span.to.get() / window).then_some(number)
    };
    let units = |number: u64, until: u64| -> u64 {
        let inside = log
            .iter()
            .filter(|event| number_of(event) == Some(number) && event.0.to.get() <= until);
        inside.map(|(_, cost)| cost).sum()
    };
    let excesses = log.iter().filter_map(|event| {
        let (number, to) = (number_of(event)?, event.0.to.get());
        let left = (number + 1) * window - to;
        let previous = number.checked_sub(1).filter(|_| is_sliding);
        let share = previous.map_or(0, |previous| units(previous, u64::MAX) * left / window);
        Some(i128::from(units(number, to) + share) - i128::from(limit))
    });
    excesses.max()
}

fn found(mut track: AdmissionTrack, log: &[Admission]) -> Option<i128> {
    log.iter()
        .for_each(|(span, cost)| track.admit(*span, *cost));
    track.worst().map(|worst| worst.excess.parts().0)
}

/// Spans in the order of their ends, as responses arrive.
fn answers() -> impl Strategy<Value = Vec<Admission>> {
    let some = vec(
        (
            0..150u64,
            prop_oneof![Just(0), 1..=5u64, 1..=60u64],
            1..=6u64,
        ),
        1..40,
    );
    some.prop_map(|some| {
        let mut log: Vec<Admission> = some
            .into_iter()
            .map(|(from, length, cost)| (span(from, from + length), cost))
            .collect();
        log.sort_by_key(|(span, _)| span.to);
        log
    })
}

/// The same log with the spans that start first also ending first.
fn without_overtaking(log: &[Admission]) -> Vec<Admission> {
    let mut starts: Vec<Micros> = log.iter().map(|(span, _)| span.from).collect();
    starts.sort_unstable();
    let both = starts.into_iter().zip(log);
    both.map(|(from, (before, cost))| {
        (
            TimeSpan {
                from,
                to: before.to.max(from),
            },
            *cost,
        )
    })
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_excess_of_uncertain_times_is_certain(bound in bounds(), log in answers(), room in 1..20usize) {
        let truth = certain(bound, &log);
        let exact = found(AdmissionTrack::with_events_max(bound, log.len()), &log);
        prop_assert_eq!(exact, truth);
        prop_assert!(found(AdmissionTrack::with_events_max(bound, room), &log) <= exact);
        let shuffled: Vec<Admission> = log.iter().rev().copied().collect();
        prop_assert!(found(AdmissionTrack::with_events_max(bound, room), &shuffled) <= truth);
        prop_assert!(found(AdmissionTrack::new(bound), &log) <= truth);
    }

    /// Whatever the track remembers: the second one only the last two events.
    #[test]
    fn without_overtaking_nothing_is_missed(bound in bounds(), log in answers()) {
        let log = without_overtaking(&log);
        prop_assert_eq!(found(AdmissionTrack::new(bound), &log), certain(bound, &log));
        if matches!(bound, Bound::Rate { .. }) {
            prop_assert_eq!(found(AdmissionTrack::with_events_max(bound, 2), &log), certain(bound, &log));
        }
    }

    #[test]
    fn aligned_windows_are_judged_by_their_definition(
        log in answers(), limit in 0..=10u64, window in 1..=50u64, is_sliding: bool,
    ) {
        let bound = Bound::AlignedWindow { limit, window: Micros::new(window), is_sliding };
        prop_assert_eq!(found(AdmissionTrack::new(bound), &log), in_windows(&log, limit, window, is_sliding));
    }

    /// A limiter that keeps its bound never has an excess, however long its responses take.
    #[test]
    fn a_limiter_that_keeps_its_bound_has_no_excess(
        (burst, per, period_micros) in (1..=10u64, 1..=7u64, 1..=13u64),
        asked in vec((0..=9u64, 1..=4u64, 0..=80u64, 0..=80u64), 1..80),
    ) {
        let bound = Bound::Rate { burst, per, period_micros };
        let (mut level, mut now, mut log) = (0, 1_000, Vec::new());
        for (pause, cost, before, after) in asked {
            now += pause;
            level = u64::saturating_sub(level, pause * per);
            if level + cost * period_micros <= burst * period_micros {
                level += cost * period_micros;
                log.push((span(now - before, now + after), cost));
            }
        }
        log.sort_by_key(|(span, _)| span.to);
        prop_assert!(found(AdmissionTrack::new(bound), &log).is_none_or(|excess| excess <= 0));
    }
}

/// With 5,000 admissions and room for 16, an excess of twice the limit is still found.
#[test]
fn merged_events_still_show_a_large_excess() {
    let bound = Bound::PerWindow {
        limit: 500,
        window: Micros::new(1_000),
    };
    let mut track = AdmissionTrack::with_events_max(bound, 16);
    (0..5_000).for_each(|at| track.admit(span(at, at + 1), 1));
    let worst = track.worst().unwrap();
    assert!(
        worst.excess.is_over() && worst.admitted <= 1_000,
        "{worst:?}"
    );
    assert!(worst.admitted > 800, "{worst:?}");
}

/// A limit used in full for an hour, logged by a clock that is slower by 0.01 %.
#[test]
fn clock_drift_is_not_an_excess() {
    let bound = Bound::Rate {
        burst: 10,
        per: 1,
        period_micros: 1_000,
    };
    let log: Vec<Admission> = (0..3_600_000_u64)
        .map(|ms| ms * 1_000)
        .map(|us| (TimeSpan::exact(Micros::new(us - us / 10_000)), 1))
        .collect();
    assert!(found(AdmissionTrack::new(bound), &log) > Some(0));
    assert!(found(AdmissionTrack::new(bound.with_clock_drift(1_000)), &log) <= Some(0));
    let window = Bound::PerWindow {
        limit: 7,
        window: Micros::from_secs(10),
    }
    .with_clock_drift(1_000);
    assert_eq!(
        window,
        Bound::PerWindow {
            limit: 7,
            window: Micros::new(9_989_000)
        }
    );
    assert_eq!(
        bound.with_extra_units(5),
        Bound::Rate {
            burst: 15,
            per: 1,
            period_micros: 1_000
        }
    );
}
