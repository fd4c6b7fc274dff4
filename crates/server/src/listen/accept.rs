//! Letting connections in.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::now_or_never::now_or_never;

use super::shutdown::{ShutdownPhase, ShutdownSignal};
use super::{Front, ListenProtocol, ServerLoad, connection};

/// How long to wait when the system has no room for another connection.
const NO_ROOM: Duration = Duration::from_millis(50);

/// What a client is told that finds no room, before anything was read.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\nRetry-After: 1\r\n\r\n";

/// Serves a port until the server is over or, when it is leaving, everyone has gone.
pub(crate) async fn run<F: Front>(
    listener: TcpListener,
    protocol: ListenProtocol,
    front: Arc<F>,
    load: Arc<ServerLoad>,
    mut stop: ShutdownSignal,
) {
    let mut connections = JoinSet::new();
    let mut closed = stop.clone();
    let mut was_full = false;
    loop {
        tokio::select! {
            biased;
            () = closed.reached(ShutdownPhase::Closing) => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let (front, load, stop) = (front.clone(), load.clone(), stop.clone());
                    connections.spawn(let_in(stream, peer, protocol, front, load, stop));
                    was_full = false;
                }
                Err(error) => {
                    // Connections that broke before they were let in are nobody's loss; what else
                    // there is will pass.
                    if !std::mem::replace(&mut was_full, true) {
                        tracing::warn!(%error, "cannot accept connections at the moment");
                    }
                    tokio::time::sleep(NO_ROOM).await;
                }
            },
        }
    }
    // Whoever the system let in before the port closes is served too.
    while let Some(Ok((stream, peer))) = now_or_never(listener.accept()) {
        connections.spawn(let_in(
            stream,
            peer,
            protocol,
            front.clone(),
            load.clone(),
            stop.clone(),
        ));
    }
    drop(listener);
    tokio::select! {
        () = async { while connections.join_next().await.is_some() {} } => {}
        () = stop.reached(ShutdownPhase::Expired) => {}
    }
}

async fn let_in<F: Front>(
    mut stream: TcpStream,
    peer: SocketAddr,
    protocol: ListenProtocol,
    front: Arc<F>,
    load: Arc<ServerLoad>,
    stop: ShutdownSignal,
) {
    match load.clone().connection() {
        Some(_place) => connection::serve(stream, peer, protocol, front, load, stop).await,
        None if protocol == ListenProtocol::Http1 => drop(stream.write_all(FULL).await),
        None => {}
    }
}
