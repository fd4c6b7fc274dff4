//! How much of the service the port has used since it has let other tasks run.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The commands that are answered together, and after which the port lets all other tasks run.
/// Those behind them wait in the buffer.
pub(super) const SHARE_MAX: usize = 64;

/// The commands of all connections since the port has last let all other tasks run. A connection
/// cannot have a share of its own: clients that wait for their replies would renew theirs all the
/// time, and many of them would use the whole service.
#[derive(Debug, Default)]
pub(super) struct PortShare {
    commands: AtomicUsize,
}

impl PortShare {
    pub(super) fn spend(&self, commands: usize) {
        self.commands.fetch_add(commands, Relaxed);
    }

    /// If the share is spent, lets all other tasks run and begins the next one.
    pub(super) async fn let_others_run(&self) {
        if self.commands.load(Relaxed) >= SHARE_MAX {
            self.commands.store(0, Relaxed);
            tokio::task::yield_now().await;
        }
    }
}
