//! TLS of a port: the handshake, and the stream that connections then use.
//!
//! The handshake is part of a connection's task, so that a slow client delays no other. Its number
//! is bounded by that of connections, and its time by the timeout of a request's head. Knows nothing
//! of files: the settings are replaced from outside when they change.

use std::fmt::Debug;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// The TLS settings of a port. They may be replaced while the port is in use; connections keep those
/// that they started with.
#[derive(Debug, Default)]
pub(crate) struct PortTls {
    /// None while the port is served without TLS.
    config: ArcSwapOption<ServerConfig>,
    failed: AtomicU64,
}

impl PortTls {
    /// Replaces the settings. None serves the port without TLS.
    pub(crate) fn replace(&self, config: Option<Arc<ServerConfig>>) {
        self.config.store(config);
    }

    /// The number of handshakes that failed so far.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    /// True when the port is served with TLS.
    pub(super) fn is_enabled(&self) -> bool {
        self.config.load().is_some()
    }

    /// Performs the handshake. None if it fails or takes longer than `timeout`.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
        timeout: Duration,
    ) -> Option<ServerStream> {
        // A response is one segment; delaying it to fill a larger one gains nothing.
        drop(stream.set_nodelay(true));
        let Some(config) = self.config.load_full() else {
            return Some(Box::pin(stream));
        };

        let handshake = Box::pin(TlsAcceptor::from(config).accept(stream));
        let error = match tokio::time::timeout(timeout, handshake).await {
            Ok(Ok(stream)) => return Some(Box::pin(stream)),
            Ok(Err(error)) => error,
            Err(_) => io::ErrorKind::TimedOut.into(),
        };

        // Scanners and probes cause these all the time.
        self.failed.fetch_add(1, Relaxed);
        tracing::debug!(%error, "TLS handshake failed");
        None
    }
}

/// A connection, with or without TLS.
pub(crate) type ServerStream = Pin<Box<dyn ConnectionStream>>;

/// What connections have in common.
pub(crate) trait ConnectionStream: AsyncRead + AsyncWrite + Debug + Send {}

impl<S: AsyncRead + AsyncWrite + Debug + Send> ConnectionStream for S {}
