//! A server's process with a directory for its files. Neither outlives the run: both are removed
//! when the value is dropped. If the run is killed, a guard process removes them: a shell that
//! waits for the end of a pipe which only the run holds open.

use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use testkit::wait;

/// Reads until the other end of the pipe is closed, then kills the server and removes its
/// directory.
const GUARD: &str = r#"read -r _; kill -9 "$0"; rm -rf -- "$1""#;
const OUTPUT: &str = "stdout";
const ERRORS: &str = "stderr";
/// How long a server may take to print its address.
const PATIENCE: Duration = Duration::from_secs(20);

static CREATED: AtomicU32 = AtomicU32::new(0);

/// A new directory for temporary files, removed on drop with everything in it.
#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    guard: Child,
    directory: Directory,
}

impl Directory {
    pub(crate) fn create() -> io::Result<Self> {
        let name = format!(
            "tollgate-bench-{}-{}",
            std::process::id(),
            CREATED.fetch_add(1, Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// Writes a file into the directory and returns its path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        fs::write(&path, content)?;
        Ok(path)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _best_effort = fs::remove_dir_all(&self.0);
    }
}

impl Process {
    /// Starts a server and its guard. Its output goes to files in the directory.
    pub(crate) fn spawn(mut command: Command, directory: Directory) -> io::Result<Self> {
        command.stdin(Stdio::null());
        command.stdout(File::create(directory.0.join(OUTPUT))?);
        command.stderr(File::create(directory.0.join(ERRORS))?);
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("cannot start {program}: {error}"))
        })?;
        let mut guard = Command::new("sh");
        guard
            .args(["-c", GUARD, &child.id().to_string()])
            .arg(&directory.0);
        guard
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match guard.spawn() {
            Ok(guard) => Ok(Self {
                child,
                guard,
                directory,
            }),
            Err(error) => {
                end(&mut child);
                Err(error)
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server (SIGKILL) and waits for its end; its files stay. The guard is ended first,
    /// because afterwards the process id could belong to another process.
    pub(crate) fn kill(&mut self) {
        end(&mut self.guard);
        end(&mut self.child);
    }

    /// Waits for a line of the server's output that has an address after this word, and returns the
    /// address.
    pub(crate) fn announced(&mut self, word: &str) -> io::Result<SocketAddr> {
        self.wait_for(|process| address_after(&process.directory.read(OUTPUT), word))
    }

    /// Waits until `ready` returns a value; fails if the server has exited.
    pub(crate) fn wait_for<T>(&mut self, ready: impl Fn(&Self) -> Option<T>) -> io::Result<T> {
        let found = wait::within(PATIENCE, || {
            let is_over = self.child.try_wait().is_ok_and(|status| status.is_some());
            ready(self).map(Some).or(is_over.then_some(None))
        });
        found.flatten().ok_or_else(|| {
            let said = self.directory.read(ERRORS);
            io::Error::other(format!(
                "the server did not become ready; its output: {}",
                said.trim()
            ))
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn end(child: &mut Child) {
    // The process may have exited already.
    let _ended = child.kill();
    let _status = child.wait();
}

fn address_after(output: &str, word: &str) -> Option<SocketAddr> {
    output.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix(word)?.trim_start();
        rest.strip_prefix("http://")
            .unwrap_or(rest)
            .trim_end()
            .parse()
            .ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_after_its_word() {
        let output =
            "tollgate: http and grpc\n  http   http://127.0.0.1:80\n  grpc   http://127.0.0.1:81\n";
        assert_eq!(
            address_after(output, "grpc"),
            Some(SocketAddr::from(([127, 0, 0, 1], 81)))
        );
        assert_eq!(address_after(output, "admin"), None);
    }

    #[test]
    fn an_exited_server_is_an_error_with_its_output() {
        let directory = Directory::create().unwrap();
        let path = directory.0.clone();
        let mut command = Command::new("sh");
        command.args(["-c", "echo the port is taken >&2; exit 1"]);
        let mut process = Process::spawn(command, directory).unwrap();
        let error = process.announced("http").unwrap_err().to_string();
        assert!(error.ends_with("its output: the port is taken"), "{error}");
        drop(process);
        assert!(!path.exists());
    }
}
