//! A client's connection and the matching one to the server.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use super::lane::{Direction, Lane};
use super::state::State;

/// How long connecting to the server may take. It is on the same machine.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// How long a write may block before it checks whether the connection was reset.
const WRITE_LIMIT: Duration = Duration::from_millis(50);

/// The two sockets. They are shared and never duplicated, so that each is closed when its last user
/// is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    client: TcpStream,
    server: OnceLock<TcpStream>,
    is_reset: AtomicBool,
    /// Whether the client received something else than the server sent.
    is_spoiled: AtomicBool,
    /// The number of reply bytes left before the reset.
    cut_after: Mutex<Option<usize>>,
}

/// Connects to the server and forwards bytes until both sides have closed or the connection is
/// reset.
pub(super) fn run(state: &State, connection: &Connection) {
    if !state.hold_new(connection) {
        return;
    }

    let Ok(server) = connection.open(state.target()) else {
        // The server is down. An accepted connection cannot be refused any more; a reset is the
        // closest equivalent.
        state.reset(connection);
        return;
    };

    let lane = |direction, from, to| Lane {
        state,
        connection,
        direction,
        from,
        to,
    };
    let requests = lane(Direction::Requests, &connection.client, server);
    let replies = lane(Direction::Replies, server, &connection.client);

    std::thread::scope(|scope| {
        requests.spawn(scope);
        replies.spawn(scope);
    });
}

impl Connection {
    pub(super) fn new(client: TcpStream) -> Self {
        Self {
            client,
            server: OnceLock::new(),
            is_reset: AtomicBool::new(false),
            is_spoiled: AtomicBool::new(false),
            cut_after: Mutex::new(None),
        }
    }

    fn open(&self, target: SocketAddr) -> io::Result<&TcpStream> {
        let stream = TcpStream::connect_timeout(&target, CONNECT_LIMIT)?;
        let server = self.server.get_or_init(|| stream);
        for socket in [&self.client, server] {
            socket.set_nodelay(true)?;
            socket.set_write_timeout(Some(WRITE_LIMIT))?;
        }
        Ok(server)
    }

    /// Makes both sockets send a reset when they are closed. Shutting down only the read side wakes
    /// up readers and sends nothing yet.
    pub(super) fn reset(&self) {
        self.is_reset.store(true, Ordering::SeqCst);
        for socket in std::iter::once(&self.client).chain(self.server.get()) {
            // The other side may have closed already.
            let _gone = set_socket_linger(socket, Some(Duration::ZERO));
            let _gone = socket.shutdown(Shutdown::Read);
        }
    }

    pub(super) fn is_reset(&self) -> bool {
        self.is_reset.load(Ordering::SeqCst)
    }

    pub(super) fn spoil(&self) {
        self.is_spoiled.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_spoiled(&self) -> bool {
        self.is_spoiled.load(Ordering::SeqCst)
    }

    pub(super) fn cut_after(&self) -> Option<usize> {
        *self.cut()
    }

    pub(super) fn set_cut_after(&self, bytes: usize) {
        *self.cut() = Some(bytes);
    }

    pub(super) fn forget_cut(&self) {
        *self.cut() = None;
    }

    fn cut(&self) -> MutexGuard<'_, Option<usize>> {
        self.cut_after
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
