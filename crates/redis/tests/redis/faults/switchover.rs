//! A planned fail-over: `SENTINEL FAILOVER` while the primary is healthy. For some seconds both
//! servers accept writes. While some instances use the one and some the other, both count.
//!
//! A counter then admits at most one burst more than its limit, and what refills in the overlap:
//! the time from the first store call to the new primary to the last one to the old one. All
//! instances hear of the new primary at nearly the same time, so the overlap is short.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::Mutex;
use testkit::overadmission::{AdmissionTrack, Bound, Excess, TimeSpan};
use testkit::servers::{Flavor, Sentinels, Server};
use testkit::wait;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tollgate::{Consistency, FailurePolicy, Limit, Limiter, Micros, Quota, Rate, TokenBucket};
use tollgate_redis::{RedisBuilder, RedisStore, Stats};

use super::availability::{CHANGE_LIMIT, wait_for_replica, wait_for_role};
use super::fault_row::FaultRow;
use super::noise::{Noise, NoiseMeter};
use super::refusals::must;
use crate::common::{self, PATIENT};

const INSTANCES: usize = 4;
/// Pause between the starts of two instances, so that they ask the Sentinels at different times.
const PHASE: Duration = Duration::from_millis(290);
/// Callers of each instance, half of them for each limit. All instances together check a limit about
/// 1,000 times per second, which is often enough for leases.
const CALLERS: usize = 4;
/// Pause of a caller between two checks.
const PAUSE: Duration = Duration::from_millis(7);
const BURST: u64 = 10;
const PER_SECOND: u64 = 150;
const LIMITS: [(&str, Consistency); 2] = [
    ("strict", Consistency::Strict),
    ("leased", Consistency::Leased),
];
/// The longest overlap, without delays by the machine.
const OVERLAP_MAX: Duration = Duration::from_millis(100);
/// Number of admissions of each limit before and after the fail-over.
const ADMISSIONS_AROUND: usize = 100;

/// Instances that check both limits all the time.
struct Fleet {
    runtime: Runtime,
    stores: Vec<RedisStore>,
    shared: Arc<FleetState>,
    switches: Vec<JoinHandle<Switch>>,
    noise: NoiseMeter,
}

#[derive(Default)]
struct FleetState {
    /// The admissions of each limit, in the order in which they ended.
    admissions: [Mutex<Vec<TimeSpan>>; LIMITS.len()],
    is_over: AtomicBool,
}

/// When an instance went from one primary to the other. Times are since the start of the fleet.
#[derive(Clone, Copy, Debug)]
struct Switch {
    /// The earliest time at which it is known to have left the old primary.
    left: Duration,
    /// The latest time at which it is known not to use the new primary yet.
    not_joined: Duration,
    /// The earliest time at which it is known to use the new primary.
    joined: Duration,
}

/// The result of a planned fail-over.
struct Switchover {
    switches: Vec<Switch>,
    excesses: [Excess; LIMITS.len()],
    noise: Noise,
}

impl Fleet {
    fn start(group: &Sentinels) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime starts");
        let connect = |_| {
            runtime.block_on(async { sleep(PHASE).await });
            let builder = RedisBuilder::sentinel(group.urls(), group.master_name());
            common::connected(&runtime, builder.timeout(PATIENT))
        };
        let stores: Vec<RedisStore> = (0..INSTANCES).map(connect).collect();

        let start = Instant::now();
        let shared = Arc::new(FleetState::default());
        let noise = NoiseMeter::new(start);
        runtime.spawn(noise.clone().run());
        for store in &stores {
            let limiter = limiter(store);
            for caller in 0..CALLERS {
                let limit = caller % LIMITS.len();
                runtime.spawn(shared.clone().run_caller(limiter.clone(), limit, start));
            }
        }

        let watch = |store: &RedisStore| runtime.spawn(watch_switch(store.clone(), start));
        let switches = stores.iter().map(watch).collect();
        Self {
            runtime,
            stores,
            shared,
            switches,
            noise,
        }
    }

    /// Waits for more admissions of each limit.
    fn wait_for_admissions(&self) {
        let count = |limit: usize| self.shared.admissions[limit].lock().len();
        let before: Vec<usize> = (0..LIMITS.len()).map(count).collect();
        wait::until_true(CHANGE_LIMIT, "admissions", || {
            (0..LIMITS.len()).all(|limit| count(limit) >= before[limit] + ADMISSIONS_AROUND)
        });
    }

    /// Waits until all instances use the new primary.
    fn wait_until_switched(&self) {
        let has_switched = |store: &RedisStore| store.stats().connections > 1;
        wait::until_true(CHANGE_LIMIT, "all instances to use the new primary", || {
            self.stores.iter().all(has_switched)
        });
    }

    fn stop(self) -> Switchover {
        let has_switched_once = |store: &RedisStore| store.stats().connections == 2;
        assert!(
            self.stores.iter().all(has_switched_once),
            "an instance did not stay with the new primary: {:?}",
            self.stores
        );
        self.shared.is_over.store(true, SeqCst);

        let switches = self.switches.into_iter();
        Switchover {
            switches: switches
                .map(|switch| self.runtime.block_on(switch).expect("it does not panic"))
                .collect(),
            excesses: [0, 1].map(|limit| excess(&self.shared.admissions[limit].lock())),
            noise: self.noise.noise(),
        }
    }
}

