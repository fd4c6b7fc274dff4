use std::time::Duration;

use serde_json::{Value, json};

use tollgate_gate::metrics::Metrics;

use super::*;

fn limit_counts(allowed: u64, denied: u64) -> LimitCounts {
    let mut counts = LimitCounts::default();
    counts.0[0] = [allowed, denied, 0];
    counts
}

fn snapshot(
    limits: &[(Arc<LimitMetrics>, LimitCounts)],
    durations: DurationBuckets,
) -> CounterSnapshot {
    let (at, degraded_for) = (Micros::from_secs(7), Micros::ZERO);
    CounterSnapshot {
        at,
        limits: limits.to_vec(),
        durations,
        is_up: true,
        degraded_for,
    }
}

fn data(text: &Bytes, name: &str) -> Value {
    let text = std::str::from_utf8(text).expect("text");
    let rest = text
        .strip_prefix(&format!("event: {name}\ndata: "))
        .expect(name);
    serde_json::from_str(rest.strip_suffix("\n\n").expect("an empty line")).expect("JSON")
}

#[test]
fn a_sample_has_the_increase_since_the_one_before() {
    let limits = Metrics::default().set_limits(["a", "b"].into_iter(), []);
    let [a, b] = [limits[0].clone(), limits[1].clone()];
    let millisecond = Duration::from_millis(1);
    let mut sampler = Sampler::default();
    let first = snapshot(
        &[
            (a.clone(), limit_counts(5, 1)),
            (b.clone(), limit_counts(0, 0)),
        ],
        DurationBuckets::default(),
    );
    let sample = data(&sampler.sample(&first).1, "sample");
    assert_eq!(
        sample["rows"],
        json!([[a.id(), 5, 1, 0, 6, 0, 0, 0, 0, 0, 0]])
    );

    let later = CounterSnapshot {
        is_up: false,
        degraded_for: Micros::from_millis(400),
        ..snapshot(
            &[
                (a.clone(), limit_counts(7, 1)),
                (b.clone(), limit_counts(0, 3)),
            ],
            DurationBuckets::from_durations(&[(4, millisecond)]),
        )
    };
    let sample = data(&sampler.sample(&later).1, "sample");
    let rows = json!([
        [a.id(), 2, 0, 0, 2, 0, 0, 0, 0, 0, 0],
        [b.id(), 0, 3, 0, 3, 0, 0, 0, 0, 0, 0]
    ]);
    assert_eq!(
        (&sample["rows"], &sample["n"], &sample["t"]),
        (&rows, &json!(4), &json!(7_000))
    );
    assert_eq!(
        (&sample["up"], &sample["degraded"]),
        (&json!(false), &json!(400))
    );
    assert!(
        sample["p50"].as_u64() <= Some(1_000) && sample["p99"].as_u64() <= Some(1_000),
        "{sample}"
    );

    let quiet = data(&sampler.sample(&later).1, "sample");
    assert_eq!(
        (&quiet["rows"], &quiet["n"], &quiet["degraded"]),
        (&json!([]), &json!(0), &json!(0))
    );
}

#[test]
fn rows_that_exceed_the_bound_are_in_the_next_sample() {
    let names: Vec<String> = (0..ROWS_MAX + 10)
        .map(|number| format!("limit-{number}"))
        .collect();
    let limits = Metrics::default().set_limits(names.iter().map(String::as_str), []);
    let all: Vec<_> = limits
        .into_iter()
        .map(|limit| (limit, limit_counts(1, 0)))
        .collect();

    let mut sampler = Sampler::default();
    let mut rows = || {
        let sample = data(
            &sampler
                .sample(&snapshot(&all, DurationBuckets::default()))
                .1,
            "sample",
        );
        sample["rows"].as_array().map(Vec::len)
    };
    assert_eq!(
        [rows(), rows(), rows()],
        [Some(ROWS_MAX), Some(10), Some(0)]
    );
}

#[test]
fn the_limits_event_has_the_sum_of_all_samples() {
    let all = Metrics::default();
    let limits = all.set_limits(["a", "b"].into_iter(), []);
    let mut sampler = Sampler::default();
    let one = snapshot(
        &[(limits[0].clone(), limit_counts(5, 1))],
        DurationBuckets::default(),
    );
    let (first, _) = sampler.sample(&one);
    let counts = &data(&first.expect("the limit is new"), "limits")["limits"][0]["counts"];
    assert_eq!(
        *counts,
        json!([0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        "its counts are in the sample that follows"
    );

    assert_eq!(sampler.sample(&one).0, None, "no limit is new");
    let event = data(&sampler.limits_event(), "limits");
    assert_eq!(
        event["sources"],
        json!([
            "store",
            "lease",
            "deny_cache",
            "fallback",
            "local",
            "block",
            "exempt"
        ])
    );
    let expected =
        json!([{"id": limits[0].id(), "name": "a", "counts": [5, 1, 0, 6, 0, 0, 0, 0, 0, 0]}]);
    assert_eq!(event["limits"], expected);

    sampler.sample(&snapshot(
        &[(limits[1].clone(), limit_counts(0, 0))],
        DurationBuckets::default(),
    ));
    assert_eq!(
        data(&sampler.limits_event(), "limits")["limits"][0]["name"],
        "b",
        "removed limits are forgotten"
    );
}
