use tollgate_load::RequestParams;

use super::super::cells::SECOND_US;
use super::super::cells::{Case, Mode, tests};
use super::super::schedule;
use super::*;

/// A row of a cold key, of which the first `admitted` of 3,000 requests were admitted.
pub(in super::super) fn row(mode: Mode, replicas: usize, admitted: usize) -> Row {
    row_of(
        &tests::cell(Case::Cold, mode, replicas, "1000-once"),
        admitted,
    )
}

pub(in super::super) fn row_of(cell: &Cell, admitted: usize) -> Row {
    let sources = [DecisionSource::Store, DecisionSource::Lease];
    let requests = schedule::requests(cell, SECOND_US).into_iter().enumerate();
    let traced = requests.map(|(index, request)| TracedRequest {
        request: ScheduledRequest {
            due_us: 0,
            ..request
        },
        decision: Some(TracedDecision {
            sent_us: 10,
            received_us: 500,
            is_allowed: index < admitted,
            source: sources[index % 2],
        }),
    });
    let trace = CellTrace {
        requests: traced.collect(),
        epoch_us: SECOND_US,
        clock_error_us: 0,
        script_calls: 30,
    };
    let mut figures = figures(cell, &trace);
    figures.extend(replay(cell.limit, &trace.requests, SECOND_US).unwrap());
    figures.extend([("retries", 2.0), ("retries_kept", 1.0)]);
    let (case, load) = (cell.name(), cell.load_text());
    Row::new(&case, &load, &cell.mode.name(), vec![figures])
}

/// The excess of a limit by admissions of one unit at these times, in milliseconds.
fn excess(limit: &'static str, clock_error_us: u64, times_ms: &[(u64, u64)]) -> f64 {
    let cell = tests::cell(Case::Edge, Mode::Strict, 1, limit);
    let request = schedule::requests(&cell, 0)[0];
    let traced = times_ms.iter().map(|(from_ms, to_ms)| TracedRequest {
        request,
        decision: Some(TracedDecision {
            sent_us: from_ms * 1_000,
            received_us: to_ms * 1_000,
            is_allowed: true,
            source: DecisionSource::Store,
        }),
    });
    let trace = CellTrace {
        requests: traced.collect(),
        epoch_us: 5 * SECOND_US,
        clock_error_us,
        script_calls: 0,
    };
    figures(&cell, &trace)["excess"]
}

#[test]
fn windows_are_judged_by_the_clock_of_the_store() {
    let mut times = vec![(999, 999); 500];
    times.extend(vec![(1_000, 1_000); 501]);
    assert!((excess("fixed-500", 0, &times) - 1.0).abs() < 1e-9);
    // Where the edge is not known to the millisecond, admissions close to it prove nothing.
    assert!(excess("fixed-500", 2_000, &times).abs() < 1e-9);
    // The previous window still counts in full.
    assert!((excess("sliding-500", 0, &times) - 501.0).abs() < 1e-9);
    let mut later = vec![(0, 1); 500];
    later.extend(vec![(1_500, 1_500); 250]);
    assert!(excess("sliding-500", 0, &later).abs() < 1e-9);
}

#[test]
fn an_admission_at_an_uncertain_time_proves_nothing() {
    let full = [(0, 1); 10];
    let with = |one: (u64, u64)| excess("10-per-s", 0, &[&full[..], &[one]].concat());
    assert!(with((0, 1)) > 0.9);
    // It was in flight for so long that it may have been admitted after a refill.
    assert!(with((0, 150)) <= 0.0);
}

#[test]
fn figures_are_counted() {
    let row = row(Mode::Leased, 2, 900);
    let expected = [
        ("offered", "3000.00"),
        ("admitted", "900.00"),
        ("denied", "2100.00"),
        ("errors", "0.00"),
        ("admitted_units", "900.00"),
        ("ideal_units", "1000.00"),
        ("is_exceeded", "0.00"),
        (P50, "500.00"),
        ("p999_us", "500.00"),
        ("sent_late_p99_us", "10.00"),
        ("utilisation", "0.90"),
        ("local_share", "0.50"),
        ("calls_per_request", "0.01"),
        ("over", "0.00"),
    ];
    for (figure, value) in expected {
        assert_eq!(row.text(&format!("{{{figure}:2}}")), value, "{figure}");
    }
}

