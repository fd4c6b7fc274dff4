//! What operators and the life of the process need from limiter and store, besides decisions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tollgate::memory::Evictions;
use tollgate::{Health, LimitName};

use super::active::DecideError;
use super::gate::Gate;
use super::records::SharedRecords;
use super::snapshot_file::SnapshotState;
use super::store::{OpenStore, StoreOpenError};

/// The state of the store at one moment.
#[derive(Clone, Debug)]
pub struct StoreState {
    /// The store's type as written in the configuration.
    pub kind: &'static str,
    /// True when every server of the store can be reached.
    pub is_up: bool,
    /// Counters in the memory of this process: those of a memory store and of `local` limits, or
    /// keys of Redis that this replica holds a lease or a cached denial for.
    pub keys: usize,
    /// Keys that the servers of a shared store have evicted; 0 for the memory store.
    pub evicted_keys: u64,
    /// How the store has behaved so far.
    pub health: Health,
    /// The file in which the counters are saved, if they are, and how that went so far.
    pub snapshot: Option<(PathBuf, SnapshotState)>,
}

/// What is known about the store without a call to it.
#[derive(Clone, Copy, Debug)]
pub struct StoreSigns {
    /// True when every server of the store can be reached.
    pub is_up: bool,
    /// True while limits use their failure policies.
    pub is_degraded: bool,
    /// How many calls the store has answered without an error.
    pub replies: u64,
}

impl Gate {
    /// The records that the replicas on the store share. A reload may replace them together with
    /// the store.
    pub fn records(&self) -> SharedRecords {
        self.active().records().clone()
    }

    /// The state of the store.
    pub fn store_state(&self) -> StoreState {
        let active = self.active();
        let snapshot = active.store.snapshot();
        StoreState {
            kind: active.store.kind(),
            is_up: active.store.is_up(),
            keys: active.store.keys() + active.limiter.local_keys(),
            evicted_keys: active.store.evicted_keys(),
            health: active.limiter.health(),
            snapshot: snapshot.map(|snapshot| (snapshot.path().to_owned(), snapshot.state())),
        }
    }

    /// What the operator should know about the active configuration and its store: texts for
    /// people, which change from version to version.
    pub fn warnings(&self) -> Vec<String> {
        let active = self.active();
        let configured = active.config.warnings.iter().cloned();
        let forward_auth = active.forward_auth_warnings().cloned();
        let actions_file = self.actions_file.get().and_then(|file| file.warning());
        configured
            .chain(forward_auth)
            .chain(actions_file)
            .chain(active.store.warnings())
            .collect()
    }

    /// How often the counters are to be saved; none if they are not.
    pub fn snapshot_interval(&self) -> Option<Duration> {
        let active = self.active();
        active.config.store.snapshot().map(|config| config.interval)
    }

    /// Saves the counters of the memory store, if a snapshot is configured, and records the
    /// result. Works in a thread of its own, which no decision waits for.
    pub async fn save_snapshot(&self) {
        let active = self.active();
        let OpenStore::Memory {
            store,
            snapshot: Some(snapshot),
        } = &active.store
        else {
            return;
        };

        let (store, file) = (store.clone(), snapshot.clone());
        let saved = tokio::task::spawn_blocking(move || file.save(&store)).await;
        // Saving does not panic; the thread is missing only when the runtime shuts down.
        if let Ok(saved) = saved {
            snapshot.record(saved, self.now());
        }
    }

    /// What is known about the store without a call to it.
    pub fn store_signs(&self) -> StoreSigns {
        let active = self.active();
        StoreSigns {
            is_up: active.store.is_up(),
            is_degraded: active.limiter.health().degraded,
            replies: active.store.replies(),
        }
    }

    /// How many counters each configured limit has lost to the cap of a memory store, and without a
    /// name those of all other limits, if they have lost any.
    pub fn evictions(&self) -> Vec<(Option<LimitName>, Evictions)> {
        let active = self.active();
        let Some(evictions) = active.store.evictions() else {
            return Vec::new();
        };

        let configured = active.config.limits.iter().map(|limit| *limit.rule.name());
        let none = Evictions::default();
        let mut limits: BTreeMap<_, _> = configured.map(|name| (Some(name), none)).collect();
        for (limit, evictions) in evictions {
            let limit = limit.filter(|name| limits.contains_key(&Some(*name)));
            if limit.is_some() || evictions != none {
                *limits.entry(limit).or_default() += evictions;
            }
        }
        limits.into_iter().collect()
    }

    /// How the store has behaved so far.
    pub fn health(&self) -> Health {
        self.active().limiter.health()
    }

    /// Waits until the store can decide, at most for `timeout`. Fails if this version must not use
    /// it.
    pub async fn wait_until_ready(&self, timeout: Duration) -> Result<(), StoreOpenError> {
        self.active().store.wait_until_ready(timeout).await
    }

    /// Sends the store a call, so that an outage, and its end, are noticed even while there is no
    /// traffic.
    pub async fn probe(&self) {
        self.active().probe().await;
    }

    /// Returns leased units that this replica will not use, so that other replicas can.
    pub async fn return_leases(&self) -> Result<(), DecideError> {
        Ok(self.active().limiter.return_leases().await?)
    }
}
