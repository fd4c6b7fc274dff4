//! Reading a configuration from a file or standard input, for the commands. It is validated as by
//! the service at its start, but no server is contacted.

use std::path::Path;

use tollgate_redis::Endpoint;
use tollgate_rules::Config;
use tollgate_rules::config::{Diagnostic, RedisTopology, StoreConfig};

use super::terminal::plain;
use crate::gate::OpenStore;

/// The file name of standard input in diagnostics.
const STDIN_NAME: &str = "<stdin>";

/// The mistakes in a configuration.
#[derive(Debug)]
pub(super) struct InvalidConfigError {
    pub(super) diagnostics: Vec<Diagnostic>,
    /// How many further diagnostics were left out.
    pub(super) more: usize,
}

/// One diagnostic per line.
impl std::fmt::Display for InvalidConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, diagnostic) in self.diagnostics.iter().enumerate() {
            let line = plain(&diagnostic.to_string());
            write!(f, "{}{line}", if index == 0 { "" } else { "\n" })?;
        }

        if self.more > 0 {
            write!(f, "\nand {} more", self.more)
        } else {
            Ok(())
        }
    }
}

/// The name of a file in messages; `-` is standard input.
pub(super) fn name(file: &Path) -> String {
    if is_stdin(file) {
        STDIN_NAME.to_owned()
    } else {
        file.display().to_string()
    }
}

/// Reads and validates the configuration in a file; `-` is standard input.
pub(super) fn read(file: &Path) -> Result<Config, InvalidConfigError> {
    let env = |name: &str| std::env::var(name).ok();
    let read = if is_stdin(file) {
        Config::read_from(std::io::stdin().lock(), STDIN_NAME, &env)
    } else {
        Config::read(file, &env)
    };
    let config = read.map_err(|error| InvalidConfigError {
        diagnostics: error.iter().cloned().collect(),
        more: error.more(),
    })?;

    let diagnostics = store_diagnostics(&config);
    if diagnostics.is_empty() {
        Ok(config)
    } else {
        Err(InvalidConfigError {
            diagnostics,
            more: 0,
        })
    }
}

/// Whether a file is standard input.
pub(super) fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// The mistakes in the store section: of single endpoints, or else of all endpoints together. No
/// message contains a password.
fn store_diagnostics(config: &Config) -> Vec<Diagnostic> {
    let StoreConfig::Redis(redis) = &config.store else {
        return Vec::new();
    };

    let diagnostics = redis
        .endpoints
        .iter()
        .enumerate()
        .filter_map(|(index, url)| {
            let error = url.parse::<Endpoint>().err()?;
            Some(
                config
                    .source_map
                    .diagnostic(&format!("store.endpoints[{index}]"), error),
            )
        });
    let diagnostics: Vec<Diagnostic> = diagnostics.collect();
    if !diagnostics.is_empty() {
        return diagnostics;
    }

    let together = OpenStore::validate(&config.store).err();
    together
        .map(|error| config.source_map.diagnostic("store", error))
        .into_iter()
        .collect()
}

/// A short description of the store, without secrets.
pub(super) fn describe_store(config: &Config) -> String {
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

/// The type of the store, as in the configuration.
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
