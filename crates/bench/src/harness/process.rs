//! A server's process with a directory for its files. Neither outlives the run.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, Result};
use testkit::processes::{self, Directory};
use testkit::wait;

const OUTPUT: &str = "stdout";
const ERRORS: &str = "stderr";
/// How long a server may take to print its address.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Process {
    // Dropped before its directory.
    process: processes::Process,
    directory: Directory,
}

impl Process {
    /// Starts a program. Its output goes to files in a directory of its own.
    pub(crate) fn spawn(command: Command) -> Result<Self> {
        Self::spawn_in(Directory::create(), command)
    }

    /// Starts `tollgate serve` on free ports, with this configuration and what `adjust` adds to
    /// the command.
    pub(crate) fn serve(
        tollgate: &Path,
        config: &str,
        adjust: impl FnOnce(&mut Command),
    ) -> Result<Self> {
        let directory = Directory::create();
        let mut command = Command::new(tollgate);
        command.arg("serve").arg("--config");
        command.arg(directory.write("tollgate.yaml", config));
        for port in ["--http", "--grpc", "--admin"] {
            command.args([port, "127.0.0.1:0"]);
        }
        // Logging is not part of the measurement, and the environment may have enabled it.
        command.env_remove("RUST_LOG");
        adjust(&mut command);
        Self::spawn_in(directory, command)
    }

    /// Starts a program whose files are in this directory.
    pub(crate) fn spawn_in(directory: Directory, mut command: Command) -> Result<Self> {
        let path = directory.path();
        command.stdout(File::create(path.join(OUTPUT))?);
        command.stderr(File::create(path.join(ERRORS))?);
        let process = processes::Process::try_spawn(&mut command, path)
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self { process, directory })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The exit status, if the program has exited.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.process.ended()
    }

    /// The standard output so far.
    pub(crate) fn output(&self) -> String {
        self.read(OUTPUT)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }

    /// Waits for a line of the server's output that has an address after this word, and returns the
    /// address.
    pub(crate) fn announced(&mut self, word: &str) -> Result<SocketAddr> {
        self.wait(|process| address_after(&process.output(), word))
    }

    /// Waits until this is true; fails if the server has exited.
    pub(crate) fn wait_for(&mut self, is_ready: impl Fn(&Self) -> bool) -> Result<()> {
        self.wait(|process| is_ready(process).then_some(()))
    }

    fn wait<T>(&mut self, ready: impl Fn(&Self) -> Option<T>) -> Result<T> {
        let found = wait::within(PATIENCE, || {
            let is_over = self.ended().is_some();
            ready(self).map(Some).or(is_over.then_some(None))
        });
        found.flatten().with_context(|| {
            let errors = self.read(ERRORS);
            let errors = errors.trim();
            format!("the server did not become ready; its output: {errors}")
        })
    }
}

/// Runs a program to its end and returns its standard output, which must be what `parse` expects.
pub(crate) fn run_program<T>(
    command: &mut Command,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<T> {
    let program = command.get_program().display().to_string();
    let output = command
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let is_success = output.status.success();
    let parsed = is_success.then(|| parse(&text)).flatten();
    parsed.with_context(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        let (text, errors) = (text.trim(), errors.trim());
        format!("unexpected output of {program}: {text} {errors}")
    })
}

/// The name and version of a program, as it prints them.
pub(crate) fn program_version(program: impl AsRef<OsStr>) -> Result<String> {
    run_program(Command::new(program).arg("--version"), |text| {
        Some(text.trim().to_owned())
    })
}

fn address_after(output: &str, word: &str) -> Option<SocketAddr> {
    output.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix(word)?.trim_start();
        rest.split_once("://")
            .map_or(rest, |(_scheme, address)| address)
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
        let mut command = Command::new("sh");
        command.args(["-c", "echo the port is taken >&2; exit 1"]);
        let mut process = Process::spawn(command).unwrap();
        let path = process.directory.path().to_owned();
        let error = process.announced("http").unwrap_err().to_string();
        assert!(error.ends_with("its output: the port is taken"), "{error}");
        drop(process);
        assert!(!path.exists());
    }
}
