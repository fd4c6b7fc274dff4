//! A server's process: started, stopped, continued and killed by its own id, and never left behind.
//!
//! Dropping the value ends the process. When the test dies without dropping anything, because it
//! was killed or its server lives in a `static`, a guard ends it: a shell that waits for the end of
//! a pipe which only the test holds open.

use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::wait;

/// Reads until the pipe's other end is closed, then ends the server and removes its directory.
const GUARD: &str = r#"read -r _; kill -9 "$0"; rm -rf -- "$1""#;
/// How long the system may take to stop a process: it is busy, or broken.
const STOP_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    guard: Child,
    frozen: bool,
}

impl Process {
    /// Starts the command and a guard for it.
    pub(crate) fn spawn(command: &mut Command, directory: &Path) -> Self {
        let child = command.stdin(Stdio::null()).spawn();
        Self::guarded(
            child.expect("the server's program was found and can be started"),
            directory,
        )
    }

    /// The same for one that is talked to.
    pub(crate) fn spawn_with_pipes(
        command: &mut Command,
        directory: &Path,
    ) -> (Self, ChildStdin, ChildStdout) {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("the program was found and can be started");
        let input = child.stdin.take().expect("it is piped");
        let output = child.stdout.take().expect("it is piped");
        (Self::guarded(child, directory), input, output)
    }

    fn guarded(child: Child, directory: &Path) -> Self {
        let mut guard = Command::new("sh");
        guard
            .args(["-c", GUARD, &child.id().to_string()])
            .arg(directory);
        guard
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let guard = guard
            .spawn()
            .expect("there is a shell on every system that tests run on");
        Self {
            child,
            guard,
            frozen: false,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child
            .try_wait()
            .expect("the child is ours to wait for")
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Stops it and returns when it stands still.
    pub(crate) fn freeze(&mut self) {
        self.signal(Signal::STOP);
        let pid = Pid::from_child(&self.child);
        // The state is only looked at: taking it would take the end of the process from `Child` as
        // well.
        let look = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        wait::until_true(
            STOP_LIMIT,
            "a process to stop",
            || matches!(waitid(WaitId::Pid(pid), look), Ok(Some(status)) if status.stopped()),
        );
        self.frozen = true;
    }

    pub(crate) fn thaw(&mut self) {
        self.signal(Signal::CONT);
        self.frozen = false;
    }

    /// Kills it and waits for its end. The guard goes first: afterwards the id could be someone
    /// else's.
    pub(crate) fn kill(&mut self) {
        for child in [&mut self.guard, &mut self.child] {
            // What has ended by itself needs no more.
            let _ended = child.kill();
            let _status = child.wait();
        }
        self.frozen = false;
    }

    fn signal(&mut self, signal: Signal) {
        assert!(
            self.ended().is_none(),
            "a signal was meant for a server that has ended"
        );
        kill_process(Pid::from_child(&self.child), signal).expect("a running child takes signals");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
