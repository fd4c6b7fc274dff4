//! What is counted, and from which time latencies are measured.

use tollgate::Micros;

use super::*;
use crate::generator::RequestParams;
use crate::judge::BoundSource;

fn record() -> LoadRecord {
    LoadRecord::new(&Rc::new(LoadPlan::for_tests(BoundSource::Responses)))
}

fn request(due_us: u64) -> ScheduledRequest {
    let params = RequestParams {
        key: 0,
        address: 0,
        cost: None,
    };
    ScheduledRequest {
        due_us,
        replica: 0,
        params,
    }
}

fn span(sent_us: u64, received_us: u64) -> TimeSpan {
    TimeSpan {
        from: Micros::new(sent_us),
        to: Micros::new(received_us),
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// A server that stalls for a second delays every request that was due in that second, not just
/// one.
#[test]
fn latencies_count_from_when_requests_were_due() {
    let mut record = record();
    let denied = ResponseDecision::default();
    for due_us in (0..1_000_000).step_by(10_000) {
        // All answered when the stall is over.
        record.record_decision(request(due_us), span(999_000, 1_000_000), &denied);
    }
    let latency = record.report(SECOND, SECOND).latency_us.unwrap();
    assert!((490_000..=520_000).contains(&latency.p50), "{latency:?}");
    assert!((980_000..=1_001_000).contains(&latency.p99), "{latency:?}");
}

/// Missing responses do not make percentiles look better.
#[test]
fn timeouts_and_unsent_requests_count_as_latencies() {
    let mut record = record();
    (0..98).for_each(|_| {
        record.record_decision(request(0), span(0, 100), &ResponseDecision::default());
    });
    let late = RequestError::Timeout(Duration::from_secs(1));
    record.record_result(request(0), 1_000_000, &Err(late));
    record.record_unsent(request(0), 10);
    let report = record.report(SECOND, SECOND);
    let latency = report.latency_us.unwrap();
    assert!(latency.p90 < 200 && latency.p99 >= 999_000, "{latency:?}");
    assert_eq!(
        (report.errors.timeout, report.errors.first.as_deref()),
        (1, Some("no response within 1s"))
    );
}

#[test]
fn the_timeline_has_60_steps_for_any_duration() {
    let mut record = record();
    for at_us in [0, 1, 500_000, 999_999, 1_000_000, u64::MAX] {
        record.record_decision(
            request(at_us),
            span(at_us, at_us),
            &ResponseDecision::default(),
        );
    }
    let timeline = record.report(SECOND, SECOND).timeline;
    assert_eq!(
        (timeline.denied.len(), timeline.denied.iter().sum::<u64>()),
        (60, 6)
    );
    assert_eq!((timeline.denied[0], timeline.denied[59]), (2, 3));
    let early = record.report(SECOND / 10, SECOND);
    assert_eq!(early.timeline.denied.len(), 7);
}

#[test]
fn denials_are_sampled_uniformly() {
    let mut record = record();
    let denied = ResponseDecision {
        retry_after_ms: Some(1),
        ..ResponseDecision::default()
    };
    (0..10_000)
        .for_each(|due_us| record.record_decision(request(due_us), span(due_us, due_us), &denied));
    assert_eq!(record.denials().len(), DENIALS_MAX);
    let late = record
        .denials()
        .iter()
        .filter(|request| request.due_us >= 5_000)
        .count();
    assert!(
        (15..=49).contains(&late),
        "{late} of {DENIALS_MAX} are from the second half"
    );
}

#[test]
fn a_late_generator_is_reported() {
    let mut record = record();
    (0..1_000).for_each(|_| record.record_due(5));
    assert!(record.report(SECOND, SECOND).generator.kept_up);
    record.record_due(20_000);
    record.record_due(11_000);
    let generator = record.report(SECOND, SECOND).generator;
    assert_eq!(
        (generator.kept_up, generator.behind, generator.behind_max_us),
        (false, 2, 20_000)
    );
}

#[test]
fn a_trace_has_every_request() {
    let mut record = LoadRecord {
        trace: Some(Vec::new()),
        ..record()
    };
    let allowed = ResponseDecision {
        is_allowed: true,
        source: DecisionSource::Lease,
        ..ResponseDecision::default()
    };
    record.record_result(request(3), 9, &Ok((span(4, 7), allowed)));
    record.record_unsent(request(5), 10);
    let decision = TracedDecision {
        sent_us: 4,
        received_us: 7,
        is_allowed: true,
        source: DecisionSource::Lease,
    };
    let traced = [(3, Some(decision)), (5, None)].map(|(due_us, decision)| TracedRequest {
        request: request(due_us),
        decision,
    });
    assert_eq!(record.trace.unwrap(), traced);
}
