//! Opens the store that a configuration describes.

use std::sync::Arc;
use std::time::Duration;

use tollgate::limiter::LimiterBuilder;
use tollgate::memory::Evictions;
use tollgate::{Clock, LimitName, Limiter, MemoryStore};
use tollgate_redis::{RedisBuilder, RedisConfigError, RedisConnectError, RedisStore};
use tollgate_rules::config::{RedisConfig, RedisTopology, StoreConfig};

use super::records::SharedRecords;
use super::sealing_keys::{SealingKeys, random_key};
use super::snapshot_file::{SnapshotFile, SnapshotFileError};

/// The store of the active configuration.
#[derive(Clone, Debug)]
pub enum OpenStore {
    /// Counters in this process.
    Memory {
        /// The counters.
        store: MemoryStore,
        /// Where the counters are saved, if they are.
        snapshot: Option<Arc<SnapshotFile>>,
    },
    /// Counters on Redis or Valkey.
    Redis(RedisStore),
}

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    /// The settings of the Redis store are invalid.
    #[error("store: {0}")]
    Redis(#[from] RedisConfigError),
    /// The servers of the Redis store cannot be used.
    #[error("store: {0}")]
    Connect(#[from] RedisConnectError),
    /// The snapshot file cannot be used.
    #[error("store.snapshot: {0}")]
    Snapshot(#[from] SnapshotFileError),
    /// A store with a snapshot cannot be replaced while it is in use.
    #[error(
        "store: cannot be changed while the service runs if the old or the new store has a \
         `snapshot`; restart the service, which saves and restores the counters"
    )]
    NeedsRestart,
}

impl OpenStore {
    /// Opens the store. Redis is connected in the background.
    pub fn open(config: &StoreConfig) -> Result<Self, StoreOpenError> {
        match config {
            StoreConfig::Memory { keys_max, snapshot } => {
                let builder = MemoryStore::builder().keys_max(*keys_max);
                let Some(snapshot) = snapshot else {
                    return Ok(Self::from(builder.build()));
                };

                let (file, store) = SnapshotFile::open(&snapshot.file, builder, *keys_max)?;
                let snapshot = Some(Arc::new(file));
                Ok(Self::Memory { store, snapshot })
            }
            StoreConfig::Redis(redis) => Ok(Self::Redis(redis_builder(redis).build()?)),
        }
    }

    /// Opens the store, and waits until it can decide. Fails if it cannot.
    pub(super) async fn connect(config: &StoreConfig) -> Result<Self, StoreOpenError> {
        match config {
            StoreConfig::Memory { .. } => Self::open(config),
            StoreConfig::Redis(redis) => Ok(Self::Redis(redis_builder(redis).connect().await?)),
        }
    }

    /// Validates the settings of a store without connecting to it.
    pub fn validate(config: &StoreConfig) -> Result<(), RedisConfigError> {
        match config {
            StoreConfig::Memory { .. } => Ok(()),
            StoreConfig::Redis(redis) => redis_builder(redis).validate(),
        }
    }

    /// A builder of limiters on this store.
    pub(super) fn limiter(&self) -> LimiterBuilder {
        match self {
            Self::Memory { store, .. } => Limiter::builder().store(store.clone()),
            Self::Redis(store) => Limiter::builder().store(store.clone()),
        }
    }

    /// The records of the store. Those of a memory store expire by this clock.
    pub(super) fn records(&self, clock: Arc<dyn Clock>) -> SharedRecords {
        match self {
            Self::Memory { .. } => SharedRecords::in_memory(clock),
            Self::Redis(store) => SharedRecords::on_redis(store.clone()),
        }
    }

    /// The keys that seal tokens. Those of a memory store are as durable as its counters.
    pub(super) fn sealing_keys(&self) -> Result<SealingKeys, StoreOpenError> {
        Ok(match self {
            Self::Memory { snapshot, .. } => match snapshot {
                None => SealingKeys::of_process(&random_key()),
                Some(file) => SealingKeys::of_process(&file.sealing_key()?),
            },
            Self::Redis(_) => SealingKeys::of_store(),
        })
    }

