//! Tollgate in the process of an application that is written in another language.
//!
//! A binding needs three things: open a configuration, decide without waiting, and carry out
//! everything else as the service would. [`Embedded`] owns the runtime for it, so that a binding is
//! a thin layer of types. Operations are the JSON texts of `POST /v1/batch`: what a program sends to
//! the service, it can ask in its own process.

mod demands;
mod error;
mod limits;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};
use tollgate::{Decision, ManualClock};
use tollgate_gate::api::{self, ApiContext};
use tollgate_gate::metrics::Metrics;
use tollgate_gate::{Caller, Gate, RequestOrigin};
use tollgate_rules::Config;

pub use self::demands::DirectDemands;
pub use self::error::{EmbeddedError, OpenError};
use self::limits::LimitTable;
pub use self::limits::{LIMITS_MAX, LimitId};
pub use tollgate_gate::BlockStatus;

/// How long opening waits at most for the actions of operators.
const RECORDS_TIMEOUT: Duration = Duration::from_millis(500);

/// How often the store is asked for the actions of operators.
const ACTIONS_INTERVAL: Duration = Duration::from_millis(250);

/// The same until it has answered once: a key that is blocked must not pass meanwhile.
const FIRST_READ_INTERVAL: Duration = Duration::from_millis(10);

/// A gate, and the runtime that its store works on.
#[derive(Debug)]
pub struct Embedded {
    gate: Arc<Gate>,
    limits: LimitTable,
    /// The clock that a test controls.
    clock: Option<ManualClock>,
    /// Taken when this is dropped, to stop without waiting.
    runtime: Option<Runtime>,
}

impl Embedded {
    /// Opens a configuration: the text of a file, YAML or JSON. `file` is the name that errors
    /// mention. Waits on this thread until the store can decide: connected, with the script loaded,
    /// and the actions of operators read.
    ///
    /// Fails if the store cannot be used, with one of the sentences that `RedisConnectError` of
    /// `tollgate-redis` lists, after `store: cannot use the store: `. A wrong password, an unknown
    /// host and a refused connection fail within milliseconds, a server that does not answer after
    /// three times `store.connect_timeout`, and anything else after ten seconds.
    pub fn open(text: &str, file: &str) -> Result<Self, OpenError> {
        let config = parse(text, file)?;
        let runtime = runtime()?;

        let gate = runtime.block_on(async {
            let gate = Gate::connect(config, Arc::new(Metrics::default())).await?;
            read_records(&gate).await;
            Ok::<_, OpenError>(gate)
        })?;
        Ok(Self::watching_actions(gate, runtime))
    }

    /// Opens a configuration without a store that can be used, which is connected in the
    /// background: until then, the limits follow their failure policies. Waits half a second at most
    /// for the actions of operators, so that a store that is there admits no blocked key.
    pub fn open_lazy(text: &str, file: &str) -> Result<Self, OpenError> {
        let config = parse(text, file)?;
        let runtime = runtime()?;

        let gate = runtime.block_on(async {
            let gate = Gate::open(config, Arc::new(Metrics::default()))?;
            read_records(&gate).await;
            Ok::<_, OpenError>(gate)
        })?;
        Ok(Self::watching_actions(gate, runtime))
    }

    /// What the operator should know about the store, such as a server that may forget counters.
    pub fn warnings(&self) -> Vec<String> {
        self.gate.warnings()
    }

    /// Asks the store, and calls `done` with the reason why it does not answer; none if it does.
    pub fn store_error(&self, done: impl FnOnce(Option<String>) + Send + 'static) {
        let gate = self.gate.clone();
        self.spawn(async move {
            let answered = gate.sync_actions().await;
            done(answered.err().map(|error| with_causes(&error)));
        });
    }

    fn watching_actions(gate: Gate, runtime: Runtime) -> Self {
        let embedded = Self::new(gate, None, runtime);
        embedded.watch_actions();
        embedded
    }

    /// Opens a configuration in memory, whatever its store, with a clock that moves only by
    /// [`advance`](Self::advance).
    pub fn open_for_tests(text: &str, file: &str) -> Result<Self, OpenError> {
        let config = parse(text, file)?;
        let clock = ManualClock::default();
        let gate = Gate::with_clock(&clock, config);
        Ok(Self::new(gate, Some(clock), runtime()?))
    }

