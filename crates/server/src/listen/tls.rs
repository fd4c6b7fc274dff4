//! TLS of a port: the handshake, and the stream that connections then use.
//!
//! The handshake is part of a connection's task, so that a slow client delays no other. Its number
//! is bounded by that of connections, and its time by the timeout of a request's head. Knows nothing
//! of files: the settings are replaced from outside when they change.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

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
            return Some(ServerStream::Plain(stream));
        };

        let handshake = Box::pin(TlsAcceptor::from(config).accept(stream));
        let error = match tokio::time::timeout(timeout, handshake).await {
            Ok(Ok(stream)) => return Some(ServerStream::Tls(Box::new(stream))),
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
#[derive(Debug)]
pub(crate) enum ServerStream {
    Plain(TcpStream),
    /// Boxed, because its state is some thousand bytes and plain connections must not reserve it.
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for ServerStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for ServerStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, buffer),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
