//! Replaces the configuration while the service runs: read, validate, swap. An invalid file
//! changes nothing.

mod config_file;
mod tls;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::signal::unix::Signal;
use tokio::time::sleep;
use tollgate::Micros;
use tollgate_gate::{Gate, StoreOpenError};
use tollgate_rules::Config;
use tollgate_rules::config::{ConfigChanges, ConfigError};

pub(crate) use self::config_file::ConfigFile;
pub(crate) use self::tls::{DataPortTls, TlsFileError, TlsSettings, watch as watch_tls};
use crate::audit_log::{AuditLog, AuditLogError};
use crate::listen::{ShutdownPhase, ShutdownSignal};

/// How often the file is polled. It is read completely, at most 1 MiB, because an edit may keep its
/// size and its times.
const INTERVAL: Duration = Duration::from_millis(500);

/// The warning about a reload that removed all tokens. It stays until there are tokens again, or
/// the service is restarted without them.
const TOKENS_REMOVED: &str = "\
    server.tokens: a reload has removed all tokens, so everybody who reaches the data ports may \
    charge, refund and release any key; if that is intended, restart the service";

/// The warning about a reload that no longer asks for certificates of clients. It stays likewise.
const CLIENT_CA_REMOVED: &str = "\
    server.tls.client_ca: a reload has removed it, so clients without a certificate may charge, \
    refund and release any key; if that is intended, restart the service";

/// Reloads the configuration file and records the results.
#[derive(Debug)]
pub(crate) struct Reloader {
    gate: Arc<Gate>,
    /// None when the built-in configuration is active.
    file: Option<ConfigFile>,
    tls: Arc<DataPortTls>,
    audit_log: Arc<AuditLog>,
    status: Mutex<ReloadStatus>,
    /// Locked by a reload, so that the last one to finish read the newest file.
    last_read: tokio::sync::Mutex<LastRead>,
}

/// What the last attempt to read the file found, and the active text.
#[derive(Debug, Default)]
struct LastRead {
    /// The text of the active configuration.
    active: Vec<u8>,
    /// None if the file could not be read, which was reported.
    text: Option<Vec<u8>>,
    /// True after a poll that could not read the file and did not report it.
    is_missed: bool,
}

impl LastRead {
    /// Whether a poll found something to report: another text than before, or twice in a row no
    /// file. Once is not enough, because a file that is being replaced may be missing for a moment.
    fn is_changed(&mut self, read: &Result<Vec<u8>, ConfigError>) -> bool {
        match read {
            Ok(text) => {
                self.is_missed = false;
                self.text.as_ref() != Some(text)
            }
            Err(_) => self.text.is_some() && std::mem::replace(&mut self.is_missed, true),
        }
    }
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
    /// What the last reload that changed something changed, at most 51 lines.
    pub(crate) changes: Vec<String>,
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
    #[error(transparent)]
    AuditLog(#[from] AuditLogError),
}

impl Reloader {
    pub(crate) fn new(
        gate: Arc<Gate>,
        mut file: Option<ConfigFile>,
        tls: Arc<DataPortTls>,
        audit_log: Arc<AuditLog>,
    ) -> Self {
        let status = ReloadStatus {
            active_since: gate.now(),
            ..ReloadStatus::default()
        };
        let text = file.as_mut().map(ConfigFile::take_first_text);
        let last_read = LastRead {
            active: text.clone().unwrap_or_default(),
            text,
            is_missed: false,
        };

        Self {
            gate,
            file,
            tls,
            audit_log,
            status: Mutex::new(status),
            last_read: tokio::sync::Mutex::new(last_read),
        }
    }

    pub(crate) fn file(&self) -> Option<&PathBuf> {
        self.file.as_ref().map(ConfigFile::path)
    }

    pub(crate) fn status(&self) -> ReloadStatus {
        self.status.lock().clone()
    }

