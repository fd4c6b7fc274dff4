//! Outages: when they begin and end, what is logged and what is counted.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard};

use tollgate::{Clock, Health, Micros};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::*;

/// Records every event as a line.
#[derive(Clone, Default)]
struct EventLog {
    lines: Arc<Mutex<Vec<String>>>,
}

impl EventLog {
    /// Runs `work` and returns what was logged on this thread.
    fn record(work: impl FnOnce()) -> Vec<String> {
        let log = Self::default();
        tracing::subscriber::with_default(log.clone(), work);
        log.lines().clone()
    }

    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.lines
            .lock()
            .expect("nothing panics while it is locked")
    }
}

struct EventLine(String);

impl Visit for EventLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let name = if field.name() == "message" {
            ""
        } else {
            field.name()
        };
        let equals = if name.is_empty() { "" } else { "=" };
        write!(self.0, " {name}{equals}{value:?}").expect("writing to a string never fails");
    }
}

impl Subscriber for EventLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = EventLine(event.metadata().level().to_string());
        event.record(&mut line);
        self.lines().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

const OUTAGE_BEGINS: &str = "WARN store unavailable; limits fall back to their failure policies \
    kind=\"unavailable\" error=store unavailable: connection refused";

#[test]
fn an_outage_logs_two_lines() {
    for reply_mode in [ReplyMode::Ready, ReplyMode::Pending] {
        let fixture = Fixture::with(
            reply_mode,
            [per_minute("api", 5, FailurePolicy::Allow)],
            |builder| builder,
        );

        let lines = EventLog::record(|| {
            assert!(fixture.check("api").is_allowed());
            fixture.store.fail(InjectedFault::Unavailable);
            for _ in 0..10 {
                assert!(fixture.check("api").is_degraded());
                fixture.clock.advance(SECOND / 2);
            }
            fixture.recover("api");
            assert!(!fixture.check("api").is_degraded());
        });

        let outage_ends = "INFO store available again degraded_ms=6000 decisions=10";
        assert_eq!(lines, [OUTAGE_BEGINS, outage_ends]);
    }
}

/// The flag stays for a second, in case more calls fail. The time does not: one slow reply among
/// thousands is no outage of a second.
#[test]
fn a_single_failure_counts_until_the_next_reply() {
    let local = per_minute("api", 60, FailurePolicy::Local);
    let fixture = Fixture::new([local]);

    let lines = EventLog::record(|| {
        fixture.store.fail(InjectedFault::Timeout);
        assert!(fixture.check("api").is_degraded());
        fixture.store.heal();
        for _ in 0..4 {
            fixture.clock.advance(SECOND / 4);
            assert!(!fixture.check("api").is_degraded());
            let health = fixture.limiter.health();
            assert!(health.degraded, "another call may fail");
            assert_eq!(health.degraded_for, Micros::from_millis(250));
        }
        fixture.clock.advance(SECOND / 4);
        assert!(!fixture.check("api").is_degraded());
    });

    let health = fixture.limiter.health();
    assert!(!health.degraded);
    assert_eq!(health.degraded_for, Micros::from_millis(250));
    assert_eq!(
        lines.last().map(String::as_str),
        Some("INFO store available again degraded_ms=250 decisions=1")
    );
}

/// In a cluster that lost some of its slots, successes and failures alternate.
#[test]
fn successes_between_failures_do_not_end_the_outage() {
    let local = per_minute("api", 60, FailurePolicy::Local);
    let fixture = Fixture::new([local]);

    let lines = EventLog::record(|| {
        for _ in 0..50 {
            fixture.store.fail(InjectedFault::Unavailable);
            assert!(fixture.check("api").is_degraded());
            fixture.store.heal();
            fixture.clock.advance(SECOND);
            assert!(!fixture.check("api").is_degraded());
            assert!(
                fixture.limiter.health().degraded,
                "the outage ends after more than a second"
            );
        }

        fixture.store.fail(InjectedFault::Timeout);
        assert!(
            fixture.check("api").is_allowed(),
            "the local counters are kept"
        );
    });
    assert_eq!(lines, [OUTAGE_BEGINS]);
    fixture.recover("api");
}

