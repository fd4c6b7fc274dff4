//! What is counted, and from when.

use super::*;
use crate::judge::Standard;

fn record() -> Record {
    Record::new(&Rc::new(Plan::for_tests(Standard::Answers)))
}

fn shot(due_us: u64) -> Shot {
    let draw = Draw {
        key: 0,
        address: 0,
        cost: None,
    };
    Shot {
        due_us,
        ready_us: due_us,
        replica: 0,
        draw,
    }
}

fn times(seconds: u64) -> Times {
    let whole = Duration::from_secs(seconds);
    Times {
        sending: whole,
        whole,
        ended_early: false,
    }
}

/// A server that stalls for a second is a second late for everyone who was due meanwhile, and not
/// for one alone.
#[test]
fn latencies_count_from_when_requests_were_due() {
    let mut record = record();
    let denied = Told::default();
    for due_us in (0..1_000_000).step_by(10_000) {
        // All answered when the stall is over.
        record.answered(shot(due_us), span(999_000, 1_000_000), &denied);
    }
    let latency = record
        .report(times(1), RetryReport::default())
        .latency_us
        .unwrap();
    assert!((490_000..=520_000).contains(&latency.p50), "{latency:?}");
    assert!((980_000..=1_001_000).contains(&latency.p99), "{latency:?}");
}

/// What got no answer does not make percentiles look better.
#[test]
fn what_was_waited_for_in_vain_counts_too() {
    let mut record = record();
    (0..98).for_each(|_| record.answered(shot(0), span(0, 100), &Told::default()));
    record.failed(shot(0), 1_000_000, Failed::Timeout, || "late".to_owned());
    record.unsent(10);
    let report = record.report(times(1), RetryReport::default());
    let latency = report.latency_us.unwrap();
    assert!(latency.p90 < 200 && latency.p99 >= 999_000, "{latency:?}");
    assert_eq!(
        (report.errors.timeout, report.errors.first.as_deref()),
        (1, Some("late"))
    );
}

#[test]
fn the_course_has_as_many_steps_for_any_duration() {
    let mut record = record();
    for at_us in [0, 1, 500_000, 999_999, 1_000_000, u64::MAX] {
        record.answered(shot(at_us), span(at_us, at_us), &Told::default());
    }
    let timeline = record.report(times(1), RetryReport::default()).timeline;
    assert_eq!(
        (timeline.denied.len(), timeline.denied.iter().sum::<u64>()),
        (60, 6)
    );
    assert_eq!((timeline.denied[0], timeline.denied[59]), (2, 3));
    let early = record.report(
        Times {
            sending: Duration::from_millis(100),
            ..times(1)
        },
        RetryReport::default(),
    );
    assert_eq!(early.timeline.denied.len(), 7);
}

#[test]
fn some_of_all_denials_are_kept() {
    let mut record = record();
    let denied = Told {
        retry_after_ms: Some(1),
        ..Told::default()
    };
    (0..10_000).for_each(|due_us| record.answered(shot(due_us), span(due_us, due_us), &denied));
    assert_eq!(record.denials().len(), DENIALS_MAX);
    let late = record
        .denials()
        .iter()
        .filter(|shot| shot.due_us >= 5_000)
        .count();
    assert!(
        (15..=49).contains(&late),
        "{late} of {DENIALS_MAX} are from the second half"
    );
}

#[test]
fn a_load_that_is_late_says_so() {
    let mut record = record();
    (0..1_000).for_each(|_| record.due(5));
    assert!(
        record
            .report(times(1), RetryReport::default())
            .generator
            .kept_up
    );
    record.due(20_000);
    record.due(11_000);
    let generator = record.report(times(1), RetryReport::default()).generator;
    assert_eq!(
        (generator.kept_up, generator.behind, generator.behind_max_us),
        (false, 2, 20_000)
    );
}
