use super::super::cells::{Case, Mode, tests};
use super::super::limits::SECOND_US;
use super::super::{ideal, retry, schedule};
use super::*;
use crate::harness::Row;

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
    figures.extend(ideal::replay(cell.limit, &trace.requests, SECOND_US).unwrap());
    figures.extend([(retry::RETRIES, 2.0), (retry::KEPT, 1.0)]);
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
    figures(&cell, &trace)[EXCESS]
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
        (OFFERED, "3000.00"),
        (ADMITTED, "900.00"),
        (DENIED, "2100.00"),
        (ERRORS, "0.00"),
        ("admitted_units", "900.00"),
        ("ideal_units", "1000.00"),
        (IS_EXCEEDED, "0.00"),
        (P50, "500.00"),
        (P999, "500.00"),
        (SENT_LATE, "10.00"),
        ("utilisation", "0.90"),
        (LOCAL_SHARE, "0.50"),
        (CALLS_PER_REQUEST, "0.01"),
        (OVER, "0.00"),
    ];
    for (figure, value) in expected {
        assert_eq!(row.number(figure, 2), value, "{figure}");
    }
}

#[test]
fn one_unit_too_many_is_judged_by_mode() {
    let verdict = |mode, admitted| row(mode, 2, admitted).number(IS_EXCEEDED, 0);
    assert_eq!(verdict(Mode::Strict, 1_001), "1");
    assert_eq!(row(Mode::Strict, 2, 1_001).number(OVER, 2), "1.00");
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
