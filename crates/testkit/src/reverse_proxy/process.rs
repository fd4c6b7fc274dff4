//! A proxy's process and the log that it writes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

const LOG_FILE: &str = "log";

/// A process with a log file.
#[derive(Debug)]
pub(super) struct LoggedProcess {
    process: crate::processes::Process,
    log: PathBuf,
}

impl LoggedProcess {
    /// Starts the command. Its standard output and standard error go to the log.
    pub(super) fn spawn(mut command: Command, directory: &Path) -> Self {
        let log = directory.join(LOG_FILE);
        let output = File::create(&log).expect("the proxy's directory is writable");
        let errors = output.try_clone().expect("a file can be opened twice");
        command.current_dir(directory).stdout(output).stderr(errors);
        Self {
            process: crate::processes::Process::spawn(&mut command, directory),
            log,
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The exit status, if the process has exited.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.process.ended()
    }

    pub(super) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}
