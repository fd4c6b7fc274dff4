//! What the parts of a proxy share: the faults in force and the connections there are.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::connection::{self, Connection};
use super::fault::{Effects, Pace, Replies};
use crate::wait;

#[derive(Debug)]
pub(super) struct State {
    /// What its threads are called, so that they can be told from others.
    thread_name: String,
    inner: Mutex<Inner>,
    /// Told whenever the faults change or a connection is reset.
    changed: Condvar,
}

#[derive(Debug)]
struct Inner {
    target: SocketAddr,
    effects: Effects,
    accepted: u64,
    open: BTreeMap<u64, (Arc<Connection>, JoinHandle<()>)>,
}

/// What becomes of the reply at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Pass,
    Vanish,
    Become(&'static [u8]),
    /// Only so many bytes of it arrive, then a reset.
    CutAfter(usize),
}

impl State {
    pub(super) fn new(own: SocketAddr, target: SocketAddr) -> Self {
        let inner = Inner {
            target,
            effects: Effects::default(),
            accepted: 0,
            open: BTreeMap::new(),
        };
        let thread_name = format!("proxy-{}", own.port());
        Self {
            thread_name,
            inner: Mutex::new(inner),
            changed: Condvar::new(),
        }
    }

    /// A thread of this proxy, to be spawned.
    pub(super) fn thread(&self) -> thread::Builder {
        thread::Builder::new().name(self.thread_name.clone())
    }

    pub(super) fn effects(&self) -> Effects {
        self.lock().effects
    }

    pub(super) fn target(&self) -> SocketAddr {
        self.lock().target
    }

    pub(super) fn retarget(&self, target: SocketAddr) {
        self.lock().target = target;
    }

    pub(super) fn connections(&self) -> usize {
        self.lock().open.len()
    }

    pub(super) fn accepted(&self) -> u64 {
        self.lock().accepted
    }

    /// Puts faults in force. A connection on which bytes were swallowed or replaced cannot go back
    /// to telling the truth.
    pub(super) fn set(&self, effects: Effects) {
        let mut inner = self.lock();
        inner.effects = effects;
        for (connection, _) in inner.open.values() {
            connection.forget_cut();
            if connection.is_spoiled() && effects.replies == Replies::Pass {
                connection.reset();
            }
        }
        drop(inner);
        self.changed.notify_all();
    }

    /// Takes a client in.
    pub(super) fn admit(self: &Arc<Self>, client: TcpStream) {
        let mut inner = self.lock();
        inner.accepted += 1;
        let id = inner.accepted;
        let connection = Arc::new(Connection::new(client));
        let (state, own) = (Arc::clone(self), Arc::clone(&connection));
        // The thread takes itself off the list at its end, for which it needs the lock that is held
        // until it is on it.
        let thread = self.thread().spawn(move || {
            connection::run(&state, &own);
            state.lock().open.remove(&id);
        });
        let thread = thread.expect("there is room for a thread");
        inner.open.insert(id, (connection, thread));
    }

    /// Resets every connection and waits for the ends of their threads, with which the sockets are
    /// closed.
    pub(super) fn cut(&self) {
        let open = std::mem::take(&mut self.lock().open);
        open.values().for_each(|(connection, _)| connection.reset());
        self.changed.notify_all();
        for (connection, thread) in open.into_values() {
            drop(connection);
            // A panic of that thread was reported where it happened.
            let _panicked = thread.join();
        }
    }

    /// Resets one connection.
    pub(super) fn reset(&self, connection: &Connection) {
        let inner = self.lock();
        connection.reset();
        drop(inner);
        self.changed.notify_all();
    }

    /// Waits until the moment has come and nothing holds bytes back; false if the connection was
    /// reset before.
    pub(super) fn hold(&self, connection: &Connection, due: Instant) -> bool {
        self.wait(connection, |effects| (!effects.black_hole).then_some(due))
    }

    /// [`hold`](Self::hold) for a piece whose moment follows from the pace, and has come when the
    /// pace is another.
    pub(super) fn hold_at_pace(&self, connection: &Connection, due: Instant, pace: Pace) -> bool {
        let now = wait::now();
        self.wait(connection, |effects| {
            let due = if effects.pace == pace { due } else { now };
            (!effects.black_hole).then_some(due)
        })
    }

    /// Waits until new connections go on; false if this one was reset before.
    pub(super) fn hold_new(&self, connection: &Connection) -> bool {
        let now = wait::now();
        self.wait(connection, |effects| {
            (!effects.black_hole && !effects.stall_new).then_some(now)
        })
    }

    /// Waits for the moment that follows from the faults in force, which may be none at all.
    fn wait(&self, connection: &Connection, due: impl Fn(&Effects) -> Option<Instant>) -> bool {
        let mut inner = self.lock();
        while !connection.is_reset() {
            inner = if let Some(due) = due(&inner.effects) {
                let left = due.saturating_duration_since(wait::now());
                if left.is_zero() {
                    return true;
                }
                self.changed
                    .wait_timeout(inner, left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            } else {
                self.changed
                    .wait(inner)
                    .unwrap_or_else(PoisonError::into_inner)
            };
        }
        false
    }

    /// Decides about a reply of this length. Of those that could be the only one to be cut, the
    /// first to ask is.
    pub(super) fn fate(&self, connection: &Connection, length: usize) -> Fate {
        let mut inner = self.lock();
        match inner.effects.replies {
            Replies::Drop => {
                connection.spoil();
                return Fate::Vanish;
            }
            Replies::Replace(bytes) => {
                connection.spoil();
                return Fate::Become(bytes);
            }
            Replies::Pass => {}
        }
        let left = connection.cut_after().or_else(|| inner.effects.claim_cut());
        match left {
            None => Fate::Pass,
            Some(left) if left <= length => Fate::CutAfter(left),
            Some(left) => {
                connection.set_cut_after(left - length);
                Fate::Pass
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing here is left half done by a panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
