//! Opens the store that a configuration describes.

use std::time::Duration;

use tollgate::limiter::LimiterBuilder;
use tollgate::memory::Evictions;
use tollgate::{LimitName, Limiter, MemoryStore};
use tollgate_redis::{RedisBuilder, RedisConfigError, RedisStore};
use tollgate_rules::config::{RedisConfig, RedisTopology, StoreConfig};

/// The store of the active configuration.
#[derive(Clone, Debug)]
pub(crate) enum OpenStore {
    Memory(MemoryStore),
    Redis(RedisStore),
}

/// The store cannot be opened with the configured settings.
#[derive(Debug, thiserror::Error)]
#[error("store: {0}")]
pub(crate) struct StoreOpenError(#[from] RedisConfigError);

impl OpenStore {
    pub(crate) fn open(config: &StoreConfig) -> Result<Self, StoreOpenError> {
        match config {
            StoreConfig::Memory { keys_max } => Ok(Self::Memory(
                MemoryStore::builder().keys_max(*keys_max).build(),
            )),
            StoreConfig::Redis(redis) => Ok(Self::Redis(redis_builder(redis).build()?)),
        }
    }

    /// Validates the settings of a store without connecting to it.
    pub(crate) fn validate(config: &StoreConfig) -> Result<(), RedisConfigError> {
        match config {
            StoreConfig::Memory { .. } => Ok(()),
            StoreConfig::Redis(redis) => redis_builder(redis).validate(),
        }
    }

    /// A builder of limiters on this store.
    pub(super) fn limiter(&self) -> LimiterBuilder {
        match self {
            Self::Memory(store) => Limiter::builder().store(store.clone()),
            Self::Redis(store) => Limiter::builder().store(store.clone()),
        }
    }

    /// True when a decision never has to wait: the counters are in this process.
    pub(crate) const fn is_in_process(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    /// Waits until the store is available, at most for `timeout`.
    pub(crate) async fn wait_until_ready(&self, timeout: Duration) {
        if let Self::Redis(store) = self {
            store.ready(timeout).await;
        }
    }

    /// True when every server of the store can be reached.
    pub(crate) fn is_up(&self) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::Redis(store) => store.is_ready(),
        }
    }

    /// How many calls the store has answered without an error. Calls to a store in memory are not
    /// counted.
    pub(super) fn replies(&self) -> u64 {
        match self {
            Self::Memory(_) => 0,
            Self::Redis(store) => store.replies(),
        }
    }

    /// The number of keys held in memory: counters of a memory store, or keys of Redis that this
    /// replica holds a lease or a cached denial for.
    pub(crate) fn keys(&self) -> usize {
        match self {
            Self::Memory(store) => store.keys(),
            Self::Redis(store) => store.stats().leased_keys,
        }
    }

    /// How many counters each limit has lost to the cap of a memory store; nothing for Redis, which
    /// reports its own evictions.
    pub(crate) fn evictions(&self) -> Option<Vec<(Option<LimitName>, Evictions)>> {
        match self {
            Self::Memory(store) => Some(store.evictions()),
            Self::Redis(_) => None,
        }
    }

    /// The store's type as written in the configuration.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Redis(_) => "redis",
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
        .connect_timeout(config.connect_timeout)
        .max_retries(config.max_retries)
}
