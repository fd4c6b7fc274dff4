//! A TCP proxy that does to connections what networks and dying servers do to them.
//!
//! - `fault`: what can be done, and what follows from several faults at once.
//! - `gate`: the port, listening or not.
//! - `connection`: one client's connection and the one to the server behind it.
//! - `lane`: one direction of a connection.
//! - `state`: what all of these share.
//! - `flap`: a gate that opens and closes by itself.
//!
//! ```no_run
//! use std::time::Duration;
//! use testkit::fault_proxy::{Fault, FaultProxy};
//! use testkit::servers::{Flavor, Server};
//!
//! let server = Server::start(Flavor::Redis);
//! let proxy = FaultProxy::start(server.addr());
//! proxy.set(Fault::DelayReplies(Duration::from_millis(20)));
//! // ... a client of `proxy.addr()` now waits 20 ms for every reply ...
//! proxy.clear();
//! ```
//!
//! The proxy moves bytes and must not know the protocol they are in. A "reply" is what the server
//! sent and the proxy read at once.

mod connection;
mod fault;
mod flap;
mod gate;
mod lane;
mod state;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::fault::Fault;
use self::fault::{Effects, Entry};
use self::flap::Flapping;
use self::gate::Gate;
use self::state::State;
use crate::ports::Port;

/// A proxy in front of one server. Its threads and connections end when it is dropped.
///
/// A fault concerns the connections there are and those to come. Nothing is lost on a connection
/// that goes on: what was held back arrives when the fault is over, as after lost packets. Where
/// bytes were swallowed or replaced the connection can only end, so it is reset when the fault is
/// over.
#[derive(Debug)]
pub struct FaultProxy {
    port: Port,
    state: Arc<State>,
    door: Mutex<Door>,
}

/// What lets connections in. One at a time may change it.
#[derive(Debug)]
struct Door {
    gate: Arc<Gate>,
    flapping: Option<Flapping>,
    faults: Vec<Fault>,
}

impl FaultProxy {
    /// A proxy without faults in front of a server, which need not be up.
    ///
    /// # Panics
    ///
    /// When no port can be listened on.
    pub fn start(target: SocketAddr) -> Self {
        let port = Port::reserve();
        let state = Arc::new(State::new(port.addr(), target));
        let gate = Arc::new(Gate::open(port.addr(), &state));
        Self {
            port,
            state,
            door: Mutex::new(Door {
                gate,
                flapping: None,
                faults: Vec::new(),
            }),
        }
    }

    /// Where clients connect.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// Replaces the faults there are by this one. It holds when this returns.
    ///
    /// # Panics
    ///
    /// When the port cannot be listened on again.
    pub fn set(&self, fault: Fault) {
        self.apply(|faults| *faults = vec![fault]);
    }

    /// Adds a fault to those there are. Of two of the same kind the later one holds.
    ///
    /// # Panics
    ///
    /// When the port cannot be listened on again.
    pub fn add(&self, fault: Fault) {
        self.apply(|faults| faults.push(fault));
    }

    /// Ends every fault.
    ///
    /// # Panics
    ///
    /// When the port cannot be listened on again.
    pub fn clear(&self) {
        self.apply(Vec::clear);
    }

    /// Resets every connection there is.
    pub fn cut(&self) {
        self.state.cut();
    }

    /// Sends the connections to come to another server. Those there are stay where they are.
    pub fn retarget(&self, target: SocketAddr) {
        self.state.retarget(target);
    }

    /// How many connections are open, stalled ones included.
    pub fn connections(&self) -> usize {
        self.state.connections()
    }

    /// How many connections there ever were.
    pub fn accepted(&self) -> u64 {
        self.state.accepted()
    }

    fn apply(&self, change: impl FnOnce(&mut Vec<Fault>)) {
        let mut door = self.door();
        // The flapping one moves the gate on its own, so it ends before anybody else does.
        door.flapping = None;
        // The cut that happens once is not to come back with the next fault once it has happened.
        if self.state.effects().cut.is_none() {
            door.faults
                .retain(|fault| !matches!(fault, Fault::CutNextReply { .. }));
        }
        change(&mut door.faults);
        let effects = Effects::of(&door.faults);
        self.state.set(effects);
        door.gate.set(effects.entry);
        door.flapping = effects
            .flap
            .map(|every| Flapping::start(every, &door.gate, &self.state));
    }

    fn door(&self) -> MutexGuard<'_, Door> {
        // A test that panicked while it held the lock has failed already; the rest only cleans up.
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        let mut door = self.door();
        door.flapping = None;
        door.gate.set(Entry::Refused);
        self.state.cut();
    }
}