    /// Reads the file again and activates it if it is valid. Logs and records the result.
    pub(crate) async fn reload(&self) -> Result<(), ConfigReloadError> {
        let file = self.file.as_ref().ok_or(ConfigReloadError::NoFile)?;
        let mut last_read = self.last_read.lock().await;

        let read = file.read().await;
        self.activate(file, read, &mut last_read).await
    }

    /// Reads the file and, if it has changed, does the same.
    async fn poll(&self) {
        let Some(file) = &self.file else { return };
        let mut last_read = self.last_read.lock().await;

        let read = file.read().await;
        if last_read.is_changed(&read) {
            // The result is logged and recorded.
            drop(self.activate(file, read, &mut last_read).await);
        }
    }

    async fn activate(
        &self,
        file: &ConfigFile,
        read: Result<Vec<u8>, ConfigError>,
        last_read: &mut LastRead,
    ) -> Result<(), ConfigReloadError> {
        let text = read.as_ref().ok().cloned();
        let result = match read {
            Ok(text) => self.replace(file, text).await,
            Err(error) => Err(error.into()),
        };
        let active = text.as_ref().filter(|_| result.is_ok());
        let result = result.map(|()| changes(&last_read.active, active));
        self.record(&result);

        // Last, so that the next poll repeats a reload that was cancelled.
        if let Some(active) = active {
            last_read.active.clone_from(active);
        }
        last_read.text = text;
        last_read.is_missed = false;
        result.map(drop)
    }

    /// Parses and validates a text, and activates it with the certificate that it names.
    async fn replace(&self, file: &ConfigFile, text: Vec<u8>) -> Result<(), ConfigReloadError> {
        let mut config = file.parse(text).await?;
        warn_about_removed_access(&mut config, &self.gate.active().config);
        let read_tls = move || TlsSettings::read(&config).map(|tls| (config, tls));
        let (config, tls) = tokio::task::spawn_blocking(read_tls)
            .await
            .expect("reading a certificate does not panic")?;

        let audit_log = self.audit_log.prepare(config.audit_log.as_ref())?;
        log_warnings(&config);
        self.gate.replace(config)?;
        self.tls.replace(tls.as_ref());
        self.audit_log.replace(audit_log);
        Ok(())
    }

