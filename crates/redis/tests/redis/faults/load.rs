//! Callers that ask a limiter all the time, and remember every answer, while a test breaks what is
//! behind it.
//!
//! One thread runs all of it, so that whatever holds one caller up holds up the noise meter too.
//! The rate is modest: what is measured is the store, not the machine.

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

use super::noise;
use super::observer::{Observer, complaint_of};
use super::record::{Failover, Record, Told};
use super::row::Row;
use super::subjects::{KEYS, LEDGER, Subject, limits, subjects, turn};
use super::watched::{Watched, with_fate};
use crate::common::PATIENT;

/// The deadline of a decision where a row says nothing else.
pub(crate) const DEADLINE: Duration = Duration::from_millis(10);
/// How many ask at the same time.
const CALLERS: usize = KEYS;
/// How long each pauses between two questions. Together they ask about two thousand times a second.
const PAUSE: Duration = Duration::from_millis(5);
/// The most that one caller asks: what it comes to in three minutes.
const STEPS_MAX: usize = 36_000;
/// How long a test may wait for something that a load shows: it takes far less unless something is
/// broken.
const SHOWN_LIMIT: Duration = Duration::from_secs(20);
/// How long the store may take to say what is wrong: the longest pause between two attempts, many
/// times over.
const COMPLAINT_LIMIT: Duration = Duration::from_secs(2);
/// How far a replica may be behind. On one machine it is far less.
const REPLICATION_MAX: Duration = Duration::from_secs(1);
/// How many decisions are made before a fault, and after it.
const AROUND: usize = 400;

/// A load under way.
pub(crate) struct Load {
    row: Row,
    runtime: Runtime,
    store: RedisStore,
    limiter: Limiter,
    shared: Arc<Shared>,
    callers: Vec<JoinHandle<()>>,
    noise: JoinHandle<()>,
    observer: Observer,
    deadline: Duration,
    recovery: Option<Duration>,
    failover: Option<Failover>,
    complaint: Option<String>,
    forgotten: Vec<Micros>,
    is_told_apart: bool,
}

/// How to start a load.
pub(crate) struct Plan {
    row: Row,
    store: RedisBuilder,
    observer: RedisBuilder,
    deadline: Duration,
    waits_for_store: bool,
}

/// What the callers and the test share.
struct Shared {
    limiter: Limiter,
    subjects: Vec<Subject>,
    start: Instant,
    sent: AtomicUsize,
    told: Mutex<Vec<Told>>,
    noise: noise::Meter,
    is_over: AtomicBool,
}

impl Plan {
    /// A load on a store, and a way to its servers past whatever the test does to the network.
    pub(crate) fn new(row: Row, store: RedisBuilder, observer: RedisBuilder) -> Self {
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

    /// Starts although no server is there yet.
    pub(crate) fn without_store(self) -> Self {
        Self {
            waits_for_store: false,
            ..self
        }
    }

    /// Starts the callers and waits until the store has decided for a while.
    pub(crate) fn start(self) -> Load {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime starts");
        let inside = runtime.enter();
        let observer = Observer::new(&runtime, self.observer);
        let store = self
            .store
            .timeout(self.deadline)
            .build()
            .expect("the settings are right");
        drop(inside);
        if self.waits_for_store {
            observer.set_apart();
            assert!(runtime.block_on(store.ready(PATIENT)), "the store is there");
        }
        let limiter = Limiter::builder()
            .store(Watched(store.clone()))
            .limits(limits())
            .build();
        let limiter = limiter.expect("the limits are right");
        let shared = Arc::new(Shared::new(limiter.clone()));
        let load = Load {
            row: self.row,
            store,
            limiter,
            callers: (0..CALLERS)
                .map(|caller| runtime.spawn(shared.clone().call(caller)))
                .collect(),
            noise: runtime.spawn(shared.noise.clone().run()),
            runtime,
            shared,
            observer,
            deadline: self.deadline,
            recovery: None,
            failover: None,
            complaint: None,
            forgotten: Vec::new(),
            is_told_apart: self.waits_for_store,
        };
        load.decides(AROUND);
        load
    }
}

impl Load {
    /// Waits until so many more decisions have been made, by whom does not matter.
    pub(crate) fn decides(&self, count: usize) {
        let first = self.shared.told.lock().len();
        wait::until_true(SHOWN_LIMIT * 3, "decisions", || {
            self.shared.told.lock().len() >= first + count
        });
    }

    /// Waits for an answer, to a question that is asked from now on, of which this holds.
    pub(crate) fn shows(&self, what: &str, holds: impl Fn(&Told, &Subject) -> bool) -> Told {
        self.shows_since(self.now(), what, holds)
    }

    /// Lets a fault last.
    pub(crate) fn lasts(&self, length: Duration) {
        self.runtime.block_on(async { sleep(length).await });
    }

    /// Waits until decisions are no longer made by the store.
    pub(crate) fn degrades(&self) {
        self.shows("a decision by policy", |told, _| told.is_degraded);
    }

