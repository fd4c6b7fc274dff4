//! How a server ends: first it says so, then it waits for those who are still there, then it goes.

use tokio::sync::watch;

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It has not begun.
    Running,
    /// Everyone is asked to leave, and whoever comes is still served.
    Leaving,
    /// Nobody new is let in.
    Closed,
    /// Time is up.
    Over,
}

/// Hears of the end.
#[derive(Clone, Debug)]
pub(crate) struct Stop(watch::Receiver<Phase>);

/// Brings it about.
#[derive(Debug)]
pub(crate) struct Stopper(watch::Sender<Phase>);

impl Stopper {
    pub(crate) fn new() -> (Self, Stop) {
        let (sender, receiver) = watch::channel(Phase::Running);
        (Self(sender), Stop(receiver))
    }

    pub(crate) fn say(&self, phase: Phase) {
        self.0.send_replace(phase);
    }
}

impl Stop {
    pub(crate) fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    /// Waits until the end has come so far.
    pub(crate) async fn reached(&mut self, phase: Phase) {
        // When the other side is gone, so is the server.
        drop(self.0.wait_for(|now| *now >= phase).await);
    }
}
