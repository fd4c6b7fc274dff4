//! The gate and its life: opening, and replacing the configuration.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use tollgate::{Clock, ManualClock, Micros, SystemClock};
use tollgate_rules::Config;

use super::actions::ActionLog;
use super::actions_file::ActionsFile;
use super::active::ActiveConfig;
use super::denial::DenialObserver;
use super::store::{OpenStore, StoreOpenError};
use crate::metrics::Metrics;

/// Decides requests by the active configuration, and counts what it decides.
#[derive(Debug)]
pub struct Gate {
    active: ArcSwap<ActiveConfig>,
    pub(super) action_log: ActionLog,
    /// Where the known actions are kept over a restart, if they are.
    pub(super) actions_file: OnceLock<Arc<ActionsFile>>,
    metrics: Arc<Metrics>,
    /// For durations, and for header fields that name a time.
    clock: Arc<dyn Clock>,
    /// Who keeps a record of denials, if denials are recorded.
    pub(super) observer: OnceLock<Arc<dyn DenialObserver>>,
}

impl Gate {
    /// Opens the store that the configuration describes. A shared store is connected in the
    /// background: until it can be used, the limits' failure policies decide. Must be called inside
    /// a Tokio runtime.
    pub fn open(config: Config, metrics: Arc<Metrics>) -> Result<Self, StoreOpenError> {
        let active = ActiveConfig::open(config, &metrics)?;
        Ok(Self::new(active, metrics, Arc::new(SystemClock::new())))
    }

    /// Opens the store that the configuration describes, and waits until it can decide. Fails if a
    /// shared store cannot be used; [`RedisConnectError`](tollgate_redis::RedisConnectError) lists
    /// the reasons. Must be awaited inside a Tokio runtime.
    pub async fn connect(config: Config, metrics: Arc<Metrics>) -> Result<Self, StoreOpenError> {
        let store = OpenStore::connect(&config.store).await?;
        let active = ActiveConfig::on_store(config, store, &metrics)?;
        Ok(Self::new(active, metrics, Arc::new(SystemClock::new())))
    }

    /// A gate that decides in memory, by a clock that a test controls.
    pub fn with_clock(clock: &ManualClock, config: Config) -> Self {
        let metrics = Arc::new(Metrics::default());
        let active = ActiveConfig::with_clock(clock, config, &metrics);
        Self::new(active, metrics, Arc::new(clock.clone()))
    }

    fn new(active: ActiveConfig, metrics: Arc<Metrics>, clock: Arc<dyn Clock>) -> Self {
        Self {
            active: ArcSwap::from_pointee(active),
            action_log: ActionLog::default(),
            actions_file: OnceLock::new(),
            metrics,
            clock,
            observer: OnceLock::new(),
        }
    }

    /// The active configuration.
    pub fn active(&self) -> Arc<ActiveConfig> {
        self.active.load_full()
    }

    /// True when requests must bring a token.
    pub fn requires_token(&self) -> bool {
        self.active.load().requires_token()
    }

    /// Activates another configuration. Limits that are in both keep their counts. Requests in
    /// flight finish with the old configuration.
    pub fn replace(&self, config: Config) -> Result<(), StoreOpenError> {
        let current = self.active.load();
        let next = current.reconfigured(config, &self.metrics)?;
        current.forget_changed_keys(&next);
        self.active.store(Arc::new(next));
        self.rebuild_actions();
        Ok(())
    }

    /// Uses other records from now on, as after a fail-over of the store.
    #[cfg(test)]
    pub(super) fn move_to(&self, clock: &ManualClock, records: &super::records::SharedRecords) {
        let config = self.active.load().config.clone();
        let mut next = ActiveConfig::with_clock(clock, config, &self.metrics);
        next.records = records.clone();
        self.active.store(Arc::new(next));
        self.rebuild_actions();
    }

    /// What is counted of the decisions.
    pub const fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The time since the UNIX epoch.
    pub fn now(&self) -> Micros {
        self.clock.now()
    }

    /// Records denials from now on. Only the first observer is kept.
    pub fn observe_denials(&self, observer: Arc<dyn DenialObserver>) {
        let _ = self.observer.set(observer);
    }
}
