//! Callers that check limits all the time and record every decision, while a test causes faults in
//! the store.
//!
//! All of it runs on one thread, so that a delay of the machine affects the noise meter too. The
//! rate is moderate: the store is measured, not the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::Mutex;
use testkit::wait;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tollgate::{Decision, Error, Limiter, Micros};
use tollgate_redis::{RedisBuilder, RedisStore};

use super::fault_row::FaultRow;
use super::noise;
use super::observer::{Observer, store_error};
use super::record::{CheckRecord, Failover, Record};
use super::recording_store::{RecordingStore, with_fate};
use super::subjects::{KEYS, LEDGER, Subject, limits, subject_index, subjects};
use crate::common::PATIENT;

/// Default deadline of a decision.
pub(crate) const DEADLINE: Duration = Duration::from_millis(10);
/// Number of concurrent callers.
const CALLERS: usize = KEYS;
/// Pause of a caller between two checks. All callers together make about 2,000 checks per second.
const PAUSE: Duration = Duration::from_millis(5);
/// The most checks of a caller: enough for three minutes.
const STEPS_MAX: usize = 36_000;
/// Longest wait for an expected check. It takes far less unless something is broken.
const WAIT_LIMIT: Duration = Duration::from_secs(20);
/// Longest wait for an expected error of the store: many times the longest pause between two
/// attempts to reconnect.
const ERROR_LIMIT: Duration = Duration::from_secs(2);
/// Longest assumed replication lag. On one machine it is far less.
const REPLICATION_MAX: Duration = Duration::from_secs(1);
/// Number of decisions before and after a fault.
const DECISIONS_AROUND: usize = 400;

/// A running load.
pub(crate) struct Load {
    row: FaultRow,
    runtime: Runtime,
    store: RedisStore,
    limiter: Limiter,
    shared: Arc<LoadState>,
    callers: Vec<JoinHandle<()>>,
    noise: JoinHandle<()>,
    observer: Observer,
    deadline: Duration,
    recovery: Option<Duration>,
    failover: Option<Failover>,
    store_error: Option<String>,
    flushed_at: Vec<Micros>,
    has_ledger_bases: bool,
}

/// The settings of a load.
pub(crate) struct LoadPlan {
    row: FaultRow,
    store: RedisBuilder,
    observer: RedisBuilder,
    deadline: Duration,
    waits_for_store: bool,
}

/// The state shared by the callers and the test.
struct LoadState {
    limiter: Limiter,
    subjects: Vec<Subject>,
    start: Instant,
    sent: AtomicUsize,
    checks: Mutex<Vec<CheckRecord>>,
    noise: noise::NoiseMeter,
    is_over: AtomicBool,
}

impl LoadPlan {
    /// A load on a store, and an observer that is not affected by faults in the network.
    pub(crate) fn new(row: FaultRow, store: RedisBuilder, observer: RedisBuilder) -> Self {
        Self {
            row,
            store,
            observer,
            deadline: DEADLINE,
            waits_for_store: true,
        }
    }

    pub(crate) fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Starts the load while no server is available.
    pub(crate) fn without_store(self) -> Self {
        Self {
            waits_for_store: false,
            ..self
        }
    }

    /// Starts the callers and waits for some decisions.
    pub(crate) fn start(self) -> Load {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime starts");
        let guard = runtime.enter();
        let observer = Observer::new(&runtime, self.observer);
        let store = self
            .store
            .timeout(self.deadline)
            .build()
            .expect("the settings are valid");
        drop(guard);

        if self.waits_for_store {
            observer.charge_bases();
            assert!(
                runtime.block_on(store.ready(PATIENT)),
                "the store is available"
            );
        }
        let limiter = Limiter::builder()
            .store(RecordingStore(store.clone()))
            .limits(limits())
            .build();
        let limiter = limiter.expect("the limits are valid");
        let shared = Arc::new(LoadState::new(limiter.clone()));
        let load = Load {
            row: self.row,
            store,
            limiter,
            callers: (0..CALLERS)
                .map(|caller| runtime.spawn(shared.clone().run_caller(caller)))
                .collect(),
            noise: runtime.spawn(shared.noise.clone().run()),
            runtime,
            shared,
            observer,
            deadline: self.deadline,
            recovery: None,
            failover: None,
            store_error: None,
            flushed_at: Vec::new(),
            has_ledger_bases: self.waits_for_store,
        };
        load.wait_for_decisions(DECISIONS_AROUND);
        load
    }
}

impl Load {
    /// Waits for this number of decisions, by the store or by failure policies.
    pub(crate) fn wait_for_decisions(&self, count: usize) {
        let first = self.shared.checks.lock().len();
        wait::until_true(WAIT_LIMIT * 3, "decisions", || {
            self.shared.checks.lock().len() >= first + count
        });
    }

    /// Waits for a check that starts from now on and meets a condition.
    pub(crate) fn wait_for_check(
        &self,
        what: &str,
        holds: impl Fn(&CheckRecord, &Subject) -> bool,
    ) -> CheckRecord {
        self.wait_for_check_since(self.now(), what, holds)
    }

    /// Lets the load run for some time.
    pub(crate) fn run_for(&self, length: Duration) {
        self.runtime.block_on(async { sleep(length).await });
    }

    /// Waits for a decision by a failure policy.
    pub(crate) fn wait_until_degraded(&self) {
        self.wait_for_check("a decision by policy", |check, _| check.is_degraded);
    }

    /// Waits until store calls fail with an error that contains this text.
    pub(crate) fn wait_for_error(&mut self, what: &str) {
        let found = wait::within(ERROR_LIMIT, || {
            self.store_error = self.runtime.block_on(store_error(&self.store));
            self.store_error
                .as_ref()
                .filter(|store_error| store_error.contains(what))
                .map(drop)
        });

        assert!(
            found.is_some(),
            "no store error contains {what:?}; the last one is {:?}",
            self.store_error
        );
    }

