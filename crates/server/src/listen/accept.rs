//! Accepts connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::connection;
use super::front::{Front, ListenProtocol, Port};
use super::load::ServerLoad;
use super::shutdown::{ShutdownPhase, ShutdownSignal};
use super::tls::PortTls;

/// The pause after a failed `accept`, for example while the process is out of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// The response to a connection beyond the limit, sent before anything is read from it.
const TOO_MANY_CONNECTIONS: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\
    Content-Length: 0\r\nRetry-After: 1\r\n\r\n";

/// Serves a port until the shutdown is complete: every connection ended, or the drain timeout
/// passed.
pub(crate) async fn run<F: Front>(
    listener: TcpListener,
    protocol: ListenProtocol,
    tls: Arc<PortTls>,
    front: Arc<F>,
    load: Arc<ServerLoad>,
    mut shutdown: ShutdownSignal,
) {
    let port = Arc::new(Port {
        protocol,
        tls,
        front,
        load,
        shutdown: shutdown.clone(),
    });
    let mut connections = JoinSet::new();
    let mut is_failing = false;

    loop {
        tokio::select! {
            biased;
            () = shutdown.wait_for(ShutdownPhase::Closing) => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(serve(port.clone(), stream, peer));
                    is_failing = false;
                }
                Err(error) => {
                    // Connections that ended before they were accepted do no harm, and other
                    // causes are temporary. Log only the first error of a series.
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::warn!(%error, "cannot accept connections; retrying");
                    }
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            },
        }
    }

    // Serve the connections that are in the backlog already: closing the port would reset them.
    loop {
        tokio::select! {
            biased;
            Ok((stream, peer)) = listener.accept() => {
                connections.spawn(serve(port.clone(), stream, peer));
            }
            () = std::future::ready(()) => break,
        }
    }
    drop(listener);

    tokio::select! {
        () = async { while connections.join_next().await.is_some() {} } => {}
        () = shutdown.wait_for(ShutdownPhase::Expired) => {}
    }
}

/// Serves a connection, or rejects it when there are too many.
async fn serve<F: Front>(port: Arc<Port<F>>, mut stream: TcpStream, peer: SocketAddr) {
    match port.load.try_connection() {
        Some(_slot) => {
            let timeout = port.load.limits.header_timeout;
            if let Some(stream) = port.tls.accept(stream, timeout).await {
                connection::serve(&port, stream, peer).await;
            }
        }
        None if port.protocol == ListenProtocol::Http1 && !port.tls.is_enabled() => {
            drop(stream.write_all(TOO_MANY_CONNECTIONS).await);
        }
        None => {}
    }
}