    /// Learns of what operators do through the service on the same store, as its replicas do, until
    /// the runtime ends.
    fn watch_actions(&self) {
        if self.gate.active().decides_in_process() {
            return;
        }
        let gate = self.gate.clone();
        self.spawn(async move {
            let mut pause = FIRST_READ_INTERVAL;
            loop {
                // Without the store, the known actions stay in force.
                if sync_records(&gate).await {
                    pause = ACTIONS_INTERVAL;
                }
                sleep(pause).await;
            }
        });
    }

    fn new(gate: Gate, clock: Option<ManualClock>, runtime: Runtime) -> Self {
        Self {
            gate: Arc::new(gate),
            limits: LimitTable::default(),
            clock,
            runtime: Some(runtime),
        }
    }

    /// Looks up a limit once, for [`try_check`](Self::try_check): the name of a configured limit,
    /// or a limit as a JSON object with the fields of the file.
    pub fn limit(&self, limit: &str) -> Result<LimitId, EmbeddedError> {
        let active = self.gate.active();
        self.limits.add(limit, |limit| active.direct_limit(limit))
    }

    /// Decides about the demands that `ask` adds, all or none, if that needs no waiting: in memory,
    /// from leases or from cached denials. Returns what `read` takes of the decision and of the
    /// status of a block. Otherwise, and if `ask` returns none, this returns none and has charged
    /// nothing: send the request as an operation, which also tells what is wrong with it.
    #[inline]
    pub fn try_check<T>(
        &self,
        ask: impl FnOnce(&mut DirectDemands<'_>) -> Option<()>,
        read: impl FnOnce(&Decision, Option<BlockStatus>) -> T,
    ) -> Result<Option<T>, EmbeddedError> {
        let active = self.gate.active();
        let limits = self.limits.read();
        let mut demands = DirectDemands::new(&active, &limits);
        if ask(&mut demands).is_none() {
            return Ok(None);
        }
        let decided = self.gate.try_decide(&active, demands.as_slice(), read);
        Ok(decided?)
    }

    /// Carries out the operations of a body of `POST /v1/batch`, and calls `done` with the status
    /// and the body of the response, on a thread of the runtime.
    pub fn batch(&self, body: String, done: impl FnOnce(u16, String) + Send + 'static) {
        let gate = self.gate.clone();
        self.spawn(async move {
            let active = gate.active();
            let context = ApiContext {
                gate: &gate,
                active: &active,
                caller: Caller::ANYONE,
                origin: RequestOrigin::UNKNOWN,
            };
            match api::batch(context, body.as_bytes()).await {
                Ok(answer) => done(answer.status.as_u16(), answer.body.into_owned()),
                Err(error) => done(error.status.as_u16(), error.problem().to_json()),
            }
        });
    }

    /// Returns leased units, so that other instances can use them, and then calls `done`.
    pub fn return_leases(&self, done: impl FnOnce(Result<(), EmbeddedError>) + Send + 'static) {
        let gate = self.gate.clone();
        self.spawn(async move {
            let returned = gate.return_leases().await;
            done(returned.map_err(EmbeddedError::from));
        });
    }

    /// Moves the clock of [`open_for_tests`](Self::open_for_tests).
    pub fn advance(&self, length: Duration) -> Result<(), EmbeddedError> {
        let clock = self.clock.as_ref().ok_or(EmbeddedError::SystemClock)?;
        clock.advance(length);
        Ok(())
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(task);
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Reads the actions that are in force before the first request, so that a restart undoes none of
/// them, and the key of tokens, so that none is withheld.
async fn read_records(gate: &Gate) {
    if gate.active().decides_in_process() {
        return;
    }
    let read = async {
        while !sync_records(gate).await {
            sleep(FIRST_READ_INTERVAL).await;
        }
    };
    drop(timeout(RECORDS_TIMEOUT, read).await);
}

/// Reads the actions and the key of tokens. Returns whether the store has answered.
async fn sync_records(gate: &Gate) -> bool {
    let (actions, keys) = tokio::join!(gate.sync_actions(), gate.sync_sealing_keys());
    actions.is_ok() && keys.is_ok()
}

/// An error with everything that caused it, in one line.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let reason = inner.to_string();
        // Some errors already show their cause.
        if !text.contains(&reason) {
            text.extend([": ", &reason]);
        }
        cause = inner.source();
    }
    text
}

fn parse(text: &str, file: &str) -> Result<Config, OpenError> {
    let variable = |name: &str| std::env::var(name).ok();
    Ok(Config::parse(text, file, &variable)?)
}

/// One thread is enough: it only moves bytes to and from the store.
fn runtime() -> Result<Runtime, OpenError> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("tollgate")
        .enable_all()
        .build();
    runtime.map_err(OpenError::Runtime)
}

#[cfg(test)]
mod tests;
