//! A proxy's process and its directory: ended and removed with their value, and by a guard when the test dies without
//! dropping anything. The guard is a shell that waits for the end of a pipe which only the test holds open.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Reads until the pipe's other end is closed, then ends the proxy and removes its directory.
const GUARD: &str = r#"read -r _; kill -9 "$0"; rm -rf -- "$1""#;
const LOG_FILE: &str = "log";

static CREATED: AtomicU32 = AtomicU32::new(0);

/// A new directory for temporary files, removed with everything in it when dropped.
#[derive(Debug)]
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn create() -> Self {
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tollgate-proxy-{}-{number}", std::process::id()));
        // A process that was killed may have left one of the same name behind.
        let _absent = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the directory for temporary files can be written");
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file into it and returns where it is.
    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a directory just created can be written");
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _best_effort = fs::remove_dir_all(&self.0);
    }
}

#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    guard: Child,
    log: PathBuf,
}

impl Process {
    /// Starts the command and a guard for it. What it writes to either stream is its log.
    pub(super) fn spawn(mut command: Command, directory: &Path) -> Self {
        let log = directory.join(LOG_FILE);
        let output = File::create(&log).expect("the proxy's directory can be written");
        let errors = output.try_clone().expect("a file can be opened twice");
        command.current_dir(directory).stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = command.spawn().expect("the proxy's program was found and can be started");
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, &child.id().to_string()]).arg(directory);
        guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let guard = guard.spawn().expect("there is a shell on every system that tests run on");
        Self { child, guard, log }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the child is ours to wait for")
    }

    pub(super) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

impl Drop for Process {
    /// The guard goes first: afterwards the id could be someone else's.
    fn drop(&mut self) {
        for child in [&mut self.guard, &mut self.child] {
            // What has ended by itself needs no more.
            let _ended = child.kill();
            let _status = child.wait();
        }
    }
}
