//! The configuration, checked.
//!
//! text -> tree (YAML with places) -> variables settled -> fields read as what they should be ->
//! [`Config`]. Whatever is wrong on the way goes to one log, so that a file is mended in one go.

mod fault;
mod field;
mod limits;
mod load;
mod path;
mod server;
mod store;
mod subjects;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod tiers;
mod tree;
mod values;
mod variables;
mod watch;
mod words;

use std::num::NonZeroU32;
use std::time::Duration;

use tollgate::KeyHasher;
use tollgate::headers::Fields;
use tollgate_subject::ClientResolver;

pub use self::fault::{ConfigError, Diagnostic, SourceMap};
use crate::attribute::Attribute;
use crate::rule::LimitConfig;

/// Everything a configuration says. Whoever holds one need not check it again.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where counters live.
    pub store: StoreConfig,
    /// How many processes share the store.
    pub expected_replicas: NonZeroU32,
    /// How the client's address is found and grouped.
    pub clients: ClientResolver,
    /// Which attributes are known by their hash alone.
    pub hashing: Option<HashConfig>,
    /// The limits, in the order of the file.
    pub limits: Vec<LimitConfig>,
    /// Which header fields an answer has.
    pub headers: Fields,
    /// What is measured and warned of.
    pub monitoring: MonitoringConfig,
    /// The bounds of the service.
    pub server: ServerLimits,
    /// What is right and yet worth telling, each with the line that it is about.
    pub notes: Vec<String>,
    /// Where the store's values stand, which are judged when it is made.
    pub places: SourceMap,
}

/// A length of time as a configuration writes it, or what would be right.
///
/// ```
/// use std::time::Duration;
/// use tollgate_rules::config::length;
///
/// assert_eq!(length("250ms"), Ok(Duration::from_millis(250)));
/// assert_eq!(length("5").unwrap_err(), "write a unit, as in 5s or 5ms");
/// ```
pub fn length(text: &str) -> Result<Duration, String> {
    values::duration(text).map_err(|wrong| match wrong.meant {
        Some(meant) => format!("write {meant}"),
        None => wrong.right.to_owned(),
    })
}

/// Where counters live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreConfig {
    /// In this process.
    Memory {
        /// The most counters to keep.
        keys_max: usize,
    },
    /// In Redis or Valkey.
    Redis(RedisConfig),
}

/// How to reach Redis or Valkey. Its endpoints may hold a password, so it does not show them.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisConfig {
    /// One server, Sentinels or a cluster.
    pub topology: RedisTopology,
    /// URLs.
    pub endpoints: Vec<String>,
    /// What every key begins with.
    pub prefix: String,
    /// How long a decision may wait.
    pub timeout: Duration,
    /// How long reaching a server may take.
    pub connect_timeout: Duration,
    /// How often an attempt that certainly did not run is made again.
    pub max_retries: u32,
}

/// What the endpoints are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisTopology {
    /// One server.
    Standalone,
    /// Sentinels, and the name of the group they watch.
    Sentinel {
        /// The group.
        master: String,
    },
    /// Members of a cluster.
    Cluster,
}

/// Attributes that are known by their keyed hash alone.
#[derive(Clone, Debug)]
pub struct HashConfig {
    /// Which.
    pub attributes: Vec<Attribute>,
    /// With which secret.
    pub hasher: KeyHasher,
}

/// What is measured and warned of.
#[derive(Clone, Debug, PartialEq)]
pub struct MonitoringConfig {
    /// What every metric's name begins with.
    pub metrics_prefix: String,
    /// Warn when this part of a limit's requests is refused.
    pub deny_ratio: Option<f64>,
    /// Warn when one decision in a hundred takes longer than this.
    pub latency_p99: Option<Duration>,
    /// Where spans are sent.
    pub tracing: Option<TracingConfig>,
}

/// Where spans are sent. The URL may hold a password, so it is not shown.
#[derive(Clone, PartialEq)]
pub struct TracingConfig {
    /// The URL of a collector that speaks OTLP.
    pub otlp_endpoint: String,
    /// Which part of the requests is traced, from 0 to 1.
    pub sample_ratio: f64,
}

/// The bounds of the service, so that no client can use up what all need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// The most connections at once.
    pub connections_max: usize,
    /// The longest body of a request, in bytes.
    pub body_max: usize,
    /// How long a client may take to send its headers.
    pub header_timeout: Duration,
    /// How long a connection may stay without a request.
    pub idle_timeout: Duration,
    /// How long requests under way may take to end when the service stops.
    pub drain_timeout: Duration,
    /// The most requests at once.
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
