//! How much of the service a connection has used without waiting for input.

use super::SHARE_MAX;

/// The commands of a connection since it has last waited for input, or let all other tasks run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CommandShare {
    commands: usize,
    /// The connection has had a whole share, and has not waited for input since.
    pub(super) is_greedy: bool,
}

impl CommandShare {
    pub(super) const fn spend(&mut self, commands: usize) {
        self.commands += commands;
    }

    pub(super) const fn is_spent(self) -> bool {
        self.commands >= SHARE_MAX
    }

    /// Lets all other tasks run, and begins the next share.
    pub(super) async fn renew(&mut self) {
        *self = Self {
            commands: 0,
            is_greedy: true,
        };
        tokio::task::yield_now().await;
    }
}
