//! A server's process: started, stopped, continued and killed by its process id, and never left
//! behind.
//!
//! Dropping the value ends the process. If the test ends without dropping it, because it was killed
//! or the server is in a `static`, a guard ends the process: a shell that waits for the end of a
//! pipe which only the test holds open.

use std::io;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::wait;

/// Reads until the other end of the pipe is closed, then kills the server and removes its
/// directory.
const GUARD: &str = r#"read -r _; kill -9 "$0"; rm -rf -- "$1""#;
/// How long stopping a process may take on a busy machine.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A process that ends with the value.
#[derive(Debug)]
pub struct Process {
    child: Child,
    guard: Child,
    frozen: bool,
}

impl Process {
    /// Starts the command and its guard.
    pub(crate) fn spawn(command: &mut Command, directory: &Path) -> Self {
        Self::try_spawn(command, directory).expect("the server's program can be started")
    }

    /// Starts the command, and a guard that kills it and removes the directory if this process
    /// ends first.
    ///
    /// # Panics
    ///
    /// If there is no shell for the guard.
    pub fn try_spawn(command: &mut Command, directory: &Path) -> io::Result<Self> {
        let child = command.stdin(Stdio::null()).spawn()?;
        Ok(Self::guarded(child, directory))
    }

    /// Starts the command and its guard, with pipes to its standard input and output.
    ///
    /// # Panics
    ///
    /// If the program cannot be started.
    pub fn spawn_with_pipes(
        command: &mut Command,
        directory: &Path,
    ) -> (Self, ChildStdin, ChildStdout) {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("the program can be started");
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

        let guard = guard.spawn().expect("a shell can be started");

        Self {
            child,
            guard,
            frozen: false,
        }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, if the process has exited.
    ///
    /// # Panics
    ///
    /// If the system does not know the process.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child
            .try_wait()
            .expect("the process is a child of this one")
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Stops the process (SIGSTOP) and returns when it is stopped.
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub fn freeze(&mut self) {
        self.signal(Signal::STOP);
        let pid = Pid::from_child(&self.child);

        // `NOWAIT` leaves the state in place, so that `Child` can still collect the exit status.
        let look = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        wait::until_true(
            STOP_LIMIT,
            "a process to stop",
            || matches!(waitid(WaitId::Pid(pid), look), Ok(Some(status)) if status.stopped()),
        );

        self.frozen = true;
    }

    /// Continues a frozen process (SIGCONT).
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub fn thaw(&mut self) {
        self.signal(Signal::CONT);
        self.frozen = false;
    }

    /// Kills the process and waits for its end. The guard is ended first, because afterwards the
    /// process id could belong to another process.
    pub fn kill(&mut self) {
        for child in [&mut self.guard, &mut self.child] {
            // The process may have exited already.
            let _ended = child.kill();
            let _status = child.wait();
        }
        self.frozen = false;
    }

    fn signal(&mut self, signal: Signal) {
        assert!(
            self.ended().is_none(),
            "cannot signal a server that has exited"
        );
        kill_process(Pid::from_child(&self.child), signal)
            .expect("a running child accepts signals");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
