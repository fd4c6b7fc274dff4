//! Real web applications behind proxies, written in JavaScript or Python.
//!
//! `cargo xtask test` installs their frameworks. An application takes a port as its only argument.
//! This module owns the process; it does not know what the application does.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::ports::Port;
use crate::processes::{Directory, Process, find_beside, find_program};
use crate::wait;

/// How long an application may take to start on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The file of the directory that has the application's output.
const LOG_FILE: &str = "log";

/// A running application. Its process and its directory are removed when it is dropped.
#[derive(Debug)]
pub struct Backend {
    // Dropped before the directory it writes to.
    process: Process,
    directory: Directory,
    port: Port,
}

impl Backend {
    /// A script for Node, started in a copy of its directory next to the installed packages.
    ///
    /// # Panics
    ///
    /// If it does not start, with its output; or if Node or the packages are missing.
    pub fn node(script: &Path) -> Self {
        let directory = Directory::create();
        let (source, name) = split(script);
        for file in fs::read_dir(source)
            .expect("a readable directory")
            .flatten()
        {
            let copied = fs::copy(file.path(), directory.path().join(file.file_name()));
            copied.expect("the scripts can be copied");
        }

        // `bin` has a link to Node, beside the packages.
        let node = find_program("TOLLGATE_NODE_BACKENDS", "node-backends");
        let home = node
            .parent()
            .and_then(Path::parent)
            .expect("it is in `bin`");
        let packages = home.join("node_modules");
        symlink(packages, directory.path().join("node_modules")).expect("a writable directory");

        let mut command = Command::new(node);
        command.arg(directory.path().join(name));
        Self::start(command, directory)
    }

    /// A script for Python.
    ///
    /// # Panics
    ///
    /// If it does not start, with its output; or if a Python with the frameworks is missing.
    pub fn python(script: &Path) -> Self {
        let python = find_beside("TOLLGATE_PYTHON_BACKENDS", "flask", "python3");
        let mut command = Command::new(python);
        command.arg(script).env("PYTHONDONTWRITEBYTECODE", "1");
        Self::start(command, Directory::create())
    }

    /// The address it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    fn start(mut command: Command, directory: Directory) -> Self {
        let port = Port::reserve();
        let log = File::create(directory.path().join(LOG_FILE)).expect("a writable directory");
        let errors = log.try_clone().expect("a file can be opened twice");
        command
            .arg(port.number().to_string())
            .stdout(log)
            .stderr(errors);

        let process = Process::spawn(&mut command, directory.path());
        let mut backend = Self {
            process,
            directory,
            port,
        };
        backend.wait_for_port();
        backend
    }

    fn wait_for_port(&mut self) {
        let listens = wait::within(START_LIMIT, || {
            let ended = self.process.ended().map(|_| false);
            ended.or_else(|| TcpStream::connect(self.addr()).is_ok().then_some(true))
        });
        let log = || fs::read_to_string(self.directory.path().join(LOG_FILE)).unwrap_or_default();
        assert!(
            listens == Some(true),
            "the application did not start: {}",
            log()
        );
    }
}

fn split(script: &Path) -> (&Path, &Path) {
    let directory = script.parent().expect("a script is in a directory");
    let name = script.file_name().expect("a script has a name");
    (directory, Path::new(name))
}