#[test]
fn one_unit_too_many_is_judged_by_mode() {
    let verdict = |mode, admitted| row(mode, 2, admitted).text("{is_exceeded:0}");
    assert_eq!(verdict(Mode::Strict, 1_001), "1");
    assert_eq!(row(Mode::Strict, 2, 1_001).text("{over:2}"), "1.00");
    assert_eq!(verdict(Mode::Eventual, 1_100), "0");
    assert_eq!(verdict(Mode::Eventual, 1_101), "1");
    assert_eq!(verdict(Mode::Local, 2_000), "0");
}

#[test]
fn a_decision_is_late_if_it_takes_longer_than_the_deadline_and_5_ms() {
    let late = |case, received_us| {
        let cell = tests::cell(case, Mode::Leased, 1, "1000-per-s");
        let decision = TracedDecision {
            sent_us: 1_000,
            received_us,
            is_allowed: true,
            source: DecisionSource::Store,
        };
        super::late(&cell, &[(schedule::requests(&cell, 0)[0], decision)])
    };
    assert!(late(Case::Slow, 16_000) < 1.0);
    assert!(late(Case::Slow, 16_001) > 0.0);
    assert!(late(Case::Grid, 16_001).is_nan());
}

/// Requests of which the first of every `of` is admitted, each sent `late_us` later than the
/// one before.
fn trace(count: u64, every_us: u64, of: u64, late_us: u64) -> Vec<TracedRequest> {
    let traced = |index: u64| TracedRequest {
        request: ScheduledRequest {
            due_us: index * every_us,
            replica: 0,
            params: RequestParams {
                key: 0,
                address: 0,
                cost: Some(1),
            },
        },
        decision: Some(TracedDecision {
            sent_us: index * (every_us + late_us),
            received_us: index * (every_us + late_us),
            is_allowed: index.is_multiple_of(of),
            source: DecisionSource::Store,
        }),
    };
    (0..count).map(traced).collect()
}

fn units(figures: &Figures) -> String {
    figures["ideal_units"].to_string()
}

#[test]
fn a_bucket_gives_its_burst_and_its_rate() {
    // Twenty requests a second for two seconds, on a bucket of ten units that refills ten a
    // second.
    let ideal = replay("10-per-s", &trace(40, 50_000, 2, 0), 7).unwrap();
    assert_eq!(units(&ideal), "29");
    assert!((ideal["utilisation"] - 20.0 / 29.0).abs() < 1e-9);
    // Once it is used up, every second request is admitted, as with the ideal limiter.
    assert!((ideal["utilisation_full"] - 1.0).abs() < 0.11);
    assert!((ideal["utilisation_lowest"] - 20.0 / 29.0).abs() < 1e-9);
}

#[test]
fn a_late_load_does_not_improve_the_result() {
    let late = replay("10-per-s", &trace(40, 50_000, 1, 50_000), 7).unwrap();
    assert_eq!(units(&late), "40");
    assert!((late["utilisation"] - 1.0).abs() < 1e-9);
}

#[test]
fn windows_begin_where_the_stores_clock_says() {
    let burst = trace(600, 1, 1, 0);
    let units_from = |epoch_us| units(&replay("fixed-500", &burst, epoch_us).unwrap());
    assert_eq!(units_from(5_000_000), "500");
    assert_eq!(units_from(5_999_900), "600");
}

#[test]
fn a_denial_is_false_if_its_key_stayed_within_the_limit() {
    let false_denials = |requests| {
        let replayed = replay("10-per-s", &trace(requests, 50_000, 2, 0), 0).unwrap();
        replayed["false_denials"].to_string()
    };
    assert_eq!(false_denials(10), "5");
    assert_eq!(false_denials(40), "0");
}

#[test]
fn a_limit_that_was_never_used_up_has_no_second_figure() {
    let ideal = replay("10-per-s", &trace(5, 50_000, 1, 0), 0).unwrap();
    assert_eq!(units(&ideal), "5");
    assert!(ideal["utilisation_full"].is_nan() && !ideal["utilisation_lowest"].is_nan());
}
