//! The validated configuration, and the reader that produces it.
//!
//! 1. `yaml` parses the text into a tree whose nodes know their positions.
//! 2. `variables` expands `${VAR}` in the values.
//! 3. The readers of the sections turn fields into typed values, which make up a [`Config`].
//!
//! Reading continues after an error. All errors are collected in one place, so that a user can fix
//! a whole file in one go.

mod clients;
mod diagnostic;
mod field;
mod field_map;
mod limits;
mod load;
mod monitoring;
mod names;
mod path;
mod scalar;
mod server;
mod store;
#[cfg(test)]
mod tests;
mod tiers;
mod values;
mod variables;
mod yaml;

use std::num::NonZeroU32;
use std::time::Duration;

use tollgate::KeyHasher;
use tollgate::headers::EnabledFields;
use tollgate_subject::ClientResolver;

pub use self::diagnostic::{ConfigError, Diagnostic, SourceMap};
use crate::attribute::Attribute;
use crate::limit::LimitConfig;

/// A validated configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The store that holds the counters.
    pub store: StoreConfig,
    /// The number of replicas that share the store.
    pub expected_replicas: NonZeroU32,
    /// Determines and groups client addresses.
    pub clients: ClientResolver,
    /// The attributes to hash. `None` if none is hashed.
    pub hashing: Option<HashConfig>,
    /// The limits, in file order.
    pub limits: Vec<LimitConfig>,
    /// The rate limit headers of a response.
    pub headers: EnabledFields,
    /// Metrics, alerts and tracing.
    pub monitoring: MonitoringConfig,
    /// The resource limits of the server.
    pub server: ServerLimits,
    /// Remarks about valid settings that probably do not do what the user expects. Each starts with
    /// its file, line and column.
    pub notes: Vec<String>,
    /// The positions of the store's fields, which are validated again when the store is created.
    pub source_map: SourceMap,
}

/// Parses a duration as written in a configuration. The error is a phrase such as
/// "expected a number with a unit".
///
/// ```
/// use std::time::Duration;
/// use tollgate_rules::config::parse_duration;
///
/// assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
/// assert_eq!(parse_duration("5").unwrap_err(), "the unit is missing; write 5s or 5ms");
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    values::duration(text)
        .map_err(|error| error.suggestion.unwrap_or_else(|| error.reason.to_owned()))
}

/// The store that holds the counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreConfig {
    /// The memory of this process.
    Memory {
        /// The maximum number of counters to keep.
        keys_max: usize,
    },
    /// Redis or Valkey.
    Redis(RedisConfig),
}

/// How to connect to Redis or Valkey. The endpoints may contain a password, so `Debug` omits them.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisConfig {
    /// Whether the endpoints are one server, Sentinels or a cluster.
    pub topology: RedisTopology,
    /// The URLs of the servers.
    pub endpoints: Vec<String>,
    /// The prefix of every key.
    pub prefix: String,
    /// How long a decision may wait for the store.
    pub timeout: Duration,
    /// How long connecting to a server may take.
    pub connect_timeout: Duration,
    /// How often a call is retried if it certainly was not executed.
    pub max_retries: u32,
}

/// The kind of deployment that the endpoints belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisTopology {
    /// A single server.
    Standalone,
    /// Sentinels, which name the primary.
    Sentinel {
        /// The name of the monitored group.
        master: String,
    },
    /// Some members of a cluster.
    Cluster,
}

/// Attributes that are stored and displayed only as keyed hashes.
#[derive(Clone, Debug)]
pub struct HashConfig {
    /// The attributes to hash.
    pub attributes: Vec<Attribute>,
    /// The hasher with the configured secret.
    pub hasher: KeyHasher,
}

/// Metrics, alerts and tracing.
#[derive(Clone, Debug, PartialEq)]
pub struct MonitoringConfig {
    /// The prefix of every metric name.
    pub metrics_prefix: String,
    /// Warn when this fraction of a limit's requests is denied. `None` disables the warning.
    pub deny_ratio: Option<f64>,
    /// Warn when the 99th percentile of the decision latency exceeds this. `None` disables the
    /// warning.
    pub latency_p99: Option<Duration>,
    /// Where to export traces. `None` disables tracing.
    pub tracing: Option<TracingConfig>,
}

/// Where to export traces. The URL may contain a password, so `Debug` omits it.
#[derive(Clone, PartialEq)]
pub struct TracingConfig {
    /// The URL of an OTLP collector.
    pub otlp_endpoint: String,
    /// The fraction of requests to trace, from 0 to 1.
    pub sample_ratio: f64,
}

/// The resource limits of the server. They keep one client from exhausting what all clients need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// The maximum number of open connections.
    pub connections_max: usize,
    /// The maximum size of a request body, in bytes.
    pub body_max: usize,
    /// How long a client may take to send the headers of a request, and again for its body.
    pub header_timeout: Duration,
    /// How long a connection may stay open without a request.
    pub idle_timeout: Duration,
    /// How long requests in flight may take to finish during shutdown.
    pub drain_timeout: Duration,
    /// The maximum number of requests in flight.
    pub in_flight_max: usize,
}

impl std::fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisConfig")
            .field("topology", &self.topology)
            .field("endpoints", &self.endpoints.len())
            .field("prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for TracingConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TracingConfig")
            .field("sample_ratio", &self.sample_ratio)
            .finish_non_exhaustive()
    }
}