    /// True when a decision never has to wait: the counters are in this process.
    pub const fn is_in_process(&self) -> bool {
        matches!(self, Self::Memory { .. })
    }

    /// The store on Redis or Valkey; none if the counters are in this process.
    const fn redis(&self) -> Option<&RedisStore> {
        match self {
            Self::Memory { .. } => None,
            Self::Redis(store) => Some(store),
        }
    }

    /// Waits until the store can decide, at most for `timeout`, and not if it certainly cannot now.
    /// Fails if this version must not use it.
    pub async fn wait_until_ready(&self, timeout: Duration) -> Result<(), StoreOpenError> {
        let Some(store) = self.redis() else {
            return Ok(());
        };
        match store.usable(timeout).await {
            Err(error @ RedisConnectError::OtherLayout { .. }) => Err(error.into()),
            // The first probe logs why it cannot.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// True when every server of the store can be reached.
    pub fn is_up(&self) -> bool {
        self.redis().is_none_or(RedisStore::is_ready)
    }

    /// How many calls the store has answered without an error. Calls to a store in memory are not
    /// counted.
    pub(super) fn replies(&self) -> u64 {
        self.redis().map_or(0, RedisStore::replies)
    }

    /// The number of keys held in memory: counters of a memory store, or keys of Redis that this
    /// replica holds a lease or a cached denial for.
    pub fn keys(&self) -> usize {
        match self {
            Self::Memory { store, .. } => store.keys(),
            Self::Redis(store) => store.stats().leased_keys,
        }
    }

    /// How many counters each limit has lost to the cap of a memory store; nothing for Redis.
    pub fn evictions(&self) -> Option<Vec<(Option<LimitName>, Evictions)>> {
        match self {
            Self::Memory { store, .. } => Some(store.evictions()),
            Self::Redis(_) => None,
        }
    }

    /// The file in which the counters are saved, if they are.
    pub(super) fn snapshot(&self) -> Option<&Arc<SnapshotFile>> {
        match self {
            Self::Memory { snapshot, .. } => snapshot.as_ref(),
            Self::Redis(_) => None,
        }
    }

    /// What the operator should know about the store.
    pub(super) fn warnings(&self) -> Vec<String> {
        match self {
            Self::Memory { snapshot, .. } => {
                let warning = snapshot.as_ref().and_then(|file| file.warning());
                warning.into_iter().collect()
            }
            Self::Redis(store) => store.warnings(),
        }
    }

    /// The number of keys that the servers of a shared store have evicted; 0 for the memory store,
    /// which counts its own [evictions](Self::evictions).
    pub(super) fn evicted_keys(&self) -> u64 {
        self.redis().map_or(0, |store| store.stats().evicted_keys)
    }

    /// The store's type as written in the configuration.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Memory { .. } => "memory",
            Self::Redis(_) => "redis",
        }
    }
}

/// A memory store that is not saved.
impl From<MemoryStore> for OpenStore {
    fn from(store: MemoryStore) -> Self {
        Self::Memory {
            store,
            snapshot: None,
        }
    }
}

fn redis_builder(config: &RedisConfig) -> RedisBuilder {
    let builder = match &config.topology {
        RedisTopology::Standalone => {
            RedisBuilder::standalone(config.endpoints.first().map_or("", String::as_str))
        }
        RedisTopology::Sentinel { master } => RedisBuilder::sentinel(&config.endpoints, master),
        RedisTopology::Cluster => RedisBuilder::cluster(&config.endpoints),
    };

    builder
        .prefix(&config.prefix)
        .timeout(config.timeout)
        .decision_timeout(config.decision_timeout)
        .connect_timeout(config.connect_timeout)
        .max_retries(config.max_retries)
}
