//! The embedded store against the model and the conformance suite.

use std::cell::Cell;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};
use testkit::conformance::{ByHand, InRealTime, run_all};
use testkit::differential::{
    Kind, StepsBack, Trace, any_trace_strategy, run_trace, trace_strategy,
};
use testkit::volume;
use tollgate::store::Intent;
use tollgate::{DemandBuf, Limit, ManualClock, MemoryStore, Micros, PermitId, Rate, Store};

/// Few enough keys for a single shard, so that a sweep always visits the counters of the trace.
const KEYS_MAX: usize = 64;
/// How many traces are generated between two checks of the number of operations.
const TRACES_PER_ROUND: u32 = 100;

/// How many operations each test compares in a thorough run.
const OPERATIONS: u64 = 1_000_000;

/// A runner for one round; it cannot be reused.
fn runner(round: u64, regressions: &'static str) -> TestRunner {
    TestRunner::new(Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(regressions))),
        max_shrink_iters: 200_000,
        ..volume::round(round, TRACES_PER_ROUND)
    })
}

fn store(clock: &ManualClock) -> MemoryStore {
    MemoryStore::builder()
        .keys_max(KEYS_MAX)
        .clock(clock.clone())
        .build()
}

/// A store that does not sweep while a trace runs. Sweeping removes expired counters; if the clock
/// is then set back, a counter may or may not be gone, depending on when the sweep ran, and both
/// are correct.
fn unswept_store(clock: &ManualClock) -> MemoryStore {
    let store = store(clock);
    clock.set(Micros::MAX);
    let rule = Limit::token_bucket("far-away", 1, Rate::per_second(1))
        .validate()
        .expect("valid numbers");
    let check = DemandBuf::new(&rule, (), 0).expect("a valid key");
    pollster::block_on(store.spend(&[check.as_demand()], Intent::Peek, PermitId::NONE))
        .expect("the embedded store is available");
    store
}

/// Generates traces until enough operations have been compared: half of them on a clock that is set
/// back now and then, half on one that is not, with sweeps.
#[expect(clippy::panic, reason = "it fails the test with a readable trace")]
fn compare(
    name: &str,
    regressions: &'static str,
    straight: impl Strategy<Value = Trace>,
    set_back: impl Strategy<Value = Trace>,
) {
    let (compared, wanted) = (Cell::new(0), volume::of(OPERATIONS));
    let play = |store: MemoryStore, clock: &ManualClock, trace: &Trace| {
        let agreed = run_trace(&store, clock, trace).map_err(TestCaseError::fail)?;
        compared.set(compared.get() + agreed);
        Ok(())
    };
    for round in 0.. {
        if compared.get() >= wanted {
            break;
        }
        let clock = ManualClock::default();
        let result =
            runner(round, regressions).run(&straight, |trace| play(store(&clock), &clock, &trace));
        result.unwrap_or_else(|failure| panic!("{name}, clock forward: {failure}"));
        let result = runner(round, regressions).run(&set_back, |trace| {
            play(unswept_store(&clock), &clock, &trace)
        });
        result.unwrap_or_else(|failure| panic!("{name}, clock set back: {failure}"));
    }
    println!(
        "{name}: {} operations compared with the model",
        compared.get()
    );
}

macro_rules! compared_with_the_model {
    ($($name:ident => $kind:ident;)*) => {$(
        #[test]
        fn $name() {
            compare(
                stringify!($name),
                concat!("proptest-regressions/", stringify!($name), ".txt"),
                trace_strategy(Kind::$kind, StepsBack::No),
                trace_strategy(Kind::$kind, StepsBack::Yes),
            );
        }
    )*};
}

compared_with_the_model! {
    fixed_first_hit => FixedFirstHit;
    fixed_calendar => FixedCalendar;
    sliding_window => SlidingWindow;
    sliding_log => SlidingLog;
    token_bucket => TokenBucket;
    leaky_meter => LeakyMeter;
    leaky_queue => LeakyQueue;
    concurrency => Concurrency;
}

/// Requests that spend from several algorithms.
#[test]
fn mixed() {
    compare(
        "mixed",
        "proptest-regressions/mixed.txt",
        any_trace_strategy(StepsBack::No),
        any_trace_strategy(StepsBack::Yes),
    );
}

#[test]
fn conformance() {
    let clock = ManualClock::default();
    let store = Arc::new(MemoryStore::builder().clock(clock.clone()).build());
    run_all(&ByHand { clock, store });
}

/// Other stores run in real time; this shows that the suite can be passed there.
#[test]
fn conformance_in_real_time() {
    run_all(&InRealTime(Arc::new(MemoryStore::new())));
}
