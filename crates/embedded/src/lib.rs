//! Tollgate in the process of an application that is written in another language.
//!
//! A binding needs three things: open a configuration, decide without waiting, and carry out
//! everything else as the service would. [`Embedded`] owns the runtime for it, so that a binding is
//! a thin layer of types. Operations are the JSON texts of `POST /v1/batch`: what a program sends to
//! the service, it can ask in its own process.

mod demands;
mod error;
mod limits;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
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

/// How long [`Embedded::open`] waits at most for a store and for the actions of operators. It goes on
/// without them: the limits follow their failure policies until the store is there.
const READY_TIMEOUT: Duration = Duration::from_millis(500);

/// How often the store is asked for the actions of operators.
const ACTIONS_INTERVAL: Duration = Duration::from_millis(250);

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
    /// Opens the store of a configuration: the text of a file, YAML or JSON. `file` is the name
    /// that errors mention.
    pub fn open(text: &str, file: &str) -> Result<Self, OpenError> {
        let config = parse(text, file)?;
        let runtime = runtime()?;

        let gate = {
            let _context = runtime.enter();
            Gate::open(config, Arc::new(Metrics::default()))?
        };
        runtime.block_on(prepare(&gate));
        let embedded = Self::new(gate, None, runtime);
        embedded.watch_actions();
        Ok(embedded)
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
            loop {
                tokio::time::sleep(ACTIONS_INTERVAL).await;
                // Without the store, the known actions stay in force.
                drop(gate.sync_actions().await);
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

/// Waits for the store, and reads the actions that are in force before the first request, so that a
/// restart undoes none of them.
async fn prepare(gate: &Gate) {
    let ready = async {
        gate.wait_until_ready(READY_TIMEOUT).await;
        if !gate.active().decides_in_process() {
            drop(gate.sync_actions().await);
        }
    };
    drop(timeout(READY_TIMEOUT, ready).await);
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
