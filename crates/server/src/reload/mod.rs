//! Replaces the configuration while the service runs: read, validate, swap. An invalid file
//! changes nothing.

mod file_version;
mod tls;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate::Micros;
use tollgate_rules::Config;
use tollgate_rules::config::ConfigError;

use self::file_version::FileVersion;
pub(crate) use self::tls::{DataPortTls, TlsFileError, TlsSettings, watch as watch_tls};
use crate::gate::{Gate, StoreOpenError};
use crate::listen::ShutdownSignal;

/// How often the file is polled.
const INTERVAL: Duration = Duration::from_millis(500);

/// Reloads the configuration file and records the results.
#[derive(Debug)]
pub(crate) struct Reloader {
    gate: Arc<Gate>,
    /// None when the built-in configuration is active.
    file: Option<PathBuf>,
    /// The file's version when the service started.
    first_version: Option<FileVersion>,
    tls: Arc<DataPortTls>,
    status: Mutex<ReloadStatus>,
    /// Serialises reloads, so that the last one to finish read the newest file.
    reload_lock: tokio::sync::Mutex<()>,
}

/// The results of reloads so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReloadStatus {
    /// When the active configuration was activated.
    pub(crate) active_since: Micros,
    /// How many reloads activated a new configuration.
    pub(crate) applied: u64,
    /// How many reloads failed.
    pub(crate) failed: u64,
    /// When and why the last reload failed; none if it succeeded.
    pub(crate) last_error: Option<(Micros, String)>,
}

/// Why a reload failed. The old configuration stays active.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigReloadError {
    #[error("nothing to reload: the service was started without a configuration file")]
    NoFile,
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Tls(#[from] TlsFileError),
    #[error(transparent)]
    Store(#[from] StoreOpenError),
}

impl Reloader {
    pub(crate) fn new(gate: Arc<Gate>, file: Option<PathBuf>, tls: Arc<DataPortTls>) -> Self {
        let status = ReloadStatus {
            active_since: gate.now(),
            ..ReloadStatus::default()
        };

        Self {
            gate,
            first_version: file.as_deref().and_then(FileVersion::read),
            file,
            tls,
            status: Mutex::new(status),
            reload_lock: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) fn file(&self) -> Option<&PathBuf> {
        self.file.as_ref()
    }

    pub(crate) fn status(&self) -> ReloadStatus {
        self.status.lock().clone()
    }

    /// Reads the file again and activates it if it is valid. Logs and records the result.
    pub(crate) async fn reload(&self) -> Result<(), ConfigReloadError> {
        let file = self.file.clone().ok_or(ConfigReloadError::NoFile)?;
        let _guard = self.reload_lock.lock().await;

        let result = self.activate(file).await;
        self.record(&result);
        result
    }

    async fn activate(&self, file: PathBuf) -> Result<(), ConfigReloadError> {
        let (config, tls) = tokio::task::spawn_blocking(move || read_with_tls(&file))
            .await
            .expect("reading a configuration does not panic")?;

        log_notes(&config);
        self.gate.replace(config)?;
        self.tls.replace(tls.as_ref());
        Ok(())
    }

    fn record(&self, result: &Result<(), ConfigReloadError>) {
        let now = self.gate.now();
        let mut status = self.status.lock();

        match result {
            Ok(()) => {
                status.active_since = now;
                status.applied += 1;
                status.last_error = None;
                let limits = self.gate.active().config.limits.len();
                tracing::info!(limits, "configuration reloaded");
            }
            Err(error) => {
                status.failed += 1;
                status.last_error = Some((now, error.to_string()));
                tracing::error!(%error, "reload failed: the old configuration stays active");
            }
        }
    }
}

/// Reloads the file whenever it changes, until the server shuts down.
pub(crate) async fn watch(reloader: Arc<Reloader>, mut shutdown: ShutdownSignal) {
    let Some(file) = reloader.file() else {
        return;
    };

    let mut known = reloader.first_version.clone();
    while shutdown.pause(INTERVAL).await {
        let current = FileVersion::read(file);
        if current.is_some() && current != known {
            known = current;
            // The reloader logs and records the result.
            drop(reloader.reload().await);
        }
    }
}

/// Reads a configuration file, with variables from the environment.
pub(crate) fn read(file: &Path) -> Result<Config, ConfigError> {
    Config::read(file, &|name| std::env::var(name).ok())
}

fn read_with_tls(file: &Path) -> Result<(Config, Option<TlsSettings>), ConfigReloadError> {
    let config = read(file)?;
    let tls = TlsSettings::read(&config)?;
    Ok((config, tls))
}

/// Logs the warnings about a valid configuration.
pub(crate) fn log_notes(config: &Config) {
    for note in &config.notes {
        tracing::warn!("{note}");
    }
}
