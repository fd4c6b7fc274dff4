use super::*;
use crate::algorithm::{FixedWindow, Rate, TokenBucket};
use std::time::Duration;

fn bucket(capacity: u64, per_second: u64) -> Quota {
    TokenBucket::new(capacity, Rate::new(per_second, Duration::from_secs(1)))
        .unwrap()
        .into()
}

#[test]
fn a_lease_is_a_part_of_the_window() {
    let terms = |quota| {
        let LeaseTerms { long, brief, turn } = LeaseTerms::for_quota(&quota);
        [long, brief, turn].map(Micros::get)
    };

    assert_eq!(terms(bucket(1_000, 1_000)), [2_000_000, 250_000, 20_000]);
    assert_eq!(terms(bucket(3_000, 100)), [8_000_000, 1_000_000, 300_000]);
    assert_eq!(
        terms(bucket(1, 1)),
        [2_000_000, 250_000, 500_000],
        "a turn is long enough for half a unit"
    );
    assert_eq!(
        terms(bucket(100, 10_000)),
        [2_000_000, 62_500, 250],
        "no turn leaves a good part of the limit unused"
    );
    assert_eq!(
        terms(
            FixedWindow::new(100, Duration::from_secs(86_400))
                .unwrap()
                .into()
        ),
        [16_000_000, 1_000_000, 5_000_000]
    );
}

/// The meter of a key of this quota after `count` units at equal distances.
fn metered(terms: &LeaseTerms, count: u64, gap: Duration) -> DemandMeter {
    let start = Micros::from_secs(1_000);
    let mut meter = DemandMeter::new(start);
    for unit in 0..count {
        let gap = u64::try_from(gap.as_micros()).unwrap();
        meter.record(1, terms, start.after(Micros::new(unit * gap)));
    }
    meter
}

#[test]
fn a_batch_follows_the_demand() {
    let quota = bucket(20_000, 20_000);
    let terms = LeaseTerms::for_quota(&quota);
    let batch = |meter: &DemandMeter| meter.batch_size(&terms, 0, Micros::MAX);

    let hot = metered(&terms, 10_000, Duration::from_micros(400));
    let BatchSize { needed, wanted } = batch(&hot);
    assert!(
        (260..=285).contains(&needed),
        "112 ms of 2,500 per second: {needed}"
    );
    assert_eq!(wanted, needed, "more than is leased in advance");
    assert_eq!(batch(&hot).at_most(25).wanted, 25);
    assert_eq!(batch(&hot).at_least(9_999).needed, 9_999);
    let short = hot.batch_size(&terms, 0, Micros::from_millis(60));
    assert!(
        (20..=25).contains(&short.needed),
        "half of what a third of the window needs: {short:?}"
    );

    let lukewarm = metered(&terms, 10, Duration::from_millis(300));
    let BatchSize { needed, wanted } = batch(&lukewarm);
    assert_eq!(needed, 0);
    assert!(
        (10..=14).contains(&wanted),
        "twice the demand of 1.8 s: {wanted}"
    );

    let busy = metered(&terms, 1_000, Duration::from_millis(20));
    assert_eq!(batch(&busy).wanted, 50, "at most 50 in advance");
}

#[test]
fn a_key_that_was_asked_for_once_leases_nothing() {
    let terms = LeaseTerms::for_quota(&bucket(1_000, 1_000));
    let mut meter = metered(&terms, 1, Duration::ZERO);
    assert_eq!(
        meter.batch_size(&terms, 1, Micros::MAX),
        BatchSize::default()
    );

    meter.record(1, &terms, Micros::from_secs(1_001));
    assert_eq!(meter.batch_size(&terms, 1, Micros::MAX).wanted, 2);

    // An hour later the demand is forgotten.
    meter.record(1, &terms, Micros::from_secs(5_000));
    assert_eq!(meter.batch_size(&terms, 1, Micros::MAX).wanted, 0);
}

#[test]
fn only_a_busy_key_fetches_the_next_batch_early() {
    let terms = LeaseTerms::for_quota(&bucket(1_000, 1_000));
    let low_mark = |millis| metered(&terms, 100, Duration::from_millis(millis)).low_mark(50);
    assert_eq!([low_mark(1), low_mark(20), low_mark(1_000)], [13, 3, 0]);
}

#[test]
fn units_are_idle_after_several_times_the_usual_pause() {
    let terms = LeaseTerms::for_quota(&bucket(1_000, 1_000));
    let idle_after =
        |millis| metered(&terms, 100, Duration::from_millis(millis)).idle_after(&terms);
    assert_eq!(
        idle_after(1),
        Micros::from_millis(144),
        "100 in 1.8 s so far"
    );
    assert!(idle_after(300) > Micros::from_secs(2));
}

#[test]
fn a_denial_is_cached_until_the_turn_of_the_instance() {
    let cached = |quota: &Quota, retry_after, turn_after| {
        deny_cache_time(
            quota,
            Micros::new(retry_after),
            Micros::from_millis(turn_after),
        )
    };

    let fast = bucket(1_000, 1_000);
    assert_eq!(cached(&fast, 1_000, 0), Micros::from_millis(25));
    assert_eq!(cached(&fast, 1_000, 640), Micros::from_millis(640));

    let slow = bucket(10, 1);
    assert_eq!(
        cached(&slow, 300_000, 0),
        Micros::from_millis(300),
        "until the denial ends"
    );
    assert_eq!(
        cached(&slow, 3_000_000, 0),
        Micros::from_millis(500),
        "an instance that calls alone notices changes soon"
    );
    assert_eq!(
        cached(&bucket(100, 10_000), 100, 0),
        Micros::new(250),
        "a fortieth of the time that fills the bucket"
    );

    let window = FixedWindow::new(10, Duration::from_secs(60))
        .unwrap()
        .into();
    assert_eq!(
        cached(&window, 1_000_000, 5_000),
        Micros::from_secs(1),
        "not beyond the window"
    );
}

#[test]
fn a_quantum_is_a_tenth_of_the_share() {
    assert_eq!(
        (quantum(1_000, 4), quantum(10, 4), quantum(1 << 53, 1)),
        (25, 1, 1 << 20)
    );
}
