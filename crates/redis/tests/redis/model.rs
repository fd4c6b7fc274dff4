//! Compares the script with the model, operation by operation, with a manual clock.

use crate::common;

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};
use testkit::differential::{
    Kind, PendingReply, StepsBack, Trace, any_trace_strategy, run_trace, run_trace_in_batches,
    trace_strategy,
};
use testkit::servers::{Client, Cluster, Flavor, Server};
use testkit::volume;
use tollgate::ManualClock;
use tollgate_redis::{RedisBuilder, RedisStore};

const TRACES_PER_ROUND: u32 = 10;

/// Number of operations to compare in each test, half of them on each kind of server.
fn operations() -> u64 {
    volume::of(40_000)
}

fn runner(round: u64, regressions: &'static str) -> TestRunner {
    TestRunner::new(Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(regressions))),
        max_shrink_iters: 2_000,
        ..volume::round(round, TRACES_PER_ROUND)
    })
}

/// A store with a manual clock, and clients to delete all of its data.
struct Subject {
    store: RedisStore,
    clock: ManualClock,
    servers: Vec<std::cell::RefCell<Client>>,
}

impl Subject {
    fn new(runtime: &tokio::runtime::Runtime, builder: RedisBuilder, servers: &[Server]) -> Self {
        let clock = ManualClock::default();
        let builder = builder.timeout(common::PATIENT).manual_time(clock.clone());
        let store = common::connected(runtime, builder);

        Self {
            store,
            clock,
            servers: servers
                .iter()
                .map(|server| server.client().into())
                .collect(),
        }
    }

    fn play(&self, trace: &Trace) -> Result<u64, TestCaseError> {
        self.flush();
        run_trace(&self.store, &self.clock, trace).map_err(TestCaseError::fail)
    }

    /// Plays a trace with many operations in one script call.
    fn play_in_batches(
        &self,
        runtime: &tokio::runtime::Runtime,
        trace: &Trace,
    ) -> Result<u64, TestCaseError> {
        self.flush();
        let block_on = |reply: PendingReply<'_>| runtime.block_on(reply);
        run_trace_in_batches(&self.store, &self.clock, trace, &block_on)
            .map_err(TestCaseError::fail)
    }

    fn flush(&self) {
        for server in &self.servers {
            server
                .borrow_mut()
                .call(&["FLUSHALL"])
                .expect("the server is available");
        }
    }
}

#[expect(clippy::panic, reason = "it fails the test with a readable trace")]
fn compare(
    name: &str,
    regressions: &'static str,
    play: impl Fn(&Trace) -> Result<u64, TestCaseError>,
    traces: &[BoxedStrategy<Trace>; 2],
    wanted: u64,
) {
    let compared = Cell::new(0);
    for round in 0.. {
        if compared.get() >= wanted {
            break;
        }
        for strategy in traces {
            let result = runner(round, regressions).run(strategy, |trace| {
                compared.set(compared.get() + play(&trace)?);
                Ok(())
            });
            result.unwrap_or_else(|failure| panic!("{name}: {failure}"));
        }
    }

    println!(
        "{name}: {} operations compared with the model",
        compared.get()
    );
}

fn of_kind(kind: Kind) -> [BoxedStrategy<Trace>; 2] {
    [StepsBack::No, StepsBack::Yes].map(|steps_back| trace_strategy(kind, steps_back).boxed())
}

fn mixed() -> [BoxedStrategy<Trace>; 2] {
    [StepsBack::No, StepsBack::Yes].map(|steps_back| any_trace_strategy(steps_back).boxed())
}

fn on_standalone(
    name: &str,
    regressions: &'static str,
    traces: &dyn Fn() -> [BoxedStrategy<Trace>; 2],
) {
    let runtime = common::runtime();
    for flavor in common::FLAVORS {
        let server = Server::start(flavor);
        let servers = [server];
        let subject = Subject::new(
            &runtime,
            RedisBuilder::standalone(servers[0].url()),
            &servers,
        );

        compare(
            &format!("{name} on {flavor:?}"),
            regressions,
            |trace| subject.play(trace),
            &traces(),
            operations() / 2,
        );
    }
}

macro_rules! compared_with_the_model {
    ($($name:ident => $traces:expr;)*) => {$(
        #[test]
        fn $name() {
            let regressions = concat!("proptest-regressions/", stringify!($name), ".txt");
            on_standalone(stringify!($name), regressions, &|| $traces);
        }
    )*};
}

compared_with_the_model! {
    fixed_first_hit => of_kind(Kind::FixedFirstHit);
    fixed_calendar => of_kind(Kind::FixedCalendar);
    sliding_window => of_kind(Kind::SlidingWindow);
    sliding_log => of_kind(Kind::SlidingLog);
    token_bucket => of_kind(Kind::TokenBucket);
    leaky_meter => of_kind(Kind::LeakyMeter);
    leaky_queue => of_kind(Kind::LeakyQueue);
    concurrency => of_kind(Kind::Concurrency);
    several_at_once => mixed();
}

/// All counters of a trace have the same key attributes, so in a cluster they are in the same slot.
#[test]
fn on_a_cluster() {
    let runtime = common::runtime();
    for flavor in common::FLAVORS {
        let cluster = Cluster::start(flavor, 3, 0);
        let subject = Subject::new(
            &runtime,
            RedisBuilder::cluster(cluster.urls()),
            cluster.nodes(),
        );

        let name = format!("a cluster of {flavor:?}");
        compare(
            &name,
            "proptest-regressions/on_a_cluster.txt",
            |trace| subject.play(trace),
            &mixed(),
            operations() / 2,
        );
    }
}

/// Operations on the same counters in one script call.
#[test]
fn in_batches() {
    // On this runtime all operations of a batch are queued before the store's task sends them.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime starts");
    for flavor in common::FLAVORS {
        let servers = [Server::start(flavor)];
        let builder = RedisBuilder::standalone(servers[0].url());
        let subject = Subject::new(&runtime, builder, &servers);

        compare(
            &format!("batches on {flavor:?}"),
            "proptest-regressions/in_batches.txt",
            |trace| subject.play_in_batches(&runtime, trace),
            &mixed(),
            operations() / 2,
        );
        let stats = subject.store.stats();
        assert!(
            stats.script_calls < stats.store_calls / 3 * 2,
            "there were batches: {stats:?}"
        );
    }
}

/// Makes sure that the tests run on both flavors.
#[test]
fn both_flavors_are_different_servers() {
    for flavor in common::FLAVORS {
        let info = Server::start(flavor).command(&["INFO", "server"]);
        let is_valkey = info
            .as_str()
            .is_some_and(|text| text.contains("valkey_version"));
        assert_eq!(is_valkey, flavor == Flavor::Valkey);
    }
}