/// A store without memory refuses to write, and still answers reads and denials. Traffic that
/// charges something now and then must not turn that into many outages.
#[test]
fn reads_do_not_end_the_outage_of_a_store_that_refuses_writes() {
    let fixture = Fixture::new([per_minute("api", 1, FailurePolicy::Allow)]);

    let lines = EventLog::record(|| {
        assert!(fixture.check("api").is_allowed());
        for _ in 0..10 {
            fixture.store.fail(InjectedFault::Refused);
            assert!(fixture.check("api").is_degraded());

            fixture.store.heal();
            fixture.clock.advance(2 * SECOND);
            assert!(!decide(fixture.limiter.peek("api", "other")).is_degraded());
            assert!(!decide(fixture.limiter.check("api", "other").cost(0)).is_degraded());
            let denied = fixture.check("api");
            assert!(!denied.is_degraded() && !denied.is_allowed());
            assert!(fixture.limiter.health().degraded, "nothing was written");
        }
        fixture.recover("api");
    });

    assert_eq!(lines.len(), 2, "{lines:?}");
}

/// A store that did not reply at all is back with any reply.
#[test]
fn a_read_ends_the_outage_of_a_store_that_did_not_reply() {
    for fault in [InjectedFault::Timeout, InjectedFault::Unavailable] {
        let fixture = Fixture::new([per_minute("api", 1, FailurePolicy::Allow)]);
        fixture.store.fail(fault);
        assert!(fixture.check("api").is_degraded());

        fixture.store.heal();
        fixture.clock.advance(2 * SECOND);
        assert!(!decide(fixture.limiter.peek("api", "other")).is_degraded());
        assert!(!fixture.limiter.health().degraded);
    }
}

#[test]
fn every_outage_is_logged() {
    let fixture = Fixture::new([per_minute("api", 5, FailurePolicy::Deny)]);
    let lines = EventLog::record(|| {
        for fault in InjectedFault::ALL {
            fixture.store.fail(fault);
            assert!(fixture.check("api").is_degraded());
            fixture.recover("api");
        }
    });

    let kinds: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.split("kind=\"").nth(1))
        .collect();
    let expected = [
        "store_timeout\" error=the store did not reply in time",
        "unavailable\" error=store unavailable: connection refused",
        "overload\" error=overloaded: the decision took too long in this process",
        "refused\" error=store refused the request: READONLY",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(lines.len(), 2 * InjectedFault::ALL.len());
}

#[test]
fn every_decision_names_its_reason() {
    let limits = [
        FailurePolicy::Allow,
        FailurePolicy::Deny,
        FailurePolicy::Local,
    ];
    let limits = limits.map(|policy| per_minute(policy.as_str(), 5, policy));
    let fixture = Fixture::new(limits);
    let expected = ["store_timeout", "unavailable", "overload", "refused"];
    for (fault, expected) in InjectedFault::ALL.into_iter().zip(expected) {
        fixture.store.fail(fault);
        for limit in ["allow", "deny", "local"] {
            let reason = fixture.check(limit).degraded_reason();
            assert_eq!(reason.map(tollgate::DegradedReason::as_str), Some(expected));
        }
    }
    fixture.store.heal();
    assert_eq!(fixture.check("allow").degraded_reason(), None);
}

/// A store that fails now and then is unavailable for as long as its users felt it.
#[test]
fn time_counts_from_each_failure_to_the_next_reply() {
    let fixture = Fixture::new([per_minute("api", 1_000_000, FailurePolicy::Allow)]);
    let millisecond = Duration::from_millis(1);
    for _ in 0..300 {
        fixture.store.fail(InjectedFault::Timeout);
        assert!(fixture.check("api").is_degraded());
        fixture.clock.advance(2 * millisecond);
        assert!(fixture.check("api").is_degraded());
        fixture.clock.advance(millisecond);
        fixture.store.heal();
        for _ in 0..9 {
            assert!(!fixture.check("api").is_degraded());
            fixture.clock.advance(100 * millisecond);
        }
    }

    let health = fixture.limiter.health();
    assert!(
        health.degraded,
        "failures less than a second apart are one outage"
    );
    assert_eq!(health.degraded_for, Micros::from_millis(300 * 3));
    fixture.recover("api");
    assert_eq!(
        fixture.limiter.health().degraded_for,
        Micros::from_millis(300 * 3)
    );
}

#[test]
fn keys_appear_neither_in_the_log_nor_in_debug_output() {
    let limits = [
        per_minute("api", 60, FailurePolicy::Local),
        Limit::concurrency("jobs", 5, MINUTE).on_store_failure(FailurePolicy::Local),
    ];
    let fixture = Fixture::new(limits);

    let lines = EventLog::record(|| {
        fixture.store.fail(InjectedFault::Unavailable);
        for _ in 0..3 {
            let decision = decide(fixture.limiter.check("api", "s3cret"));
            let held = block_on(fixture.limiter.acquire("jobs", "s3cret")).unwrap();
            let shown = format!("{decision:?} {held:?} {:?}", fixture.limiter);
            assert!(!shown.contains("s3cret"), "{shown}");
            fixture.clock.advance(SECOND);
        }
        fixture.recover("api");
    });

    assert_eq!(lines.len(), 2);
    assert!(!lines.concat().contains("s3cret"), "{lines:?}");
}

