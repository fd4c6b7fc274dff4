//! The state shared by the parts of a proxy: the active faults and the connections.

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
    /// The name of the proxy's threads, which distinguishes them from others.
    thread_name: String,
    inner: Mutex<Inner>,
    /// Notified when the faults change or a connection is reset.
    changed: Condvar,
}

#[derive(Debug)]
struct Inner {
    target: SocketAddr,
    effects: Effects,
    accepted: u64,
    open: BTreeMap<u64, (Arc<Connection>, JoinHandle<()>)>,
}

/// What happens to the current reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyFate {
    Pass,
    Vanish,
    Become(&'static [u8]),
    /// Only this many bytes of it arrive, then a reset.
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

    /// A builder for a thread of this proxy.
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

    /// Activates faults. A connection on which bytes were dropped or replaced cannot continue
    /// without the fault, so it is reset.
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

    /// Serves a new client.
    pub(super) fn admit(self: &Arc<Self>, client: TcpStream) {
        let mut inner = self.lock();
        inner.accepted += 1;
        let id = inner.accepted;

        let connection = Arc::new(Connection::new(client));
        let (state, own) = (Arc::clone(self), Arc::clone(&connection));

        // At its end the thread removes itself from the list, for which it needs the lock that is
        // held until it has been added.
        let thread = self.thread().spawn(move || {
            connection::run(&state, &own);
            state.lock().open.remove(&id);
        });

        let thread = thread.expect("a thread can be started");
        inner.open.insert(id, (connection, thread));
    }

    /// Resets every connection and waits for their threads to end, which closes the sockets.
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

    /// Waits until the time `due` has come and no fault holds bytes back; false if the connection
    /// was reset.
    pub(super) fn hold(&self, connection: &Connection, due: Instant) -> bool {
        self.wait(connection, |effects| (!effects.black_hole).then_some(due))
    }

    /// [`hold`](Self::hold) for a piece whose time follows from the pace; returns early when the
    /// pace changes.
    pub(super) fn hold_at_pace(&self, connection: &Connection, due: Instant, pace: Pace) -> bool {
        let now = wait::now();
        self.wait(connection, |effects| {
            let due = if effects.pace == pace { due } else { now };
            (!effects.black_hole).then_some(due)
        })
    }

    /// Waits until new connections may continue; false if this one was reset.
    pub(super) fn hold_new(&self, connection: &Connection) -> bool {
        let now = wait::now();
        self.wait(connection, |effects| {
            (!effects.black_hole && !effects.stall_new).then_some(now)
        })
    }

    /// Waits for the time that follows from the active faults, which may be never.
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

    /// Decides what happens to a reply of this length. A cut that happens once applies to the first
    /// reply that asks.
    pub(super) fn fate(&self, connection: &Connection, length: usize) -> ReplyFate {
        let mut inner = self.lock();
        match inner.effects.replies {
            Replies::Drop => {
                connection.spoil();
                return ReplyFate::Vanish;
            }
            Replies::Replace(bytes) => {
                connection.spoil();
                return ReplyFate::Become(bytes);
            }
            Replies::Pass => {}
        }

        let left = connection.cut_after().or_else(|| inner.effects.claim_cut());
        match left {
            None => ReplyFate::Pass,
            Some(left) if left <= length => ReplyFate::CutAfter(left),
            Some(left) => {
                connection.set_cut_after(left - length);
                ReplyFate::Pass
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic cannot leave the state inconsistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
