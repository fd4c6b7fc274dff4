//! Accepts connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::client_connection::ClientConnection;
use super::front::{ConnectionServer, ListenProtocol, Port};
use super::load::PortLoad;
use super::shed_log::ShedLog;
use super::shutdown::{ShutdownPhase, ShutdownSignal};
use super::tls::PortTls;

/// The pause after a failed `accept`, for example while the process is out of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// How many idle connections are closed after a failed `accept`, to free their files.
const EVICTED_PER_FAILURE: usize = 16;
/// How often the port looks whether it has shed load.
const SHED_INTERVAL: Duration = Duration::from_secs(1);

/// The body of the response to a connection for which even the reserve has no room.
const TOO_MANY_CONNECTIONS: &str = concat!(
    r#"{"type":"about:blank","title":"Service Unavailable","status":503,"#,
    r#""detail":"too many connections; retry in a second","code":"overloaded"}"#
);

/// The same in the protocol of Redis.
const RESP_REJECTION: &str = "-ERR overloaded: too many connections; retry in a second\r\n";

/// Serves a port until the shutdown is complete: every connection ended, or the drain timeout
/// passed.
pub(crate) async fn run<F: ConnectionServer>(
    listener: TcpListener,
    protocol: ListenProtocol,
    tls: Arc<PortTls>,
    front: Arc<F>,
    load: Arc<PortLoad>,
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

    accept_until_closing(&listener, &port, &mut connections).await;

    // Serve the connections that are in the backlog already: closing the port would reset them.
    loop {
        tokio::select! {
            biased;
            Ok((stream, peer)) = listener.accept() => {
                serve(&port, stream, peer, &mut connections);
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

/// Accepts connections until the shutdown closes the port.
async fn accept_until_closing<F: ConnectionServer>(
    listener: &TcpListener,
    port: &Arc<Port<F>>,
    connections: &mut JoinSet<()>,
) {
    let mut shutdown = port.shutdown.clone();
    let mut is_failing = false;
    let mut shed_log = ShedLog::default();
    let mut shed_interval = tokio::time::interval(SHED_INTERVAL);

    loop {
        tokio::select! {
            biased;
            () = shutdown.wait_for(ShutdownPhase::Closing) => return,
            Some(_) = connections.join_next() => {}
            _ = shed_interval.tick() => shed_log.update(&port.load),
            accepted = accept(listener, &port.load) => match accepted {
                Ok((stream, peer)) => {
                    serve(port, stream, peer, connections);
                    is_failing = false;
                }
                Err(error) => {
                    // Connections that ended before they were accepted do no harm, and other
                    // causes are temporary. Log only the first error of a series.
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::warn!(%error, "cannot accept connections; retrying");
                    }
                    port.load.connections.evict(EVICTED_PER_FAILURE);
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            },
        }
    }
}

/// Accepts a connection, as soon as there is room to evict another one for it.
async fn accept(
    listener: &TcpListener,
    load: &PortLoad,
) -> std::io::Result<(TcpStream, SocketAddr)> {
    load.connections.wait_for_evictions().await;
    listener.accept().await
}

/// Serves a connection in a task of its own, or rejects it when there are too many.
fn serve<F: ConnectionServer>(
    port: &Arc<Port<F>>,
    stream: TcpStream,
    peer: SocketAddr,
    connections: &mut JoinSet<()>,
) {
    if let Some(connection) = ClientConnection::open(&port.load, peer) {
        let port = port.clone();
        connections.spawn(async move {
            let timeout = port.load.limits.header_timeout;
            let handshake = port.tls.accept(stream, timeout);
            // A connection that has sent no request yet may have to make room for another.
            let stream = tokio::select! {
                stream = handshake => stream,
                () = connection.evicted() => None,
            };
            if let Some(stream) = stream {
                F::serve(&port, stream, connection).await;
            }
        });
    } else {
        reject(port, &stream);
    }
}

/// Rejects a connection. Does not wait for the client, because the number of these connections has
/// no bound.
fn reject<F>(port: &Port<F>, stream: &TcpStream) {
    port.load.count_shed();
    if port.tls.is_enabled() {
        return;
    }
    let response = match port.protocol {
        ListenProtocol::Http1 => http_rejection(),
        ListenProtocol::Resp => RESP_REJECTION.to_owned(),
        ListenProtocol::Http2 => return,
    };

    // The system resets a connection that is closed with unread input, and the client may then
    // lose the response.
    drop(stream.try_read(&mut [0; 4 * 1024]));
    drop(stream.try_write(response.as_bytes()));
}

fn http_rejection() -> String {
    format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n\
         Cache-Control: no-store\r\nRetry-After: 1\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{TOO_MANY_CONNECTIONS}",
        TOO_MANY_CONNECTIONS.len()
    )
}