    /// Waits until the store says why it does not answer, in words that hold these.
    pub(crate) fn complains_of(&mut self, what: &str) {
        let said = wait::within(COMPLAINT_LIMIT, || {
            self.complaint = self.runtime.block_on(complaint_of(&self.store));
            self.complaint
                .as_ref()
                .filter(|complaint| complaint.contains(what))
                .map(drop)
        });
        assert!(
            said.is_some(),
            "the store does not complain of {what}; it says {:?}",
            self.complaint
        );
    }

    /// Call it when the fault has been cleared: waits until the store lets something pass again,
    /// for which it must be able to write, and notes how long it took.
    pub(crate) fn recovers(&mut self) {
        self.recovers_for(|_| true);
    }

    /// The same for some of the subjects.
    pub(crate) fn recovers_for(&mut self, concerns: impl Fn(&Subject) -> bool) {
        let cleared = self.now();
        let shown = self.shows_since(cleared, "the store to decide again", |told, subject| {
            !told.is_degraded && told.is_allowed && concerns(subject)
        });
        let took = shown.answered.saturating_sub(cleared);
        self.recovery = Some(self.recovery.map_or(took, |longest| longest.max(took)));
        if let Some(failover) = &mut self.failover {
            failover.during.end = shown.answered;
        }
    }

    /// Call it before the primary of these keys is replaced. What it decided in the last second may
    /// not have reached its replica, and what it decides until the store has recovered goes with
    /// it.
    pub(crate) fn fails_over(&mut self, keys: impl IntoIterator<Item = usize>) {
        let now = self.now();
        let during = now.saturating_sub(REPLICATION_MAX)..now;
        self.failover = Some(Failover {
            keys: keys.into_iter().collect(),
            during,
        });
    }

    /// Notes that the store has forgotten everything that it decided up to this moment of its own
    /// time.
    pub(crate) fn forgot(&mut self, at: Micros) {
        self.forgotten.push(at);
    }

    /// The latest moment at which the store is known to have decided.
    pub(crate) fn last_decided(&self) -> Micros {
        self.shared
            .told
            .lock()
            .iter()
            .filter_map(Told::decided_at)
            .max()
            .unwrap_or_default()
    }

    /// How long the load has run.
    pub(crate) fn now(&self) -> Duration {
        self.shared.start.elapsed()
    }

    /// How much the machine has added to what took this time.
    pub(crate) fn noise(&self, from: Duration, length: Duration) -> Duration {
        self.shared.noise.heard().during(from, from + length)
    }

    pub(crate) fn store(&self) -> &RedisStore {
        &self.store
    }

    /// What runs the load, for what else is to be asked beside it.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// What has been told from one moment to another.
    pub(crate) fn told(&self, from: Duration, to: Duration) -> Vec<(Told, Subject)> {
        let told = self.shared.told.lock();
        let during = told
            .iter()
            .filter(|told| told.asked >= from && told.asked < to);
        during
            .map(|told| (*told, self.shared.subjects[told.subject].clone()))
            .collect()
    }

    /// Ends the load and returns what it has to show. A caller that waits far beyond its deadline
    /// stays unanswered.
    pub(crate) fn stop(self) -> Record {
        self.decides(AROUND);
        self.shared.is_over.store(true, SeqCst);
        let patience = self.deadline + PATIENT;
        for caller in self.callers {
            let _unanswered = self
                .runtime
                .block_on(async { timeout(patience, caller).await });
        }
        self.noise.abort();
        let told = std::mem::take(&mut *self.shared.told.lock());
        Record {
            row: self.row,
            subjects: self.shared.subjects.clone(),
            deadline: self.deadline,
            sent: self.shared.sent.load(SeqCst),
            told,
            health: self.limiter.health(),
            noise: self.shared.noise.heard(),
            recovery: self.recovery,
            failover: self.failover,
            complaint: self.complaint,
            forgotten: self.forgotten,
            is_told_apart: self.is_told_apart,
            charged: self.observer.charged(),
        }
    }

    fn shows_since(
        &self,
        since: Duration,
        what: &str,
        holds: impl Fn(&Told, &Subject) -> bool,
    ) -> Told {
        let mut seen = 0;
        wait::until(SHOWN_LIMIT, what, || {
            let told = self.shared.told.lock();
            let news = &told[seen..];
            seen = told.len();
            let asked_since = news.iter().filter(|told| told.asked >= since);
            asked_since
                .copied()
                .find(|told| holds(told, &self.shared.subjects[told.subject]))
        })
    }
}

impl Shared {
    fn new(limiter: Limiter) -> Self {
        let start = Instant::now();
        Self {
            limiter,
            subjects: subjects(),
            start,
            sent: AtomicUsize::new(0),
            told: Mutex::new(Vec::new()),
            noise: noise::Meter::new(start),
            is_over: AtomicBool::new(false),
        }
    }

    async fn call(self: Arc<Self>, caller: usize) {
        for step in 0..STEPS_MAX {
            if self.is_over.load(SeqCst) {
                return;
            }
            self.ask(turn(caller, step)).await;
            sleep(PAUSE).await;
        }
    }

    async fn ask(&self, place: usize) {
        let subject = &self.subjects[place];
        self.sent.fetch_add(1, SeqCst);
        let asked = self.start.elapsed();
        let (decision, fate) = with_fate(self.decide(subject)).await;
        let answered = self.start.elapsed();
        self.told.lock().push(Told::new(
            place,
            asked,
            answered,
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