    fn record(&self, result: &Result<ConfigChanges, ConfigReloadError>) {
        let now = self.gate.now();
        let mut status = self.status.lock();

        match result {
            Ok(changes) => {
                status.active_since = now;
                status.applied += 1;
                status.last_error = None;
                let limits = self.gate.active().config.limits.len();
                tracing::info!(limits, changes = changes.len(), "configuration reloaded");
                for line in changes.lines() {
                    tracing::info!("changed: {line}");
                }
                if !changes.is_empty() {
                    status.changes = changes.lines();
                }
            }
            Err(error) => {
                status.failed += 1;
                status.last_error = Some((now, error.to_string()));
                tracing::error!(%error, "reload failed: the old configuration stays active");
            }
        }
    }
}

/// Reloads the file whenever it changes and on each SIGHUP, until the server shuts down. A reload
/// in progress does not delay the shutdown.
pub(crate) async fn watch(
    reloader: Arc<Reloader>,
    mut hang_up: Signal,
    mut shutdown: ShutdownSignal,
) {
    let reload_forever = async {
        loop {
            tokio::select! {
                () = sleep(INTERVAL) => reloader.poll().await,
                // The reloader logs and records the result.
                _ = hang_up.recv() => drop(reloader.reload().await),
            }
        }
    };

    tokio::select! {
        () = reload_forever => {}
        () = shutdown.wait_for(ShutdownPhase::Draining) => {}
    }
}

/// What differs between two texts. The texts are those of valid configurations, so they are UTF-8.
fn changes(before: &[u8], after: Option<&Vec<u8>>) -> ConfigChanges {
    let before = String::from_utf8_lossy(before);
    let after = after.map(|text| String::from_utf8_lossy(text));
    ConfigChanges::between(&before, &after.unwrap_or_default())
}

/// Adds a warning for each kind of access control that the file had since the service was started,
/// and has not now: by mistake, everybody may do everything.
fn warn_about_removed_access(config: &mut Config, active: &Config) {
    let has_tokens = |config: &Config| !config.server.access.tokens.is_empty();
    let has_client_ca = |config: &Config| {
        let tls = config.server.access.tls.as_ref();
        tls.is_some_and(|tls| tls.client_ca.is_some())
    };
    let kinds = [
        (TOKENS_REMOVED, has_tokens(config), has_tokens(active)),
        (
            CLIENT_CA_REMOVED,
            has_client_ca(config),
            has_client_ca(active),
        ),
    ];
    for (removed, is_there, was_there) in kinds {
        let is_known = active.warnings.iter().any(|warning| warning == removed);
        if !is_there && (was_there || is_known) {
            config.warnings.push(removed.to_owned());
        }
    }
}

/// Logs the warnings about a valid configuration.
pub(crate) fn log_warnings(config: &Config) {
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_all_tokens_is_a_warning_until_there_are_tokens_again() {
        let limits =
            "limits: [{ name: api, key: [], algorithm: fixed_window, limit: 1, window: 1s }]";
        let parse = |text: String| Config::parse(&text, "test.yaml", &|_: &str| None).unwrap();
        let open = || parse(limits.to_owned());
        let token = "0123456789abcdef0123456789abcdef";
        let tokens = format!("server: {{ tokens: [{{ name: a, token: {token} }}] }}\n{limits}");
        let has_warning = |config: &Config| config.warnings.iter().any(|one| one == TOKENS_REMOVED);

        let (mut next, before) = (open(), open());
        warn_about_removed_access(&mut next, &before);
        assert!(!has_warning(&next), "there were none");
        warn_about_removed_access(&mut next, &parse(tokens.clone()));
        assert!(has_warning(&next));
        let mut again = open();
        warn_about_removed_access(&mut again, &next);
        assert!(has_warning(&again), "they are still missing");
        let mut with_tokens = parse(tokens);
        warn_about_removed_access(&mut with_tokens, &again);
        assert!(!has_warning(&with_tokens));
    }

    #[test]
    fn no_longer_asking_for_certificates_is_a_warning() {
        let limits =
            "limits: [{ name: api, key: [], algorithm: fixed_window, limit: 1, window: 1s }]";
        let parse = |server: &str| {
            let text = format!("{server}{limits}");
            Config::parse(&text, "test.yaml", &|_: &str| None).unwrap()
        };
        let tls = "server: { tls: { cert: a.pem, key: b.pem } }\n";
        let mut next = parse(tls);
        warn_about_removed_access(&mut next, &parse(tls));
        assert!(!next.warnings.iter().any(|one| one == CLIENT_CA_REMOVED));
        let with_ca = "server: { tls: { cert: a.pem, key: b.pem, client_ca: c.pem } }\n";
        for server in [tls, ""] {
            let mut next = parse(server);
            warn_about_removed_access(&mut next, &parse(with_ca));
            assert!(next.warnings.iter().any(|one| one == CLIENT_CA_REMOVED));
        }
    }

    #[test]
    fn a_missing_file_is_reported_once_and_not_for_a_moment() {
        let missing = || Err(ConfigError::for_file("tollgate.yaml", "missing"));
        let text = |text: &str| Ok(text.as_bytes().to_vec());
        let mut last_read = LastRead {
            text: text("a").ok(),
            ..LastRead::default()
        };

        assert!(!last_read.is_changed(&text("a")));
        assert!(last_read.is_changed(&text("b")));
        for _ in 0..3 {
            assert!(!last_read.is_changed(&missing()), "it may be back soon");
            assert!(!last_read.is_changed(&text("a")));
        }
        assert!(!last_read.is_changed(&missing()));
        assert!(last_read.is_changed(&missing()));

        last_read = LastRead::default();
        assert!(!last_read.is_changed(&missing()), "it was reported");
        assert!(last_read.is_changed(&text("a")), "it is back");
    }
}
