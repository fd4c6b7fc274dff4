//! Reading a configuration from a file or standard input, for the commands. It is validated as by
//! the service at its start, but no server is contacted.

use std::path::Path;

use tollgate_gate::OpenStore;
use tollgate_redis::Endpoint;
use tollgate_rules::config::{ConfigError, Diagnostic, RedisTopology, StoreConfig};
use tollgate_rules::{Config, Selector};

use super::numbers::counted;
use super::outcome::{CommandError, invalid};
use super::terminal::plain;
use crate::reload::TlsSettings;

/// The file name of standard input in diagnostics.
const STDIN_NAME: &str = "<stdin>";

/// The mistakes in a configuration.
#[derive(Debug)]
pub(super) struct InvalidConfigError {
    pub(super) diagnostics: Vec<Diagnostic>,
    /// How many further diagnostics were left out.
    pub(super) more: usize,
}

impl InvalidConfigError {
    /// One diagnostic per line.
    pub(super) fn lines(&self) -> String {
        let diagnostics = self.diagnostics.iter();
        let more = (self.more > 0).then(|| format!("and {} more", self.more));
        let lines = diagnostics.map(|diagnostic| plain(&diagnostic.to_string()));
        lines.chain(more).collect::<Vec<_>>().join("\n")
    }
}

impl From<InvalidConfigError> for CommandError {
    fn from(error: InvalidConfigError) -> Self {
        invalid(format!("invalid configuration:\n{}", error.lines()))
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
    with_store(read)
}

/// Validates the text of a configuration that has no variables. `name` is its name in diagnostics.
pub(super) fn parse(text: &str, name: &str) -> Result<Config, InvalidConfigError> {
    with_store(Config::parse(text, name, &|_| None))
}

/// Also validates what the store needs of a configuration.
fn with_store(read: Result<Config, ConfigError>) -> Result<Config, InvalidConfigError> {
    let config = read.map_err(|error| InvalidConfigError {
        diagnostics: error.iter().cloned().collect(),
        more: error.more(),
    })?;

    let diagnostics = store_diagnostics(&config);
    if !diagnostics.is_empty() {
        let more = 0;
        return Err(InvalidConfigError { diagnostics, more });
    }
    Ok(config)
}

/// Like [`read`], and also validates the files that the configuration names. Only the machine that
/// runs the service needs to have them.
pub(super) fn read_with_files(file: &Path) -> Result<Config, InvalidConfigError> {
    let config = read(file)?;
    match TlsSettings::read(&config) {
        Ok(_) => Ok(config),
        Err(error) => Err(InvalidConfigError {
            diagnostics: vec![error.0],
            more: 0,
        }),
    }
}

/// Reads the configuration in a file, or the built-in one if there is no file.
pub(super) fn read_or_built_in(file: Option<&Path>) -> Result<Config, InvalidConfigError> {
    file.map_or_else(|| Ok(Config::built_in()), read)
}

/// Fails if a limit is unknown; the error lists the known ones.
pub(super) fn require_limits<'n>(
    selector: &Selector,
    names: impl IntoIterator<Item = &'n String>,
) -> Result<(), CommandError> {
    for name in names {
        selector.limit(name).map_err(invalid)?;
    }
    Ok(())
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

    let source = &config.source_map;
    let endpoint = |(index, url): (usize, &String)| {
        let error = url.parse::<Endpoint>().err()?;
        Some(source.diagnostic(&format!("store.endpoints[{index}]"), error))
    };
    let diagnostics: Vec<_> = redis
        .endpoints
        .iter()
        .enumerate()
        .filter_map(endpoint)
        .collect();
    if !diagnostics.is_empty() {
        return diagnostics;
    }

    let together = OpenStore::validate(&config.store).err();
    let together = together.map(|error| source.diagnostic("store", error));
    together.into_iter().collect()
}

/// A short description of the store, without secrets.
pub(super) fn describe_store(config: &Config) -> String {
    match &config.store {
        StoreConfig::Memory { keys_max, snapshot } => {
            let saved = snapshot.as_ref().map(|snapshot| snapshot.file.display());
            let saved = saved.map(|file| format!(", saved in {file}"));
            let saved = saved.unwrap_or_default();
            format!("memory (at most {keys_max} counters{saved})")
        }
        StoreConfig::Redis(redis) => {
            let endpoints = counted(redis.endpoints.len() as u64, "endpoint");
            let store = store_type(config);
            format!("{store} ({endpoints}, prefix {:?})", redis.prefix)
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
