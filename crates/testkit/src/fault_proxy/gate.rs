//! The listening port: open, closed, or open with a full backlog.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use super::fault::Entry;
use super::state::State;
use crate::wait;

/// How long it may take until the port can be bound again after it was closed.
const BIND_LIMIT: Duration = Duration::from_secs(5);
/// How long an attempt to connect goes without a response before the backlog counts as full.
const FULL_AFTER: Duration = Duration::from_millis(30);
/// More than the shortest backlog of any system holds.
const QUEUE_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct Gate {
    addr: SocketAddr,
    state: Arc<State>,
    now: Mutex<GateState>,
}

/// The state of the port. Dropping a state leaves it.
#[derive(Debug)]
enum GateState {
    Open {
        _acceptor: Acceptor,
    },
    Closed,
    Full {
        _listener: TcpListener,
        _queue: Vec<TcpStream>,
    },
}

/// The thread that accepts connections.
#[derive(Debug)]
struct Acceptor {
    addr: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Gate {
    pub(super) fn open(addr: SocketAddr, state: &Arc<State>) -> Self {
        let open = GateState::Open {
            _acceptor: Acceptor::start(addr, state),
        };
        Self {
            addr,
            state: Arc::clone(state),
            now: Mutex::new(open),
        }
    }

    /// Changes the state of the port. The new state is in effect when this returns.
    pub(super) fn set(&self, entry: Entry) {
        let mut now = self.lock();
        if now.entry() == entry {
            return;
        }

        *now = GateState::Closed;
        *now = match entry {
            Entry::Open => GateState::Open {
                _acceptor: Acceptor::start(self.addr, &self.state),
            },
            Entry::Refused => GateState::Closed,
            Entry::Full => full(self.addr),
        };
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GateState {
    fn entry(&self) -> Entry {
        match self {
            Self::Open { .. } => Entry::Open,
            Self::Closed => Entry::Refused,
            Self::Full { .. } => Entry::Full,
        }
    }
}

impl Acceptor {
    fn start(addr: SocketAddr, state: &Arc<State>) -> Self {
        let listener = bind(addr);
        let is_over = Arc::new(AtomicBool::new(false));

        let builder = state.thread();
        let (state, over) = (Arc::clone(state), Arc::clone(&is_over));
        let thread = builder.spawn(move || {
            for client in listener.incoming() {
                // A client that has disconnected in the meantime is ignored.
                let Ok(client) = client else { continue };

                if over.load(Ordering::SeqCst) {
                    // It may have connected just before the end. Clients behind it in the backlog
                    // get a reset as well.
                    let _gone = set_socket_linger(&client, Some(Duration::ZERO));
                    return;
                }

                state.admit(client);
            }
        });

        Self {
            addr,
            is_over,
            thread: Some(thread.expect("a thread can be started")),
        }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Only a connection wakes up the thread.
        let _client = TcpStream::connect(self.addr);
        let _panicked = self.thread.take().map(JoinHandle::join);
    }
}

/// Listens with the shortest possible backlog and fills it. Linux then drops every attempt to
/// connect.
fn full(addr: SocketAddr) -> GateState {
    let listener = bind(addr);
    rustix::net::listen(&listener, 0).expect("a listening socket can change its backlog");
    let attempts = (0..QUEUE_MAX).map_while(|_| TcpStream::connect_timeout(&addr, FULL_AFTER).ok());
    let queue = attempts.collect();
    GateState::Full {
        _listener: listener,
        _queue: queue,
    }
}

fn bind(addr: SocketAddr) -> TcpListener {
    wait::until(BIND_LIMIT, "the proxy's own port", || {
        TcpListener::bind(addr).ok()
    })
}