    /// To be called when a fault has been cleared. Waits until the store allows a check again, for
    /// which it must be able to write, and records how long that took.
    pub(crate) fn wait_until_recovered(&mut self) {
        self.wait_until_recovered_for(|_| true);
    }

    /// The same for some of the subjects only.
    pub(crate) fn wait_until_recovered_for(&mut self, concerns: impl Fn(&Subject) -> bool) {
        let cleared = self.now();
        let check =
            self.wait_for_check_since(cleared, "the store to decide again", |check, subject| {
                !check.is_degraded && check.is_allowed && concerns(subject)
            });
        let took = check.ended.saturating_sub(cleared);

        self.recovery = Some(self.recovery.map_or(took, |longest| longest.max(took)));
        if let Some(failover) = &mut self.failover {
            failover.during.end = check.ended;
        }
    }

    /// To be called before the primary of these keys is replaced. Its decisions of the last second
    /// may not have been replicated, and its decisions until the recovery will be lost.
    pub(crate) fn begin_failover(&mut self, keys: impl IntoIterator<Item = usize>) {
        let now = self.now();
        let during = now.saturating_sub(REPLICATION_MAX)..now;
        self.failover = Some(Failover {
            keys: keys.into_iter().collect(),
            during,
        });
    }

    /// Records that the store lost all data at this time of its clock.
    pub(crate) fn note_flush(&mut self, at: Micros) {
        self.flushed_at.push(at);
    }

    /// The time of the store's latest known decision.
    pub(crate) fn last_decided(&self) -> Micros {
        self.shared
            .checks
            .lock()
            .iter()
            .filter_map(CheckRecord::decided_at)
            .max()
            .unwrap_or_default()
    }

    /// The time since the start of the load.
    pub(crate) fn now(&self) -> Duration {
        self.shared.start.elapsed()
    }

    /// The delay by the machine in an interval.
    pub(crate) fn noise(&self, from: Duration, length: Duration) -> Duration {
        self.shared.noise.noise().during(from, from + length)
    }

    pub(crate) fn store(&self) -> &RedisStore {
        &self.store
    }

    /// The runtime of the load, for additional checks.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The checks that started in an interval, with their subjects.
    pub(crate) fn checks_between(
        &self,
        from: Duration,
        to: Duration,
    ) -> Vec<(CheckRecord, Subject)> {
        let checks = self.shared.checks.lock();
        let during = checks
            .iter()
            .filter(|check| check.started >= from && check.started < to);

        during
            .map(|check| (*check, self.shared.subjects[check.subject].clone()))
            .collect()
    }

    /// Ends the load and returns its result. A caller that waits far beyond its deadline counts as
    /// unanswered.
    pub(crate) fn stop(self) -> Record {
        self.wait_for_decisions(DECISIONS_AROUND);
        self.shared.is_over.store(true, SeqCst);

        let patience = self.deadline + PATIENT;
        for caller in self.callers {
            let _unanswered = self
                .runtime
                .block_on(async { timeout(patience, caller).await });
        }

        self.noise.abort();
        let checks = std::mem::take(&mut *self.shared.checks.lock());
        Record {
            row: self.row,
            subjects: self.shared.subjects.clone(),
            deadline: self.deadline,
            sent: self.shared.sent.load(SeqCst),
            checks,
            health: self.limiter.health(),
            noise: self.shared.noise.noise(),
            recovery: self.recovery,
            failover: self.failover,
            store_error: self.store_error,
            flushed_at: self.flushed_at,
            has_ledger_bases: self.has_ledger_bases,
            charged: self.observer.charged(),
        }
    }

    fn wait_for_check_since(
        &self,
        since: Duration,
        what: &str,
        holds: impl Fn(&CheckRecord, &Subject) -> bool,
    ) -> CheckRecord {
        let mut seen = 0;

        wait::until(WAIT_LIMIT, what, || {
            let checks = self.shared.checks.lock();
            let news = &checks[seen..];
            seen = checks.len();
            let started_since = news.iter().filter(|check| check.started >= since);
            started_since
                .copied()
                .find(|check| holds(check, &self.shared.subjects[check.subject]))
        })
    }
}

impl LoadState {
    fn new(limiter: Limiter) -> Self {
        let start = Instant::now();
        Self {
            limiter,
            subjects: subjects(),
            start,
            sent: AtomicUsize::new(0),
            checks: Mutex::new(Vec::new()),
            noise: noise::NoiseMeter::new(start),
            is_over: AtomicBool::new(false),
        }
    }

    async fn run_caller(self: Arc<Self>, caller: usize) {
        for step in 0..STEPS_MAX {
            if self.is_over.load(SeqCst) {
                return;
            }
            self.check(subject_index(caller, step)).await;
            sleep(PAUSE).await;
        }
    }

    async fn check(&self, index: usize) {
        let subject = &self.subjects[index];
        self.sent.fetch_add(1, SeqCst);

        let started = self.start.elapsed();
        let (decision, fate) = with_fate(self.decide(subject)).await;
        let ended = self.start.elapsed();

        self.checks.lock().push(CheckRecord::new(
            index,
            started,
            ended,
            fate,
            decision.as_ref().ok(),
        ));
    }

    async fn decide(&self, subject: &Subject) -> Result<Decision, Error> {
        let Subject {
            limit, key, cost, ..
        } = subject;
        let ledger = self.limiter.check(LEDGER, key.as_str());
        match limit {
            Some(limit) => ledger.and(limit, key.as_str()).cost(*cost).await,
            None => ledger.cost(*cost).await,
        }
    }
}
