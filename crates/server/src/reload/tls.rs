//! The certificate of the data ports, read from its files and read again when they change.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{Error, RootCertStore, ServerConfig};
use tollgate_gate::Gate;
use tollgate_rules::Config;
use tollgate_rules::config::{Diagnostic, SourceMap, TlsConfig};

use crate::listen::{PortTls, ShutdownPhase, ShutdownSignal};

/// How often the files are polled.
const INTERVAL: Duration = Duration::from_millis(500);
/// The maximum size of a file, in bytes. A chain has a few thousand, a bundle of authorities a few
/// hundred thousand.
const FILE_MAX: u64 = 1 << 20;

/// The TLS of the data ports.
#[derive(Debug, Default)]
pub(crate) struct DataPortTls {
    pub(crate) http: Arc<PortTls>,
    pub(crate) grpc: Arc<PortTls>,
    pub(crate) resp: Arc<PortTls>,
    /// The versions of the files that were read last, valid or not.
    versions: Mutex<FileVersions>,
    /// Whether the files that were read last are not in use, because they are not valid.
    has_failed: AtomicBool,
}

/// TLS settings that were read from the files of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct TlsSettings {
    http: Arc<ServerConfig>,
    grpc: Arc<ServerConfig>,
    resp: Arc<ServerConfig>,
    versions: FileVersions,
}

/// What is wrong with a file of `server.tls`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct TlsFileError(pub(crate) Diagnostic);

/// The versions of the certificate, the key and the authorities. None for a file that is missing.
type FileVersions = [Option<FileVersion>; 3];

/// The metadata that differs between two versions of a file. It is polled, which detects renames and
/// replaced symbolic links on every file system.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileVersion {
    /// The path after following symbolic links.
    target: PathBuf,
    device: u64,
    inode: u64,
    /// When the file or its metadata changed, in seconds and nanoseconds since the UNIX epoch. Unlike
    /// the time of the last modification, no program can set it.
    changed: (i64, i64),
}

