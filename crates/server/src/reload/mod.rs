//! Replacing the configuration while requests are being decided: read, check, swap. A bad one
//! changes nothing.

mod file_watch;

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate::Micros;
use tollgate_rules::Config;
use tollgate_rules::config::ConfigError;

pub(crate) use file_watch::watch;

use self::file_watch::Look;
use crate::gate::{Gate, StoreOpenError};

/// Knows where the configuration comes from, and what became of it.
#[derive(Debug)]
pub(crate) struct Reloader {
    gate: Arc<Gate>,
    /// None when the built-in configuration is in force.
    file: Option<PathBuf>,
    /// How the file stood at the start, before anyone was told that the service runs.
    first: Option<Look>,
    state: Mutex<ReloadStatus>,
    /// One at a time, so that the newest is the last.
    turn: tokio::sync::Mutex<()>,
}

/// What became of the configuration so far.
#[derive(Clone, Debug)]
pub(crate) struct ReloadStatus {
    /// When the one in force was put there.
    pub(crate) at: Micros,
    /// How often another was put in force.
    pub(crate) done: u64,
    /// How often another was refused.
    pub(crate) refused: u64,
    /// Why the last one was refused, if it was, and when.
    pub(crate) error: Option<(Micros, String)>,
}

/// Why the configuration stays as it is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigReloadError {
    #[error(
        "the service was started without a configuration file, so there is nothing to read again"
    )]
    NoFile,
    #[error("{0}")]
    ConfigError(ConfigError),
    #[error(transparent)]
    Store(#[from] StoreOpenError),
}

impl Reloader {
    pub(crate) fn new(gate: Arc<Gate>, file: Option<PathBuf>) -> Self {
        let at = gate.now();
        let state = Mutex::new(ReloadStatus {
            at,
            done: 0,
            refused: 0,
            error: None,
        });
        let first = file.as_deref().and_then(Look::at);
        Self {
            gate,
            file,
            first,
            state,
            turn: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) fn file(&self) -> Option<&PathBuf> {
        self.file.as_ref()
    }

    pub(crate) fn reloads(&self) -> ReloadStatus {
        self.state.lock().clone()
    }

    /// Reads the file again and puts it in force, if it is right.
    pub(crate) async fn reload(&self) -> Result<(), ConfigReloadError> {
        let Some(file) = self.file.clone() else {
            return Err(ConfigReloadError::NoFile);
        };
        let _turn = self.turn.lock().await;
        let read = tokio::task::spawn_blocking(move || read(&file)).await;
        let read = read.expect("reading a configuration does not panic");
        let replaced = read
            .map_err(ConfigReloadError::ConfigError)
            .and_then(|config| {
                tell_notes(&config);
                self.gate.replace(config).map_err(ConfigReloadError::from)
            });
        let now = self.gate.now();
        let mut state = self.state.lock();
        match &replaced {
            Ok(()) => {
                state.at = now;
                state.done += 1;
                state.error = None;
                tracing::info!(
                    limits = self.gate.active().config.limits.len(),
                    "the configuration was replaced"
                );
            }
            Err(refused) => {
                state.refused += 1;
                state.error = Some((now, refused.to_string()));
                tracing::error!(error = %refused, "the configuration was refused; the old one stays in force");
            }
        }
        replaced
    }
}

/// Reads a configuration with the variables of the environment.
pub(crate) fn read(file: &std::path::Path) -> Result<Config, ConfigError> {
    Config::read(file, &|name| std::env::var(name).ok())
}

/// Says what is right in a configuration and yet worth knowing.
pub(crate) fn tell_notes(config: &Config) {
    for note in &config.notes {
        tracing::warn!("{note}");
    }
}
