use std::collections::HashMap;
use std::num::NonZeroU32;

use fastrand::Rng;
use tollgate_load::KeyDistribution;

use tollgate::{EncodedKey, Micros};

use super::*;

const START: Micros = Micros::from_secs(1_800_000_000);

fn key(number: u32) -> EncodedKey {
    EncodedKey::new(&u64::from(number)).expect("a key")
}

fn seconds(seconds: u64) -> Micros {
    START.after(Micros::from_secs(seconds))
}

/// Units, error and requests of each key.
fn rows(sketch: &KeySketch, span: UsageSpan, now: Micros) -> Vec<(EncodedKey, u64, u64, u64)> {
    let top = sketch.top(UsageKind::Denied, span, now);
    let rows = top
        .rows()
        .map(|row| (row.key.clone(), row.units, row.error, row.requests));
    rows.collect()
}

/// Requests of a Zipf distribution over a million keys, spread over a span, and the exact counts.
fn record_zipf(
    sketch: &KeySketch,
    exponent: f64,
    requests: u32,
    span_secs: u32,
) -> HashMap<u32, u64> {
    let count = NonZeroU32::new(1_000_000).expect("not zero");
    let keys = KeyDistribution::zipf(count, exponent).expect("a distribution");
    let mut random = Rng::with_seed(7);
    let mut exact = HashMap::new();
    for request in 0..requests {
        let number = keys.sample(&mut random);
        let elapsed = u64::from(request) * u64::from(span_secs) * 1_000_000 / u64::from(requests);
        let now = START.after(Micros::new(elapsed));
        sketch.record(UsageKind::Denied, &key(number), 1, now);
        *exact.entry(number).or_default() += 1;
    }
    exact
}

/// The ten heaviest keys are the right ones, and their counts at most a tenth too high.
fn expect_top_ten(sketch: &KeySketch, exact: &HashMap<u32, u64>, span: UsageSpan, now: Micros) {
    let mut expected: Vec<_> = exact
        .iter()
        .map(|(number, count)| (*count, *number))
        .collect();
    expected.sort_unstable_by(|a, b| b.cmp(a));
    let found = rows(sketch, span, now);

    for (count, number) in &expected[..10] {
        let row = found.iter().take(11).find(|row| row.0 == key(*number));
        let (_, units, error, _) = row.unwrap_or_else(|| panic!("{span:?}: key {number}"));
        assert!(
            units >= count,
            "{span:?}: {units} is no upper bound of {count}"
        );
        assert!(
            units - error <= *count,
            "{span:?}: {units} - {error} > {count}"
        );
        assert!(
            units - count <= count / 10,
            "{span:?}: {units} instead of {count}"
        );
    }
}

#[test]
fn the_top_ten_of_a_zipf_trace_over_a_million_keys_are_within_a_tenth() {
    for exponent in [1.0, 1.2] {
        let sketch = KeySketch::default();
        let exact = record_zipf(&sketch, exponent, 400_000, 60);
        for span in UsageSpan::ALL {
            expect_top_ten(&sketch, &exact, span, seconds(59));
        }
    }
}

#[test]
fn the_top_ten_of_an_hour_are_within_a_tenth() {
    let sketch = KeySketch::default();
    let exact = record_zipf(&sketch, 1.0, 2_000_000, 3_600);
    expect_top_ten(&sketch, &exact, UsageSpan::Hour, seconds(3_599));
}

/// Every count is an upper bound, and without its error a lower one, whatever the order of keys.
#[test]
fn bounds_hold_for_random_usage() {
    proptest::proptest!(|(
        requests in proptest::collection::vec((0..400_u32, 1..50_u64, 0..40_u64), 1..4_000),
        bytes_max in 4_000..60_000_usize,
    )| {
        let sketch = KeySketch::default();
        sketch.set_bytes_max(bytes_max);
        let (mut exact, mut total) = (HashMap::<u32, u64>::new(), 0);
        let mut now = START;
        for (number, units, millis) in requests {
            now = now.after(Micros::from_millis(millis));
            sketch.record(UsageKind::Denied, &key(number), units, now);
            *exact.entry(number).or_default() += units;
            total += units;
        }

        let top = sketch.top(UsageKind::Denied, UsageSpan::Hour, now);
        assert_eq!(top.total(), total);
        for (number, count) in &exact {
            match top.rows().find(|row| row.key == key(*number)) {
                Some(row) => assert!(row.units >= *count && row.certain_units() <= *count),
                None => assert!(top.floor >= *count, "{} < {count}", top.floor),
            }
        }
    });
}