impl FileVersion {
    /// None when the file does not exist, as for a moment while it is being replaced.
    fn read(file: &Path) -> Option<Self> {
        let target = std::fs::canonicalize(file).ok()?;
        let metadata = std::fs::metadata(&target).ok()?;
        Some(Self {
            target,
            device: metadata.dev(),
            inode: metadata.ino(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

impl DataPortTls {
    /// Serves new connections with these settings; none serves them without TLS.
    pub(crate) fn replace(&self, settings: Option<&TlsSettings>) {
        self.http.replace(settings.map(|tls| tls.http.clone()));
        self.grpc.replace(settings.map(|tls| tls.grpc.clone()));
        self.resp.replace(settings.map(|tls| tls.resp.clone()));
        self.set_versions(&settings.map(|tls| tls.versions.clone()).unwrap_or_default());
        self.has_failed.store(false, Relaxed);
    }

    /// Whether the files have changed but are not in use, because they are not valid.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    /// The number of handshakes that failed so far.
    pub(crate) fn handshakes_failed(&self) -> u64 {
        self.http.failed() + self.grpc.failed() + self.resp.failed()
    }

    /// Reads the files again if they have changed, and have stayed the same since they were `seen`:
    /// they are written one after the other. Returns their current versions.
    fn check_files(&self, config: &Config, seen: Option<&FileVersions>) -> Option<FileVersions> {
        let current = versions(config.server.access.tls.as_ref()?);

        let is_stable = seen == Some(&current);
        if is_stable && self.set_versions(&current) {
            match TlsSettings::read(config) {
                Ok(settings) => {
                    self.replace(settings.as_ref());
                    tracing::info!("certificate reloaded");
                }
                Err(error) => {
                    self.has_failed.store(true, Relaxed);
                    tracing::error!(%error, "the old certificate stays in use");
                }
            }
        }
        Some(current)
    }

    /// Returns true if these are not the versions that were read last.
    fn set_versions(&self, current: &FileVersions) -> bool {
        let mut versions = self.versions.lock();
        let is_new = *versions != *current;
        versions.clone_from(current);
        is_new
    }
}

impl TlsSettings {
    /// Reads the files that the configuration names. None if it names none.
    pub(crate) fn read(config: &Config) -> Result<Option<Self>, TlsFileError> {
        let Some(files) = &config.server.access.tls else {
            return Ok(None);
        };
        // Before the contents, so that a change in between is noticed later.
        let versions = versions(files);
        let source = PemFiles {
            files,
            positions: &config.source_map,
        };
        let base = source.server_config()?;

        let with_protocol = |name: &[u8]| {
            let mut config = base.clone();
            config.alpn_protocols = vec![name.to_vec()];
            Arc::new(config)
        };
        Ok(Some(Self {
            http: with_protocol(b"http/1.1"),
            grpc: with_protocol(b"h2"),
            // The protocol of Redis has no name to negotiate.
            resp: Arc::new(base.clone()),
            versions,
        }))
    }
}

/// The files of a configuration, and where it names them.
struct PemFiles<'c> {
    files: &'c TlsConfig,
    positions: &'c SourceMap,
}

impl PemFiles<'_> {
    fn server_config(&self) -> Result<ServerConfig, TlsFileError> {
        let provider = Arc::new(ring::default_provider());
        let chain = self.certificates("cert", &self.files.cert)?;
        let key = self.private_key()?;
        let verifier = self.client_verifier(&provider)?;

        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| self.error("cert", &self.files.cert, error))?;
        let builder = match verifier {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier),
        };
        builder
            .with_single_cert(chain, key)
            .map_err(|error| match error {
                Error::InconsistentKeys(_) => {
                    let cert = self.files.cert.display();
                    let reason = format!("it is not the key of the certificate in {cert}");
                    self.error("key", &self.files.key, reason)
                }
                Error::InvalidCertificate(_) => self.error("cert", &self.files.cert, error),
                _ => self.error("key", &self.files.key, error),
            })
    }

    fn certificates(
        &self,
        field: &str,
        file: &Path,
    ) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
        let pem = self.contents(field, file)?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();

        match certificates {
            Ok(certificates) if certificates.is_empty() => {
                Err(self.error(field, file, "no certificate in it; expected PEM"))
            }
            Ok(certificates) => Ok(certificates),
            Err(error) => Err(self.error(field, file, format!("it is not valid PEM: {error}"))),
        }
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, TlsFileError> {
        let file = &self.files.key;
        let pem = self.contents("key", file)?;
        PrivateKeyDer::from_pem_slice(&pem).map_err(|_| {
            let reason = "no private key in it; expected PEM that is not encrypted";
            self.error("key", file, reason)
        })
    }

    /// Verifies the certificates of clients, if they must have one.
    fn client_verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsFileError> {
        let Some(file) = &self.files.client_ca else {
            return Ok(None);
        };
        let invalid = |error: &dyn std::fmt::Display| self.error("client_ca", file, error);

        let mut roots = RootCertStore::empty();
        for certificate in self.certificates("client_ca", file)? {
            roots.add(certificate).map_err(|error| invalid(&error))?;
        }
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map(Some)
            .map_err(|error| invalid(&error))
    }

    /// Reads a file. What is no regular file is rejected, because reading it might never end.
    fn contents(&self, field: &str, file: &Path) -> Result<Vec<u8>, TlsFileError> {
        let unreadable = |error: std::io::Error| self.error(field, file, error);
        if !std::fs::metadata(file).map_err(unreadable)?.is_file() {
            return Err(self.error(field, file, "it is not a regular file"));
        }

        let mut contents = Vec::new();
        let opened = File::open(file).map_err(unreadable)?;
        let read = opened.take(FILE_MAX + 1).read_to_end(&mut contents);
        read.map_err(unreadable)?;
        if contents.len() as u64 > FILE_MAX {
            return Err(self.error(field, file, "it is larger than 1 MiB"));
        }
        Ok(contents)
    }

    fn error(&self, field: &str, file: &Path, reason: impl std::fmt::Display) -> TlsFileError {
        let field = format!("server.tls.{field}");
        let message = format!("cannot use {}: {reason}", file.display());
        TlsFileError(self.positions.diagnostic(&field, message))
    }
}

fn versions(files: &TlsConfig) -> FileVersions {
    let client_ca = files.client_ca.as_deref();
    [Some(&*files.cert), Some(&*files.key), client_ca].map(|file| file.and_then(FileVersion::read))
}

/// Reads the files again whenever they change, until the server shuts down.
pub(crate) async fn watch(gate: Arc<Gate>, ports: Arc<DataPortTls>, mut shutdown: ShutdownSignal) {
    let mut seen = None;
    while shutdown.pause(INTERVAL).await {
        let (active, ports) = (gate.active(), ports.clone());
        let check = move || ports.check_files(&active.config, seen.as_ref());
        tokio::select! {
            versions = tokio::task::spawn_blocking(check) => seen = versions.ok().flatten(),
            () = shutdown.wait_for(ShutdownPhase::Draining) => return,
        }
    }
}
