//! How a server ends: first it says so, then it waits for those who are still there, then it goes.

use tokio::sync::watch;

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ShutdownPhase {
    /// It has not begun.
    Serving,
    /// Everyone is asked to leave, and whoever comes is still served.
    Draining,
    /// Nobody new is let in.
    Closing,
    /// Time is up.
    Expired,
}

/// Hears of the end.
#[derive(Clone, Debug)]
pub(crate) struct ShutdownSignal(watch::Receiver<ShutdownPhase>);

/// Brings it about.
#[derive(Debug)]
pub(crate) struct ShutdownHandle(watch::Sender<ShutdownPhase>);

impl ShutdownHandle {
    pub(crate) fn new() -> (Self, ShutdownSignal) {
        let (sender, receiver) = watch::channel(ShutdownPhase::Serving);
        (Self(sender), ShutdownSignal(receiver))
    }

    pub(crate) fn say(&self, phase: ShutdownPhase) {
        self.0.send_replace(phase);
    }
}

impl ShutdownSignal {
    pub(crate) fn phase(&self) -> ShutdownPhase {
        *self.0.borrow()
    }

    /// Waits until the end has come so far.
    pub(crate) async fn reached(&mut self, phase: ShutdownPhase) {
        // When the other side is gone, so is the server.
        drop(self.0.wait_for(|now| *now >= phase).await);
    }
}
