//! A TCP proxy that injects the faults of networks and failing servers.
//!
//! - `fault`: the faults, and their combined effects.
//! - `gate`: the listening port.
//! - `connection`: a client's connection and the matching one to the server.
//! - `lane`: one direction of a connection.
//! - `state`: the state shared by all of these.
//! - `flap`: a thread that opens and closes the gate periodically.
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
//! The proxy forwards bytes and does not know their protocol. A "reply" is what the proxy received
//! from the server in one read.

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
use self::flap::FlapThread;
use self::gate::Gate;
use self::state::State;
use crate::ports::Port;

/// A proxy in front of one server. Its threads and connections end when it is dropped.
///
/// A fault applies to existing and to new connections. Nothing is lost on a connection that
/// continues: delayed bytes arrive when the fault is cleared, as after lost packets. Where bytes
/// were dropped or replaced, the connection cannot continue, so it is reset when the fault is
/// cleared.
#[derive(Debug)]
pub struct FaultProxy {
    port: Port,
    state: Arc<State>,
    control: Mutex<ProxyControl>,
}

/// The parts that control new connections, behind one lock.
#[derive(Debug)]
struct ProxyControl {
    gate: Arc<Gate>,
    flap_thread: Option<FlapThread>,
    faults: Vec<Fault>,
}

impl FaultProxy {
    /// Starts a proxy without faults. The server need not be running.
    ///
    /// # Panics
    ///
    /// If no port can be bound.
    pub fn start(target: SocketAddr) -> Self {
        let port = Port::reserve();
        let state = Arc::new(State::new(port.addr(), target));
        let gate = Arc::new(Gate::open(port.addr(), &state));

        Self {
            port,
            state,
            control: Mutex::new(ProxyControl {
                gate,
                flap_thread: None,
                faults: Vec::new(),
            }),
        }
    }

    /// The address for clients.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// Replaces all faults by this one. It is in effect when this returns.
    ///
    /// # Panics
    ///
    /// If the port cannot be bound again.
    pub fn set(&self, fault: Fault) {
        self.apply(|faults| *faults = vec![fault]);
    }

    /// Adds a fault. It replaces an earlier one of the same kind.
    ///
    /// # Panics
    ///
    /// If the port cannot be bound again.
    pub fn add(&self, fault: Fault) {
        self.apply(|faults| faults.push(fault));
    }

    /// Clears all faults.
    ///
    /// # Panics
    ///
    /// If the port cannot be bound again.
    pub fn clear(&self) {
        self.apply(Vec::clear);
    }

    /// Resets all connections.
    pub fn cut(&self) {
        self.state.cut();
    }

    /// Forwards new connections to another server. Existing ones are not affected.
    pub fn retarget(&self, target: SocketAddr) {
        self.state.retarget(target);
    }

    /// The number of open connections, including stalled ones.
    pub fn connections(&self) -> usize {
        self.state.connections()
    }

    /// The number of connections accepted since the start.
    pub fn accepted(&self) -> u64 {
        self.state.accepted()
    }

    fn apply(&self, change: impl FnOnce(&mut Vec<Fault>)) {
        let mut control = self.control();

        // The flap thread changes the gate itself, so it must end first.
        control.flap_thread = None;

        // A cut that happens once must not return with the next fault once it has happened.
        if self.state.effects().cut.is_none() {
            control
                .faults
                .retain(|fault| !matches!(fault, Fault::CutNextReply { .. }));
        }

        change(&mut control.faults);

        let effects = Effects::of(&control.faults);
        self.state.set(effects);
        control.gate.set(effects.entry);
        control.flap_thread = effects
            .flap
            .map(|every| FlapThread::start(every, &control.gate, &self.state));
    }

    fn control(&self) -> MutexGuard<'_, ProxyControl> {
        // A test that panicked while it held the lock has failed already; the rest only cleans up.
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        let mut control = self.control();
        control.flap_thread = None;
        control.gate.set(Entry::Refused);
        self.state.cut();
    }
}
