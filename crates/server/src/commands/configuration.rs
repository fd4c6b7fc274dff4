//! A configuration as the commands want it: read from a file or standard input, and judged as far
//! as the service would judge it at its start, without reaching for any server.

use std::path::Path;

use tollgate_redis::Endpoint;
use tollgate_rules::Config;
use tollgate_rules::config::{Diagnostic, RedisTopology, StoreConfig};

use super::terminal::plain;
use crate::gate::OpenStore;

/// What faults call standard input.
const STDIN_NAME: &str = "<stdin>";

/// Everything that is wrong with a configuration.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) faults: Vec<Diagnostic>,
    /// How many more there are than are told.
    pub(super) more: usize,
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            let line = plain(&fault.to_string());
            write!(f, "{}{line}", if index == 0 { "" } else { "\n" })?;
        }
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)
        } else {
            Ok(())
        }
    }
}

/// What a file is called: `-` is standard input.
pub(super) fn name(file: &Path) -> String {
    if is_stdin(file) {
        STDIN_NAME.to_owned()
    } else {
        file.display().to_string()
    }
}

/// The configuration in a file, or on standard input for `-`, if it is right in every respect that
/// can be known here.
pub(super) fn read(file: &Path) -> Result<Config, Wrong> {
    let env = |name: &str| std::env::var(name).ok();
    let read = if is_stdin(file) {
        Config::read_from(std::io::stdin().lock(), STDIN_NAME, &env)
    } else {
        Config::read(file, &env)
    };
    let config = read.map_err(|faults| Wrong {
        faults: faults.iter().cloned().collect(),
        more: faults.more(),
    })?;
    let faults = store_faults(&config);
    if faults.is_empty() {
        Ok(config)
    } else {
        Err(Wrong { faults, more: 0 })
    }
}

/// Whether a file is standard input.
pub(super) fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Each endpoint that is wrong, or else what is wrong with them together. No message repeats a
/// password.
fn store_faults(config: &Config) -> Vec<Diagnostic> {
    let StoreConfig::Redis(redis) = &config.store else {
        return Vec::new();
    };
    let wrong = redis
        .endpoints
        .iter()
        .enumerate()
        .filter_map(|(index, url)| {
            let error = url.parse::<Endpoint>().err()?;
            Some(
                config
                    .places
                    .fault(&format!("store.endpoints[{index}]"), error),
            )
        });
    let faults: Vec<Diagnostic> = wrong.collect();
    if !faults.is_empty() {
        return faults;
    }
    let together = OpenStore::check(&config.store).err();
    together
        .map(|error| config.places.fault("store", error))
        .into_iter()
        .collect()
}

/// Where counters live, in a few words and without any secret.
pub(super) fn store_words(config: &Config) -> String {
    match &config.store {
        StoreConfig::Memory { keys_max } => format!("memory (at most {keys_max} counters)"),
        StoreConfig::Redis(redis) => {
            let count = redis.endpoints.len();
            let endpoints = if count == 1 {
                "1 endpoint".to_owned()
            } else {
                format!("{count} endpoints")
            };
            format!(
                "{} ({endpoints}, prefix {:?})",
                store_type(config),
                redis.prefix
            )
        }
    }
}

/// The store's type, as in a configuration.
pub(super) const fn store_type(config: &Config) -> &'static str {
    match &config.store {
        StoreConfig::Memory { .. } => "memory",
        StoreConfig::Redis(redis) => match redis.topology {
            RedisTopology::Standalone => "redis",
            RedisTopology::Sentinel { .. } => "redis-sentinel",
            RedisTopology::Cluster => "redis-cluster",
        },
    }
}