impl FleetState {
    /// Checks one of the limits all the time.
    async fn run_caller(self: Arc<Self>, limiter: Limiter, limit: usize, start: Instant) {
        let now = || Micros::from_duration_ceil(start.elapsed()).expect("it is short");
        while !self.is_over.load(SeqCst) {
            let from = now();
            let decision = limiter.check(LIMITS[limit].0, "key").await;

            if decision.is_ok_and(|decision| decision.is_allowed()) {
                let span = TimeSpan { from, to: now() };
                self.admissions[limit].lock().push(span);
            }
            sleep(PAUSE).await;
        }
    }
}

impl Switchover {
    /// The interval in which both primaries may have been used. It is never shorter than it really
    /// was, whatever the machine delays.
    fn overlap(&self) -> (Duration, Duration) {
        let last_left = self.switches.iter().map(|switch| switch.left).max();
        let first_joined = self.switches.iter().map(|switch| switch.not_joined).min();
        let both = first_joined.zip(last_left);
        let (from, to) = both.expect("there are instances");
        (from, to.max(from))
    }

    fn print_and_assert(&self, name: &str) {
        let (from, to) = self.overlap();
        let (overlap, noise) = (to.saturating_sub(from), self.noise.during(from, to));
        let between = self
            .switches
            .iter()
            .map(|switch| switch.joined.saturating_sub(switch.left));
        let [strict, leased] = self.excesses;
        println!(
            "\n{name}\n  overlap         {overlap:.1?} with noise of {noise:.1?}; at most \
             {:.1?} without a primary\n  over-admission  {strict} strict, {leased} leased; at \
             most {BURST} + {PER_SECOND}/s in the overlap",
            between.max().unwrap_or_default()
        );

        let overlap_micros = Micros::from_duration_ceil(overlap).expect("it is short");
        for excess in self.excesses {
            let (numerator, denominator) = excess.parts();
            let most = i128::from(BURST) * 1_000_000
                + i128::from(PER_SECOND) * i128::from(overlap_micros.get());
            assert!(
                numerator * 1_000_000 <= most * i128::from(denominator),
                "{excess} more than the limit were admitted with an overlap of {overlap:?}"
            );
        }
        assert!(
            overlap <= OVERLAP_MAX + noise,
            "the overlap of {overlap:?} is longer than {OVERLAP_MAX:?}: {:?}",
            self.switches
        );
    }
}

fn limiter(store: &RedisStore) -> Limiter {
    let limits = LIMITS.map(|(name, consistency)| {
        Limit::token_bucket(name, BURST, Rate::per_second(PER_SECOND))
            .consistency(consistency)
            .on_store_failure(FailurePolicy::Deny)
    });
    let limiter = Limiter::builder().store(store.clone()).limits(limits);
    limiter.build().expect("the limits are valid")
}

/// Observes a store until it has connected to another server.
async fn watch_switch(store: RedisStore, start: Instant) -> Switch {
    let (mut not_joined, mut left) = (Duration::ZERO, None);
    loop {
        let before = start.elapsed();
        let Stats {
            connections, up, ..
        } = store.stats();
        let after = start.elapsed();

        if connections > 1 || up == 0 {
            left = left.or(Some(after));
        }
        match left {
            Some(left) if connections > 1 => {
                return Switch {
                    left,
                    not_joined,
                    joined: after,
                };
            }
            _ => not_joined = before,
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// By how much a limit was certainly exceeded in the worst interval.
fn excess(admissions: &[TimeSpan]) -> Excess {
    let bucket = TokenBucket::new(BURST, Rate::per_second(PER_SECOND));
    let bound = Bound::for_quota(&Quota::from(bucket.expect("the numbers are valid")));
    let bound = bound.expect("a bucket has one");

    let mut track = AdmissionTrack::with_events_max(bound, admissions.len());
    for span in admissions {
        track.admit(*span, 1);
    }
    track.worst().expect("there are admissions").excess
}

fn switch_over(name: &'static str, flavor: Flavor, prepare: impl FnOnce(&Sentinels)) {
    let row = FaultRow::begin(name);
    let group = Sentinels::start(flavor);
    wait_for_replica(group.replica(), group.primary());
    prepare(&group);

    let fleet = Fleet::start(&group);
    fleet.wait_for_admissions();
    must(
        &group.sentinels()[0],
        &["SENTINEL", "FAILOVER", group.master_name()],
    );
    fleet.wait_until_switched();
    wait_for_role(group.primary(), "slave");
    fleet.wait_for_admissions();

    fleet.stop().print_and_assert(row.name);
}

#[test]
fn planned_failover() {
    switch_over("planned failover by Sentinel", Flavor::Redis, |_| ());
}

#[test]
#[ignore = "long: cargo xtask faults"]
fn planned_failover_of_valkey() {
    switch_over("planned failover of Valkey", Flavor::Valkey, |_| ());
}

#[test]
#[ignore = "long: cargo xtask faults"]
fn planned_failover_with_a_frozen_sentinel() {
    let name = "planned failover, a Sentinel frozen";
    switch_over(name, Flavor::Redis, |group| group.sentinels()[2].freeze());
}

/// Without events the Sentinels are asked more often.
#[test]
#[ignore = "long: cargo xtask faults"]
fn planned_failover_without_events() {
    let refuse = |sentinel: &Server| {
        must(sentinel, &["ACL", "SETUSER", "default", "-subscribe"]);
    };
    switch_over("planned failover, no events", Flavor::Redis, |group| {
        group.sentinels().iter().for_each(refuse);
    });
}