#[test]
fn decisions_and_errors_are_counted() {
    let fixture = Fixture::new([
        per_minute("allow", 5, FailurePolicy::Allow),
        per_minute("deny", 5, FailurePolicy::Deny),
    ]);
    assert_eq!(fixture.limiter.health(), Health::default());

    let start = fixture.clock.now();
    for (fault, times) in InjectedFault::ALL.into_iter().zip(1..) {
        fixture.store.fail(fault);
        (0..times).for_each(|_| assert!(fixture.check("allow").is_allowed()));
        assert!(!fixture.check("deny").is_allowed());
        fixture.clock.advance(SECOND);
    }

    let health = fixture.limiter.health();
    assert_eq!(
        (health.degraded, health.degraded_since),
        (true, Some(start))
    );
    assert_eq!(
        health.degraded_for,
        Micros::from_secs(4),
        "an outage counts while it lasts"
    );
    assert_eq!((health.degraded_allowed, health.degraded_denied), (10, 4));

    let counted = [
        ("store_timeout", 2),
        ("unavailable", 3),
        ("overload", 4),
        ("refused", 5),
        ("bound", 0),
        ("malformed", 0),
        ("script", 0),
    ];
    assert_eq!(
        (health.store_errors.by_kind(), health.store_errors.total()),
        (counted, 14)
    );

    fixture.recover("allow");
    let after = fixture.limiter.health();
    assert_eq!((after.degraded, after.degraded_since), (false, None));
    assert_eq!(
        (after.degraded_allowed, after.store_errors),
        (10, health.store_errors),
        "counts only grow"
    );

    let whole = Micros::from_secs(5).after(Micros::new(1));
    fixture.clock.advance(SECOND);
    assert_eq!(
        fixture.limiter.health().degraded_for,
        whole,
        "and not afterwards"
    );
}

/// No limit falls back, so nothing is degraded; the errors are counted nevertheless.
#[test]
fn failed_refunds_resets_and_releases_are_errors_and_begin_no_outage() {
    let limits = [
        per_minute("api", 5, FailurePolicy::Allow),
        Limit::concurrency("jobs", 5, MINUTE),
    ];
    let fixture = Fixture::new(limits);

    let lines = EventLog::record(|| {
        block_on(async {
            let permit = fixture
                .limiter
                .acquire("jobs", "ann")
                .await
                .unwrap()
                .permit()
                .unwrap();
            let permit_id = permit.decision().permit_id().unwrap();
            fixture.store.fail(InjectedFault::Overloaded);
            assert!(matches!(
                fixture.limiter.refund("api", "ann").await,
                Err(Error::Store(_))
            ));
            assert!(matches!(
                fixture.limiter.reset("api", "ann").await,
                Err(Error::Store(_))
            ));
            assert!(matches!(
                fixture.limiter.release("jobs", "ann", permit_id).await,
                Err(Error::Store(_))
            ));
            assert!(matches!(permit.renew().await, Err(Error::Store(_))));
            assert!(matches!(permit.release().await, Err(Error::Store(_))));
        });
    });

    let health = fixture.limiter.health();
    assert_eq!(
        (health.store_errors.overloaded, health.degraded),
        (5, false)
    );
    assert_eq!(lines, [""; 0]);
}

#[test]
fn many_threads_begin_one_outage() {
    const THREADS: u64 = 8;
    const EACH: u64 = 1_000;
    let fixture = Fixture::new([per_minute("api", 40, FailurePolicy::Local)]).unavailable();

    let passed: u64 = std::thread::scope(|scope| {
        let work = || {
            (0..EACH)
                .map(|_| u64::from(decide(fixture.limiter.check("api", "ann")).is_allowed()))
                .sum()
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| -> u64 { thread.join().unwrap() })
            .sum()
    });
    assert_eq!(passed, 40, "all threads count together");

    let health = fixture.limiter.health();
    assert_eq!(
        (health.degraded_allowed, health.degraded_denied),
        (40, THREADS * EACH - 40)
    );
    assert_eq!(health.store_errors.unavailable, THREADS * EACH);
}
