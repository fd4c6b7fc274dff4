//! Graceful shutdown: announce it, stop accepting, wait for open connections, then close them.

use std::time::Duration;

use tokio::sync::watch;

/// The phases of a shutdown, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ShutdownPhase {
    /// Normal operation.
    Serving,
    /// Clients are asked to disconnect; new connections are still accepted.
    Draining,
    /// New connections are no longer accepted.
    Closing,
    /// The drain timeout has passed: connections are closed whatever they do.
    Expired,
}

/// Receives the phases of a shutdown.
#[derive(Clone, Debug)]
pub(crate) struct ShutdownSignal(watch::Receiver<ShutdownPhase>);

/// Starts a shutdown and moves it on from phase to phase.
#[derive(Debug)]
pub(crate) struct ShutdownHandle(watch::Sender<ShutdownPhase>);

impl ShutdownHandle {
    pub(crate) fn new() -> (Self, ShutdownSignal) {
        let (sender, receiver) = watch::channel(ShutdownPhase::Serving);
        (Self(sender), ShutdownSignal(receiver))
    }

    /// Enters a phase.
    pub(crate) fn enter(&self, phase: ShutdownPhase) {
        self.0.send_replace(phase);
    }
}

impl ShutdownSignal {
    /// The current phase.
    pub(crate) fn phase(&self) -> ShutdownPhase {
        *self.0.borrow()
    }

    /// Waits until the shutdown is in this phase or a later one.
    pub(crate) async fn wait_for(&mut self, phase: ShutdownPhase) {
        // An error means that the handle was dropped, which ends the server too.
        drop(self.0.wait_for(|now| *now >= phase).await);
    }

    /// Pauses a periodic task. Returns false as soon as the shutdown starts.
    pub(crate) async fn pause(&mut self, duration: Duration) -> bool {
        let draining = self.wait_for(ShutdownPhase::Draining);
        tokio::time::timeout(duration, draining).await.is_err()
    }
}