#[test]
fn usage_leaves_each_span_when_it_is_too_old() {
    let sketch = KeySketch::default();
    sketch.record(UsageKind::Denied, &key(1), 3, START);
    let units = |span, now| rows(&sketch, span, now).first().map_or(0, |row| row.1);

    for (span, seconds_max, period) in [
        (UsageSpan::Minute, 60, 5),
        (UsageSpan::FiveMinutes, 300, 30),
        (UsageSpan::Hour, 3_600, 300),
    ] {
        assert_eq!(units(span, seconds(seconds_max)), 3, "{span:?}");
        assert!(span.start(seconds(seconds_max)) <= START);
        assert_eq!(units(span, seconds(seconds_max + period)), 0, "{span:?}");
        assert!(span.start(seconds(seconds_max + period)) > START);
    }
}

#[test]
fn every_request_counts_once_in_every_span_at_any_time() {
    let sketch = KeySketch::default();
    for second in 0..3_600 {
        sketch.record(UsageKind::Denied, &key(1), 2, seconds(second));
        for span in UsageSpan::ALL {
            let since = span.start(seconds(second));
            let covered = 1 + second.min(seconds(second).since(since).get() / 1_000_000);
            let expected = vec![(key(1), 2 * covered, 0, covered)];
            assert_eq!(
                rows(&sketch, span, seconds(second)),
                expected,
                "{span:?} {second}"
            );
        }
    }
}

#[test]
fn admitted_and_denied_units_are_apart_and_free_requests_do_not_count() {
    let sketch = KeySketch::default();
    sketch.record(UsageKind::Denied, &key(1), 5, START);
    sketch.record(UsageKind::Admitted, &key(2), 7, START);
    sketch.record(UsageKind::Admitted, &key(3), 0, START);
    let admitted = sketch.top(UsageKind::Admitted, UsageSpan::Minute, START);
    let admitted: Vec<_> = admitted
        .rows()
        .map(|row| (row.key.clone(), row.units))
        .collect();
    assert_eq!(admitted, [(key(2), 7)]);
    assert_eq!(rows(&sketch, UsageSpan::Minute, START), [(key(1), 5, 0, 1)]);

    sketch.clear();
    assert_eq!(rows(&sketch, UsageSpan::Hour, START), []);
}

#[test]
fn a_clock_that_is_set_back_starts_over_and_a_late_timestamp_does_not() {
    let sketch = KeySketch::default();
    sketch.record(UsageKind::Denied, &key(1), 1, seconds(100));
    sketch.record(UsageKind::Denied, &key(1), 1, seconds(94));
    assert_eq!(
        rows(&sketch, UsageSpan::Minute, seconds(100)),
        [(key(1), 2, 0, 2)]
    );

    sketch.record(UsageKind::Denied, &key(2), 1, START);
    assert_eq!(rows(&sketch, UsageSpan::Minute, START), [(key(2), 1, 0, 1)]);
}

/// What a sketch holds, in bytes.
fn bytes(sketch: &KeySketch) -> usize {
    [&sketch.denied, &sketch.admitted]
        .map(|history| history.lock().bytes())
        .iter()
        .sum()
}

#[test]
fn memory_is_bounded_whatever_the_keys() {
    for (bytes_max, length, keys) in [
        (LIMIT_BYTES_MAX, 8, 100),
        (LIMIT_BYTES_MAX, 900, 12),
        (ALL_BYTES_MAX / 1_000, 8, 20),
        (ALL_BYTES_MAX / 1_000, 900, 3),
    ] {
        let sketch = KeySketch::default();
        sketch.set_bytes_max(bytes_max);
        // An hour of periods, the last of which has more keys than a table.
        for period in 0..750_u64 {
            let keys = if period == 749 { 3_000 } else { keys };
            for number in 0..keys {
                let text = format!("{:0>length$}", period * 100 + number);
                let key = EncodedKey::new(&*text).expect("a key");
                sketch.record(UsageKind::Denied, &key, 1 + number, seconds(5 * period));
                sketch.record(UsageKind::Admitted, &key, 1, seconds(5 * period));
            }
        }
        let used = bytes(&sketch);
        assert!(
            used <= bytes_max,
            "{used} of {bytes_max} for keys of {length}"
        );
        assert!(used >= bytes_max / 8, "the test is meaningful: {used}");
    }
}
