//! When an outage begins and ends, what is logged about it, and what is counted.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard};

use tollgate::{Clock, Health, Micros};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::*;

/// Keeps every event as a line.
#[derive(Clone, Default)]
struct Log {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Log {
    /// Runs `work` and gives what was logged meanwhile on this thread.
    fn of(work: impl FnOnce()) -> Vec<String> {
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

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let name = if field.name() == "message" {
            ""
        } else {
            field.name()
        };
        let equals = if name.is_empty() { "" } else { "=" };
        write!(self.0, " {name}{equals}{value:?}").expect("a string takes everything");
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.lines().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

const BEGUN: &str = "WARN the store gives no answer; until it does, limits answer by their failure policies \
    kind=\"away\" error=the store cannot be reached: connection refused";

#[test]
fn an_outage_is_two_lines_in_the_log() {
    for way in [Way::AtOnce, Way::Later] {
        let scene = Scene::with(
            way,
            [per_minute("api", 5, FailurePolicy::Allow)],
            |builder| builder,
        );
        let lines = Log::of(|| {
            assert!(scene.check("api").is_allowed());
            scene.store.fail(Fault::Away);
            for _ in 0..10 {
                assert!(scene.check("api").is_degraded());
                scene.clock.advance(SECOND / 2);
            }
            scene.recover("api");
            assert!(!scene.check("api").is_degraded());
        });
        let over = "INFO the store answers again, and limits are counted there degraded_ms=6000 decisions=10";
        assert_eq!(lines, [BEGUN, over]);
    }
}

/// In a cluster that lost some of its slots, answers and failures alternate.
#[test]
fn answers_between_failures_do_not_end_the_outage() {
    let local = per_minute("api", 60, FailurePolicy::Local);
    let scene = Scene::new([local]);
    let lines = Log::of(|| {
        for _ in 0..50 {
            scene.store.fail(Fault::Away);
            assert!(scene.check("api").is_degraded());
            scene.store.heal();
            scene.clock.advance(SECOND);
            assert!(!scene.check("api").is_degraded());
            assert!(
                scene.limiter.health().degraded,
                "a second is not more than a second"
            );
        }
        scene.store.fail(Fault::Timeout);
        assert!(
            scene.check("api").is_allowed(),
            "the local counters went on"
        );
    });
    assert_eq!(lines, [BEGUN]);
    scene.recover("api");
}

#[test]
fn every_outage_is_logged() {
    let scene = Scene::new([per_minute("api", 5, FailurePolicy::Deny)]);
    let lines = Log::of(|| {
        for fault in Fault::ALL {
            scene.store.fail(fault);
            assert!(scene.check("api").is_degraded());
            scene.recover("api");
        }
    });
    let kinds: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.split("kind=\"").nth(1))
        .collect();
    let expected = [
        "timeout\" error=the store did not answer within its deadline",
        "away\" error=the store cannot be reached: connection refused",
        "overloaded\" error=as many requests wait for the store as may; this one was not sent",
        "refused\" error=the store refused the request: READONLY",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(lines.len(), 2 * Fault::ALL.len());
}

#[test]
fn keys_show_neither_in_the_log_nor_in_debug_output() {
    let limits = [
        per_minute("api", 60, FailurePolicy::Local),
        Limit::concurrency("jobs", 5, MINUTE).on_store_failure(FailurePolicy::Local),
    ];
    let scene = Scene::new(limits);
    let lines = Log::of(|| {
        scene.store.fail(Fault::Away);
        for _ in 0..3 {
            let decision = decided(scene.limiter.check("api", "s3cret"));
            let held = block_on(scene.limiter.acquire("jobs", "s3cret")).unwrap();
            let shown = format!("{decision:?} {held:?} {:?}", scene.limiter);
            assert!(!shown.contains("s3cret"), "{shown}");
            scene.clock.advance(SECOND);
        }
        scene.recover("api");
    });
    assert_eq!(lines.len(), 2);
    assert!(!lines.concat().contains("s3cret"), "{lines:?}");
}

#[test]
fn decisions_and_errors_are_counted() {
    let scene = Scene::new([
        per_minute("allow", 5, FailurePolicy::Allow),
        per_minute("deny", 5, FailurePolicy::Deny),
    ]);
    assert_eq!(scene.limiter.health(), Health::default());
    let start = scene.clock.now();
    for (fault, times) in Fault::ALL.into_iter().zip(1..) {
        scene.store.fail(fault);
        (0..times).for_each(|_| assert!(scene.check("allow").is_allowed()));
        assert!(!scene.check("deny").is_allowed());
        scene.clock.advance(SECOND);
    }
    let health = scene.limiter.health();
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
        ("timeout", 2),
        ("away", 3),
        ("overloaded", 4),
        ("refused", 5),
    ];
    assert_eq!(
        (health.store_errors.by_kind(), health.store_errors.total()),
        (counted, 14)
    );
    scene.recover("allow");
    let after = scene.limiter.health();
    assert_eq!((after.degraded, after.degraded_since), (false, None));
    assert_eq!(
        (after.degraded_allowed, after.store_errors),
        (10, health.store_errors),
        "counts only grow"
    );
    let whole = Micros::from_secs(5).after(Micros::new(1));
    scene.clock.advance(SECOND);
    assert_eq!(
        scene.limiter.health().degraded_for,
        whole,
        "and not after it"
    );
}

/// No limit had to answer, so nothing is degraded; the errors are counted all the same.
#[test]
fn giving_back_and_forgetting_stay_errors_and_begin_no_outage() {
    let limits = [
        per_minute("api", 5, FailurePolicy::Allow),
        Limit::concurrency("jobs", 5, MINUTE),
    ];
    let scene = Scene::new(limits);
    let lines = Log::of(|| {
        block_on(async {
            let permit = scene
                .limiter
                .acquire("jobs", "ann")
                .await
                .unwrap()
                .permit()
                .unwrap();
            let lease = permit.decision().permit_id().unwrap();
            scene.store.fail(Fault::Overloaded);
            assert!(matches!(
                scene.limiter.refund("api", "ann").await,
                Err(Error::Store(_))
            ));
            assert!(matches!(
                scene.limiter.reset("api", "ann").await,
                Err(Error::Store(_))
            ));
            assert!(matches!(
                scene.limiter.release("jobs", "ann", lease).await,
                Err(Error::Store(_))
            ));
            assert!(matches!(permit.renew().await, Err(Error::Store(_))));
            assert!(matches!(permit.release().await, Err(Error::Store(_))));
        });
    });
    let health = scene.limiter.health();
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
    let scene = Scene::new([per_minute("api", 60, FailurePolicy::Local)]).away();
    assert!(!scene.check("api").is_allowed());
    scene.clock.advance(40 * SECOND);
    let passed: u64 = std::thread::scope(|scope| {
        let work = || {
            (0..EACH)
                .map(|_| u64::from(scene.limiter.check("api", "ann").is_allowed().unwrap()))
                .sum()
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| -> u64 { thread.join().unwrap() })
            .sum()
    });
    assert_eq!(passed, 40, "all threads count together");
    let health = scene.limiter.health();
    assert_eq!(
        (health.degraded_allowed, health.degraded_denied),
        (40, THREADS * EACH - 40 + 1)
    );
    assert_eq!(health.store_errors.away, THREADS * EACH + 1);
}
