//! The store that a configuration describes, made.

use std::time::Duration;

use tollgate::limiter::LimiterBuilder;
use tollgate::{Limiter, MemoryStore};
use tollgate_redis::{RedisBuilder, RedisConfigError, RedisStore};
use tollgate_rules::config::{RedisConfig, RedisTopology, StoreConfig};

/// The store in use.
#[derive(Clone, Debug)]
pub(crate) enum OpenStore {
    Memory(MemoryStore),
    Redis(RedisStore),
}

/// The store cannot be used as configured.
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

    /// What is wrong with a description, without opening anything: no server is asked.
    pub(crate) fn check(config: &StoreConfig) -> Result<(), RedisConfigError> {
        match config {
            StoreConfig::Memory { .. } => Ok(()),
            StoreConfig::Redis(redis) => redis_builder(redis).check(),
        }
    }

    /// A limiter on it.
    pub(super) fn limiter(&self) -> LimiterBuilder {
        match self {
            Self::Memory(store) => Limiter::builder().store(store.clone()),
            Self::Redis(store) => Limiter::builder().store(store.clone()),
        }
    }

    /// True when no answer has to be waited for.
    pub(crate) const fn answers_at_once(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    /// Waits for the store to answer, at most so long; false when it did not.
    pub(crate) async fn ready(&self, patience: Duration) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::Redis(store) => store.ready(patience).await,
        }
    }

    /// Whether all of it can be asked now.
    pub(crate) fn is_up(&self) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::Redis(store) => {
                let stats = store.stats();
                stats.servers > 0 && stats.up == stats.servers
            }
        }
    }

    /// Counters kept in this process, and counters elsewhere of which it holds or knows something.
    pub(crate) fn keys(&self) -> usize {
        match self {
            Self::Memory(store) => store.keys(),
            Self::Redis(store) => store.stats().leased_keys,
        }
    }

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
